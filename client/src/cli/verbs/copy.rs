//! `cp` and `mv`: sources and a target become jobs.

use std::collections::HashSet;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::object::{cat, pipe};
use crate::cli::address::{Address, RemoteAddress};
use crate::cli::arguments::CopyArgs;
use crate::cli::exit::Exit;
use crate::cli::session::{Session, VerbError, VerbResult, shown, usage};
use crate::client::Client;
use crate::error::{Error, NameFault};
use crate::glob::Filters;
use crate::local::media_type::media_type;
use crate::local::path::file_name;
use crate::s3::objects::{ObjectAttributes, ObjectName};
use crate::sync::side::{Side, SideEntry};
use crate::transfer::job::{Job, JobEnd, Jobs};

/// Settings of a copy.
pub(crate) struct CopyOptions {
    pub(crate) is_move: bool,
    pub(crate) attributes: Option<ObjectAttributes>,
    pub(crate) filters: Filters,
}

impl CopyOptions {
    pub(crate) const fn verb(&self) -> &'static str {
        if self.is_move { "move" } else { "copy" }
    }

    /// A job whose object gets the attributes that were given, and the type of its name if it was a file.
    pub(crate) fn job(&self, source: JobEnd, target: JobEnd, bytes: Option<u64>) -> Job {
        let mut attributes = self.attributes.clone();
        if let (JobEnd::File(_), JobEnd::Object { object, .. }) = (&source, &target) {
            let given = attributes.get_or_insert_default();
            let has_type = given.headers.iter().any(|(name, _)| name == "content-type");
            if let Some(kind) = media_type(&object.key).filter(|_| !has_type) {
                given.headers.push(("content-type".to_owned(), kind.to_owned()));
            }
        }
        Job { source, target, bytes, attributes, is_move: self.is_move }
    }
}

pub(crate) async fn copy(session: &Session, arguments: CopyArgs, is_move: bool) -> VerbResult {
    let CopyArgs { mut addresses, recursive, dry_run: _, fsync: _, filters, attributes } = arguments;
    let Some(target) = addresses.pop() else { return usage("the target is missing") };
    let target = Address::parse(&target).map_err(VerbError::Usage)?;
    let sources = parsed(&addresses)?;
    if let ([Address::Standard], Address::Remote(remote)) = (sources.as_slice(), &target) {
        return pipe(session, remote, attributes.given().unwrap_or_default()).await;
    }
    if let (true, Address::Standard) = (!recursive, &target) {
        return cat(session, &addresses).await;
    }
    let is_folder = recursive || sources.len() > 1;
    let place = Target::new(session, target, is_folder)?;
    for source in &sources {
        check(source, &place, recursive)?;
    }
    let options = CopyOptions { is_move, attributes: attributes.given(), filters: filters.filters() };
    let taken = (sources.len() > 1).then(|| Mutex::new(HashSet::new()));
    session
        .engine
        .run(async |jobs| {
            let planner = Planner { session, jobs: &jobs, target: &place, options: &options, taken };
            for source in sources {
                let name = address_text(&source);
                let ended =
                    if recursive { planner.plan_tree(source).await } else { planner.plan_one(source).await };
                if let Err(error) = ended {
                    session.fail(options.verb(), name, error).await;
                }
            }
        })
        .await;
    Ok(Exit::Done)
}

fn parsed(addresses: &[OsString]) -> Result<Vec<Address>, VerbError> {
    addresses.iter().map(|text| Address::parse(text).map_err(VerbError::Usage)).collect()
}

fn address_text(address: &Address) -> String {
    match address {
        Address::Remote(remote) => remote.to_string(),
        Address::Local(path) => shown(path.as_os_str()),
        Address::Standard => "-".to_owned(),
    }
}

/// Where copies go.
enum Target {
    /// The name of one copy.
    File(PathBuf),
    /// The key of one copy.
    Key(Client, RemoteAddress),
    /// A folder or prefix for names.
    Side(Side),
}

impl Target {
    fn new(session: &Session, address: Address, is_folder: bool) -> Result<Self, VerbError> {
        match address {
            Address::Standard => usage("`-` takes one copy, and no folder"),
            Address::Local(path) => {
                let is_folder =
                    is_folder || path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/");
                Ok(if is_folder { Self::Side(Side::Folder(path)) } else { Self::File(path) })
            }
            Address::Remote(remote) if remote.bucket.is_empty() => usage("the target's bucket is missing"),
            Address::Remote(remote) => {
                let client = session.remotes.client(&remote.scheme)?;
                let is_folder = is_folder || !remote.is_object();
                if !is_folder {
                    return Ok(Self::Key(client, remote));
                }
                let prefix = remote.prefix();
                let RemoteAddress { scheme, bucket, key: _ } = remote;
                Ok(Self::Side(Side::Prefix { client, scheme, bucket, prefix }))
            }
        }
    }

    const fn is_local(&self) -> bool {
        matches!(self, Self::File(_) | Self::Side(Side::Folder(_)))
    }

