//! `sherd-node ca`: the certificate authority of a cluster as two files, and the certificates that it issues.
//!
//! ```text
//! D/ca.crt  D/ca.key      made once by `init`, never overwritten; the key signs and lies on no node
//! D/n1.crt  D/n1.key      made by `issue`; a later issue of the same name and role replaces them
//! ```
//!
//! Keys have mode 0600 from their first byte. Each file is whole or absent after a crash. The certificates
//! themselves are made by `sherd_trust::authority`, which `dev --nodes` and the operator use in memory.

#![expect(
    clippy::disallowed_methods,
    reason = "makes the files of an authority, on a machine without volumes"
)]

mod limits;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use sherd_core::env::{Clock, Rng};
use sherd_core::id::{ClusterId, InvalidId};
use sherd_trust::limits::LEAF_LIFETIME;
use sherd_trust::{Authority, AuthorityError, CertificateFacts, IssuedCertificate, PeerIdentity, Role};

use self::limits::PEM_BYTES_MAX;
use crate::process::exit::Exit;

const CERTIFICATE: &str = "ca.crt";
const KEY: &str = "ca.key";
/// Only the owner reads a key.
const KEY_MODE: u32 = 0o600;
/// Everybody reads a certificate: it is shown in each handshake.
const CERTIFICATE_MODE: u32 = 0o644;
/// Permission bits that the authority's key must not have: its reader can be any peer.
const KEY_MODE_FORBIDDEN: u32 = 0o077;

/// `sherd-node ca`.
#[derive(Debug, Args)]
pub struct CaArgs {
    /// The command.
    #[command(subcommand)]
    pub command: CaCommand,
}

/// Commands about an authority.
#[derive(Debug, Subcommand)]
pub enum CaCommand {
    /// Make the authority of a new cluster, and print the cluster's id
    Init(InitArgs),
    /// Issue a certificate for a node, an operator or a person, valid for a year
    Issue(IssueArgs),
}

/// `sherd-node ca init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Directory of ca.crt and ca.key; made when it is not there
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Id of the cluster, 32 hex digits; drawn at random without it
    #[arg(long, value_name = "HEX", value_parser = cluster_id)]
    pub cluster_id: Option<ClusterId>,
}

/// `sherd-node ca issue`.
#[derive(Debug, Args)]
pub struct IssueArgs {
    /// Directory of ca.crt and ca.key
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Rights of the holder: node, operator or admin
    #[arg(long)]
    pub role: Role,
    /// Name of the holder; a node's is the one in its configuration
    #[arg(long)]
    pub name: String,
    /// Directory of NAME.crt and NAME.key, when it is not that of the authority
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

fn cluster_id(text: &str) -> Result<ClusterId, InvalidId> {
    ClusterId::parse(text)
}

/// Why nothing was made.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// There is one already.
    #[error("{path} is there already: an authority is made once", path = path.display())]
    Exists {
        /// File of the authority.
        path: PathBuf,
    },
    /// The place is taken by another certificate.
    #[error("{path} is not a certificate of {identity}: issue into another directory", path = path.display())]
    Taken {
        /// The file that would be replaced.
        path: PathBuf,
        /// The holder that the new certificate is for.
        identity: PeerIdentity,
    },
    /// The authority's key can be read by other users.
    #[error("{path} has mode {mode:04o}: the key of an authority must have {KEY_MODE:04o} (chmod 600 {path})", path = path.display())]
    Mode {
        /// The file.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
    },
    /// The authority cannot be made, loaded or used.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// A file cannot be read or written.
    #[error("{op} {path}: {source}", path = path.display())]
    Io {
        /// The step.
        op: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl CaError {
    /// How the process ends.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Exists { .. }
            | Self::Taken { .. }
            | Self::Mode { .. }
            | Self::Authority(AuthorityError::Identity(_)) => Exit::Refused,
            Self::Authority(_) | Self::Io { .. } => Exit::Failed,
        }
    }
}

/// Makes an authority or issues a certificate, and writes what was made to `out`.
///
/// # Errors
/// [`CaError`], and then nothing was overwritten.
pub fn ca(arguments: &CaArgs, clock: &dyn Clock, rng: &dyn Rng, out: &mut dyn Write) -> Result<(), CaError> {
    let text = match &arguments.command {
        CaCommand::Init(arguments) => format!("{}\n", init(arguments, clock, rng)?),
        CaCommand::Issue(arguments) => {
            let (certificate, key) = issue(arguments, clock)?;
            format!("{}\n{}\n", certificate.display(), key.display())
        }
    };
    let io = |source| CaError::Io { op: "write to", path: PathBuf::from("standard output"), source };
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(io)
}

