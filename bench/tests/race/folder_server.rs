//! A server of S3 over a folder: `root/bucket/key` is an object. A tool that copies files there or from there
//! is a whole transfer tool, and one that lies is a line of a shell.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::{fs, thread};

use percent_encoding::percent_decode_str;

/// Starts the server; it ends with the process.
pub(crate) fn start(root: &Path) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let root = root.to_owned();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let root = root.clone();
            thread::spawn(move || serve(stream.unwrap(), &root));
        }
    });
    address
}

/// Answers requests until the client ends the connection.
fn serve(stream: TcpStream, root: &Path) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let (status, body) = answer(root, &method, &target, &body);
        let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n", body.len());
        // One write: two of them wait for each other's acknowledgement.
        reader.get_mut().write_all(&[head.as_bytes(), &body].concat()).ok()?;
    }
}

fn answer(root: &Path, method: &str, target: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = path.trim_start_matches('/');
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    let folder = root.join(bucket);
    match (method, key, query) {
        ("PUT", "", "") if folder.exists() => (409, b"<Code>BucketAlreadyOwnedByYou</Code>".to_vec()),
        ("PUT", "", "") => (200, fs::create_dir(folder).map(|()| Vec::new()).unwrap()),
        ("DELETE", "", "") => (204, fs::remove_dir_all(folder).map(|()| Vec::new()).unwrap()),
        ("GET", "", query) => (200, listing(&folder, query).into()),
        ("GET", key, "") => match fs::read(folder.join(key)) {
            Ok(bytes) => (200, bytes),
            Err(_) => (404, b"<Code>NoSuchKey</Code>".to_vec()),
        },
        ("PUT", key, "") => {
            let path = folder.join(key);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            (200, fs::write(path, body).map(|()| Vec::new()).unwrap())
        }
        ("POST", "", "delete=") => {
            let text = std::str::from_utf8(body).unwrap();
            let keys: Vec<&str> =
                text.split("<Key>").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
            for key in &keys {
                fs::remove_file(folder.join(key)).unwrap();
            }
            (200, "<Deleted></Deleted>".repeat(keys.len()).into())
        }
        other => panic!("{other:?}"),
    }
}

fn listing(folder: &Path, query: &str) -> String {
    let value = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let found = pairs.find(|(found, _)| *found == name).map_or("", |(_, value)| value);
        percent_decode_str(found).decode_utf8().unwrap().into_owned()
    };
    let (prefix, after) = (value("prefix"), value("start-after"));
    let mut keys: Vec<(String, PathBuf)> = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(inner) = open.pop() {
        for entry in fs::read_dir(inner).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                keys.push((path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned(), path));
            }
        }
    }
    keys.retain(|(key, _)| key.starts_with(&prefix) && *key > after);
    keys.sort();
    let page: usize = value("max-keys").parse().unwrap();
    let mut xml = format!("<ListBucketResult><IsTruncated>{}</IsTruncated>", keys.len() > page);
    for (key, path) in keys.iter().take(page) {
        let metadata = fs::metadata(path).unwrap();
        let modified = metadata.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        let bytes = metadata.len();
        write!(xml, "<Contents><Key>{key}</Key><LastModified>{modified}</LastModified>").unwrap();
        write!(xml, "<ETag>e</ETag><Size>{bytes}</Size></Contents>").unwrap();
    }
    xml + "</ListBucketResult>"
}