    /// The end of a copy of this name.
    fn end(&self, name: &str) -> Result<JobEnd, Error> {
        match self {
            Self::File(path) => Ok(JobEnd::File(path.clone())),
            Self::Key(client, RemoteAddress { scheme, bucket, key }) => Ok(JobEnd::Object {
                client: client.clone(),
                object: ObjectName { bucket: bucket.clone(), key: key.clone() },
                scheme: scheme.clone(),
            }),
            Self::Side(side) => side.end(name),
        }
    }
}

/// Refuses what the command line cannot mean.
fn check(source: &Address, target: &Target, is_recursive: bool) -> Result<(), VerbError> {
    match source {
        Address::Standard => usage("`-` is the only source of its copy, and the target an object"),
        Address::Local(_) if target.is_local() => {
            usage("neither side is s3:// or an alias; use cp of the system for files")
        }
        Address::Local(path) if !is_recursive && path.is_dir() => {
            usage(format!("{} is a folder; --recursive copies what is in it", path.display()))
        }
        Address::Remote(remote) if !is_recursive && !remote.is_object() => {
            usage(format!("{remote} is not an object; --recursive copies what is below it"))
        }
        Address::Remote(remote) if remote.bucket.is_empty() => usage("the source's bucket is missing"),
        Address::Local(_) | Address::Remote(_) => Ok(()),
    }
}

/// Plans the jobs of a copy.
struct Planner<'a> {
    session: &'a Session,
    jobs: &'a Jobs,
    target: &'a Target,
    options: &'a CopyOptions,
    /// Hashes of the names that are taken at the target, where more than one source may take them.
    taken: Option<Mutex<HashSet<u64>>>,
}

impl Planner<'_> {
    /// The end of a copy of this name: no two sources have one.
    fn end(&self, name: &str) -> Result<JobEnd, Error> {
        let end = self.target.end(name)?;
        let Some(taken) = &self.taken else { return Ok(end) };
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        if taken.lock().insert(hasher.finish()) { Ok(end) } else { Err(Error::name(name, NameFault::Twice)) }
    }

    async fn plan_one(&self, source: Address) -> Result<(), Error> {
        let (name, source, bytes) = match source {
            Address::Local(path) => {
                let metadata = std::fs::metadata(&path).map_err(Error::file("open", &path))?;
                (file_name(&path)?.to_owned(), JobEnd::File(path), Some(metadata.len()))
            }
            Address::Remote(remote) => {
                let (client, object) = self.session.remotes.object(&remote)?;
                let name = remote.file_name().to_owned();
                (name, JobEnd::Object { client, object, scheme: remote.scheme }, None)
            }
            Address::Standard => return Ok(()),
        };
        let target = self.end(&name)?;
        self.session.plan(self.jobs, self.options.job(source, target, bytes)).await
    }

    async fn plan_tree(&self, source: Address) -> Result<(), Error> {
        let Target::Side(target) = self.target else { return Ok(()) };
        let (session, verb) = (self.session, self.options.verb());
        let source = side(session, source)?;
        if target.is_below(&source) {
            return Err(Error::name(target.end("")?.to_string(), NameFault::Overlap));
        }
        let mut entries = source.entries();
        let mut count = 0_u64;
        while let Some(entry) = entries.recv().await {
            count += 1;
            let entry = match entry {
                Ok(entry) if self.options.filters.take(&entry.name) => entry,
                Ok(_) => continue,
                Err(error) => {
                    session.fail("read", "", error).await;
                    continue;
                }
            };
            let Some(admitted) = target.admits(&entry) else { continue };
            let planned = admitted.and_then(|()| self.tree_end(&source, &entry));
            match planned {
                Ok(end) => {
                    session.plan(self.jobs, self.options.job(entry.end, end, Some(entry.bytes))).await?;
                }
                Err(error) => session.fail(verb, entry.end.to_string(), error).await,
            }
        }
        match source {
            Side::Prefix { scheme, bucket, prefix, .. } if count == 0 => {
                let path = Path::new(&format!("{scheme}://{bucket}/{prefix}")).to_owned();
                Err(Error::file("find an object below", path)(std::io::ErrorKind::NotFound.into()))
            }
            _ => Ok(()),
        }
    }

    fn tree_end(&self, source: &Side, entry: &SideEntry) -> Result<JobEnd, Error> {
        if self.options.is_move && entry.is_behind_link {
            return Err(Error::name(entry.end.to_string(), NameFault::BehindLink));
        }
        let end = self.end(&entry.name)?;
        // Such a copy would be listed with the source, or replace what is still to be copied.
        if source.contains(&end) {
            return Err(Error::name(entry.end.to_string(), NameFault::Overlap));
        }
        Ok(end)
    }
}

/// An address as a side of a copy.
pub(crate) fn side(session: &Session, address: Address) -> Result<Side, Error> {
    match address {
        Address::Local(path) => Ok(Side::Folder(path)),
        Address::Standard => Ok(Side::Folder(PathBuf::from("-"))),
        Address::Remote(remote) => {
            let client = session.remotes.client(&remote.scheme)?;
            let prefix = remote.prefix();
            Ok(Side::Prefix { client, scheme: remote.scheme, bucket: remote.bucket, prefix })
        }
    }
}
