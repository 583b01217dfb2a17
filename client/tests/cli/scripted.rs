//! A server that answers from a script, one answer a request, and keeps the heads of the requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Lines of a request's head.
pub(crate) type RequestHead = Vec<String>;

/// A server with a script.
#[derive(Debug)]
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<RequestHead>>>,
}

impl Scripted {
    /// Serves these answers: head lines of each, and its body. The last one is given again and again.
    pub(crate) fn new(answers: &[(&str, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has an address");
        let heads = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&heads);
        let answers: Vec<_> =
            answers.iter().map(|(head, body)| ((*head).to_owned(), (*body).to_owned())).collect();
        thread::spawn(move || {
            for (index, stream) in listener.incoming().flatten().enumerate() {
                let (head, body) = &answers[index.min(answers.len() - 1)];
                kept.lock().expect("no thread panics").push(serve(&stream, head, body));
            }
        });
        Self { address, heads }
    }

    /// The heads of the requests.
    pub(crate) fn heads(&self) -> Vec<RequestHead> {
        self.heads.lock().expect("no thread panics").clone()
    }

    /// A header of each request.
    pub(crate) fn headers(&self, name: &str) -> Vec<String> {
        let of = |head: &RequestHead| {
            let line = head.iter().find_map(|line| line.strip_prefix(&format!("{name}: ")));
            line.unwrap_or_default().to_owned()
        };
        self.heads().iter().map(of).collect()
    }
}

/// Reads one request and answers it on a connection of its own.
fn serve(mut stream: &TcpStream, head: &str, body: &str) -> RequestHead {
    let mut reader = BufReader::new(stream);
    let (mut lines, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        length = line.strip_prefix("content-length: ").map_or(length, |text| text.parse().expect("a number"));
        lines.push(line);
    }
    let mut sent = vec![0; length];
    reader.read_exact(&mut sent).expect("a body");
    let length = body.len();
    let answer = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).expect("it reads");
    lines
}