fn init(arguments: &InitArgs, clock: &dyn Clock, rng: &dyn Rng) -> Result<ClusterId, CaError> {
    let InitArgs { dir, cluster_id } = arguments;
    let (certificate, key) = (dir.join(CERTIFICATE), dir.join(KEY));
    for path in [&certificate, &key] {
        if path.symlink_metadata().is_ok() {
            return Err(CaError::Exists { path: path.clone() });
        }
    }
    let cluster = cluster_id.unwrap_or_else(|| ClusterId(rng.next_id()));
    let authority = Authority::init(cluster, clock.wall_ms())?;
    let io = |source| CaError::Io { op: "make the directory", path: dir.clone(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io)?;
    write_new(&key, &authority.key(), KEY_MODE)?;
    write_new(&certificate, authority.certificate(), CERTIFICATE_MODE)?;
    sync_directory(dir)?;
    Ok(cluster)
}

fn issue(arguments: &IssueArgs, clock: &dyn Clock) -> Result<(PathBuf, PathBuf), CaError> {
    let IssueArgs { dir, role, name, out } = arguments;
    let certificate = read(&dir.join(CERTIFICATE), 0)?;
    let key = read(&dir.join(KEY), KEY_MODE_FORBIDDEN)?;
    let authority = Authority::load(&certificate, &key)?;
    let issued = authority.issue(name, *role, clock.wall_ms(), LEAF_LIFETIME)?;
    let IssuedCertificate { identity, certificate, key } = &issued;
    let out = out.as_ref().unwrap_or(dir);
    let io = |source| CaError::Io { op: "make the directory", path: out.clone(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(out).map_err(io)?;
    let (certificate_path, key_path) = (out.join(format!("{name}.crt")), out.join(format!("{name}.key")));
    may_be_replaced(&certificate_path, &key_path, identity)?;
    replace(&key_path, key, KEY_MODE)?;
    // A crash here leaves a key that fits no certificate: the next issue replaces both.
    replace(&certificate_path, certificate, CERTIFICATE_MODE)?;
    sync_directory(out)?;
    Ok((certificate_path, key_path))
}

/// Looks that the two files are absent, or those of an older certificate of the same holder.
fn may_be_replaced(certificate: &Path, key: &Path, identity: &PeerIdentity) -> Result<(), CaError> {
    let taken = |path: &Path| CaError::Taken { path: path.to_owned(), identity: identity.clone() };
    let is_absent = |path: &Path| path.symlink_metadata().is_err();
    if is_absent(certificate) {
        return if is_absent(key) { Ok(()) } else { Err(taken(key)) };
    }
    let text = read(certificate, 0)?;
    match CertificateFacts::read_pem(text.as_bytes()) {
        Ok(facts) if facts.identity == *identity => Ok(()),
        Ok(_) | Err(_) => Err(taken(certificate)),
    }
}

fn read(path: &Path, forbidden: u32) -> Result<String, CaError> {
    let io = |op| move |source| CaError::Io { op, path: path.to_owned(), source };
    let file = File::open(path).map_err(io("open"))?;
    let mode = file.metadata().map_err(io("stat"))?.mode() & 0o777;
    if mode & forbidden != 0 {
        return Err(CaError::Mode { path: path.to_owned(), mode });
    }
    io::read_to_string(file.take(PEM_BYTES_MAX)).map_err(io("read"))
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), CaError> {
    let io = |op| move |source| CaError::Io { op, path: path.to_owned(), source };
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = file.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => CaError::Exists { path: path.to_owned() },
        _ => io("create")(source),
    })?;
    file.write_all(text.as_bytes()).map_err(io("write"))?;
    file.sync_all().map_err(io("sync"))
}

/// Writes a file under another name and renames it over the one that may be there.
fn replace(path: &Path, text: &str, mode: u32) -> Result<(), CaError> {
    let io = |op| move |source| CaError::Io { op, path: path.to_owned(), source };
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    match fs::remove_file(&new) {
        // Left by a crash before the rename: no process reads it.
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            return Err(io("remove the unfinished")(source));
        }
        _ => {}
    }
    write_new(&new, text, mode)?;
    fs::rename(&new, path).map_err(io("rename to"))
}

fn sync_directory(path: &Path) -> Result<(), CaError> {
    let io = |source| CaError::Io { op: "sync the directory", path: path.to_owned(), source };
    File::open(path).and_then(|directory| directory.sync_all()).map_err(io)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use sherd_net::tls::{Trust, TrustFiles};
    use sherd_store::machine::system::{SystemClock, SystemRng};

    fn run(command: CaCommand) -> Result<String, CaError> {
        let mut out = Vec::new();
        ca(&CaArgs { command }, &SystemClock::new(), &SystemRng, &mut out)?;
        Ok(String::from_utf8(out).expect("text"))
    }

    fn make(dir: &Path) -> Result<ClusterId, CaError> {
        let id = run(CaCommand::Init(InitArgs { dir: dir.to_owned(), cluster_id: None }))?;
        Ok(ClusterId::parse(id.trim_end()).expect("it prints the id alone"))
    }

    fn issue_as(dir: &Path, name: &str, role: Role, out: Option<&Path>) -> Result<String, CaError> {
        let (dir, name, out) = (dir.to_owned(), name.to_owned(), out.map(Path::to_owned));
        run(CaCommand::Issue(IssueArgs { dir, role, name, out }))
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").permissions().mode() & 0o777
    }

    #[test]
    fn what_is_issued_is_what_a_process_loads() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let pki = directory.path().join("a/pki");
        let cluster = make(&pki).expect("made");
        assert_eq!((mode(&pki.join(KEY)), mode(&pki)), (0o600, 0o700));
        let elsewhere = directory.path().join("n1");
        for (role, out) in [(Role::Node, None), (Role::Admin, Some(elsewhere.as_path()))] {
            let said = issue_as(&pki, "n1", role, out).expect("issued");
            let paths: Vec<_> = said.lines().map(PathBuf::from).collect();
            let [cert, key] = &paths[..] else { panic!("{said}") };
            assert_eq!(mode(key), 0o600);
            let files = TrustFiles { ca: pki.join(CERTIFICATE), cert: cert.clone(), key: key.clone() };
            let own = PeerIdentity::new("n1", role, cluster).expect("a name");
            Trust::load(files, own).expect("fits");
        }
    }

    #[test]
    fn an_authority_is_made_once_with_the_id_that_it_was_given() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let dir = directory.path().to_owned();
        let given = ClusterId([0x6a; 16]);
        let arguments = || InitArgs { dir: dir.clone(), cluster_id: Some(given) };
        let said = run(CaCommand::Init(arguments())).expect("made");
        assert_eq!(said, format!("{given}\n"));
        let before = fs::read(dir.join(KEY)).expect("there");
        let error = run(CaCommand::Init(arguments())).expect_err("there already");
        assert!(matches!(error, CaError::Exists { .. }), "{error}");
        fs::remove_file(dir.join(CERTIFICATE)).expect("there");
        let error = run(CaCommand::Init(arguments())).expect_err("its key is there");
        assert!(matches!(error, CaError::Exists { .. }), "{error}");
        assert_eq!(fs::read(dir.join(KEY)).expect("there"), before);
    }

    #[test]
    fn only_the_same_holder_is_issued_another_certificate_in_place() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let dir = directory.path();
        make(dir).expect("made");
        issue_as(dir, "n1", Role::Node, None).expect("issued");
        let first = fs::read(dir.join("n1.crt")).expect("there");
        issue_as(dir, "n1", Role::Node, None).expect("renewed");
        assert_ne!(fs::read(dir.join("n1.crt")).expect("there"), first);
        for (name, role) in [("n1", Role::Admin), ("ca", Role::Node)] {
            let before = fs::read(dir.join(format!("{name}.key"))).expect("there");
            let error = issue_as(dir, name, role, None).expect_err("another holder's place");
            assert!(matches!(error, CaError::Taken { .. }), "{error}");
            assert_eq!(fs::read(dir.join(format!("{name}.key"))).expect("there"), before);
        }
        let error = issue_as(dir, "../n2", Role::Node, None).expect_err("no name");
        assert_eq!(error.exit(), Exit::Refused, "{error}");
    }

    #[test]
    fn an_authority_whose_key_others_may_read_issues_nothing() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        make(directory.path()).expect("made");
        let key = directory.path().join(KEY);
        fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).expect("my own file");
        let error = issue_as(directory.path(), "n1", Role::Node, None).expect_err("open to others");
        assert!(matches!(error, CaError::Mode { mode: 0o640, .. }), "{error}");
        assert!(!directory.path().join("n1.key").exists());
    }
}
