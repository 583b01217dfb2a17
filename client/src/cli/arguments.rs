//! The arguments of `sherd`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::exit;
use crate::endpoint::AddressingStyle;
use crate::glob::{Filters, Glob};
use crate::limits::{ATTEMPTS, ATTEMPTS_MAX, WORKERS};
use crate::s3::objects::ObjectAttributes;
use crate::sync::same::Comparison;

/// Copy, list and compare objects of any S3 service.
///
/// An address is a path, `-`, s3://BUCKET/KEY for the service of the AWS variables and profiles, or
/// ALIAS://BUCKET/KEY for one that `sherd alias set` keeps. A large copy that was killed goes on when the
/// same command is run again.
#[derive(Debug, Parser)]
#[command(name = "sherd", version, propagate_version = true, after_help = exit::TEXT)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Arguments of all verbs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Service and output")]
pub(crate) struct GlobalArgs {
    /// Endpoint of s3:// [default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, AWS's own]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) endpoint_url: Option<String>,
    /// Region that requests are signed for [default: AWS_REGION, the profile's, us-east-1]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) region: Option<String>,
    /// Profile of AWS's files [default: AWS_PROFILE]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Certificates in PEM that are trusted instead of the system's [default: AWS_CA_BUNDLE]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) ca_bundle: Option<PathBuf>,
    /// How buckets stand in a URL
    #[arg(long, global = true, value_enum)]
    pub(crate) addressing: Option<AddressingStyle>,
    /// Send requests without a signature
    #[arg(long, global = true)]
    pub(crate) no_sign_request: bool,
    /// Requests at one time, over all files
    #[arg(long, global = true, value_name = "COUNT", default_value_t = WORKERS)]
    pub(crate) workers: usize,
    /// Bytes of a part, as in 64MiB [default: chosen by the size of the file]
    #[arg(long, global = true, value_name = "SIZE")]
    pub(crate) part_size: Option<ByteSize>,
    /// Attempts of a request
    #[arg(long, global = true, value_name = "COUNT", default_value_t = ATTEMPTS,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(ATTEMPTS_MAX)))]
    pub(crate) attempts: u32,
    /// Print one JSON object a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print failures only, and what was asked for
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Copy files and objects, in any direction
    #[command(visible_alias = "copy")]
    Cp(CopyArgs),
    /// Copy files and objects, and remove each source when its copy is there
    #[command(visible_alias = "move")]
    Mv(CopyArgs),
    /// Make the target side as the source side: copy what differs
    Sync(SyncArgs),
    /// Compare two sides, name by name
    Diff(DiffArgs),
    /// List buckets, or objects by folder
    Ls(ListArgs),
    /// Draw the folders and objects below an address
    Tree(TreeArgs),
    /// Write objects to standard output
    Cat(ObjectsArgs),
    /// Write the first lines or bytes of an object to standard output
    Head(HeadArgs),
    /// Store standard input as an object
    Pipe(PipeArgs),
    /// Show what is known of a bucket or object
    Stat(ObjectsArgs),
    /// Sum the sizes below an address
    Du(DuArgs),
    /// List objects below an address by name, size and age
    Find(FindArgs),
    /// Make a URL with which an object can be read or stored without keys
    Presign(PresignArgs),
    /// Make buckets
    Mb(BucketsArgs),
    /// Remove buckets
    Rb(RemoveBucketsArgs),
    /// Remove objects
    Rm(RemoveArgs),
    /// Show, replace or remove the tags of an object
    Tag(TagArgs),
    /// Store, read and list objects for a time: rates, latencies, faults
    Bench(BenchArgs),
    /// Keep endpoints and keys under a name
    Alias(AliasArgs),
    /// Print the version
    Version,
    /// Print the manual page, or write those of all verbs into a folder
    Man(ManArgs),
    /// Print what completes commands in a shell
    Completions(CompletionsArgs),
}

/// Filters of names.
#[derive(Debug, Default, Args)]
pub(crate) struct FilterArgs {
    /// Take only names that match, below what was asked for; `*` is any run of characters, `/` too
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Leave out names that match; before --include
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
}

impl FilterArgs {
    pub(crate) fn filters(&self) -> Filters {
        let globs = |texts: &[String]| texts.iter().map(Glob::new).collect();
        Filters { include: globs(&self.include), exclude: globs(&self.exclude) }
    }
}

/// Headers and tags that objects are stored with.
#[derive(Debug, Default, Args)]
pub(crate) struct AttributeArgs {
    /// Type of the content [default: by the end of the name]
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Header Cache-Control
    #[arg(long, value_name = "TEXT")]
    cache_control: Option<String>,
    /// Header Content-Encoding
    #[arg(long, value_name = "TEXT")]
    content_encoding: Option<String>,
    /// Header Content-Disposition
    #[arg(long, value_name = "TEXT")]
    content_disposition: Option<String>,
    /// Storage class
    #[arg(long, value_name = "CLASS")]
    storage_class: Option<String>,
    /// Metadata; may be given more than once
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Tag; may be given more than once
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    tag: Vec<(String, String)>,
}

impl AttributeArgs {
    /// The attributes that were given; none without any.
    pub(crate) fn given(&self) -> Option<ObjectAttributes> {
        let Self {
            content_type,
            cache_control,
            content_encoding,
            content_disposition,
            storage_class,
            metadata,
            tag,
        } = self;
        let named = [
            ("content-type", content_type),
            ("cache-control", cache_control),
            ("content-encoding", content_encoding),
            ("content-disposition", content_disposition),
            ("x-amz-storage-class", storage_class),
        ];
        let mut headers: Vec<_> =
            named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))).collect();
        let meta = metadata.iter();
        headers.extend(
            meta.map(|(name, value)| (format!("x-amz-meta-{}", name.to_ascii_lowercase()), value.clone())),
        );
        let is_given = !headers.is_empty() || !tag.is_empty();
        is_given.then(|| ObjectAttributes { headers, tags: tag.clone() })
    }
}

/// Reads `name=value`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it is NAME=VALUE")?;
    if name.is_empty() {
        return Err("the name is missing".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// `cp` and `mv`.
#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// Sources, and the target behind them. A target that ends in `/` or is a folder takes the sources' names
    #[arg(required = true, num_args = 2.., value_name = "SOURCE... TARGET")]
    pub(crate) addresses: Vec<OsString>,
    /// Take all that is below a folder or address, into the target
    #[arg(long, short)]
    pub(crate) recursive: bool,
    /// Say what would be done, and do nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Have each file on stable storage before it has its name; large ones always are
    #[arg(long)]
    pub(crate) fsync: bool,
    #[command(flatten)]
    pub(crate) filters: FilterArgs,
    #[command(flatten)]
    pub(crate) attributes: AttributeArgs,
}

/// `sync`.
#[derive(Debug, Args)]
pub(crate) struct SyncArgs {
    /// Folder or address that is copied from
    pub(crate) source: OsString,
    /// Folder or address that is copied to
    pub(crate) target: OsString,
    /// Remove from the target what the source does not have, at the end. Nothing is removed if the source is
    /// empty, a side cannot be read to its end, or a copy failed
    #[arg(long)]
    pub(crate) delete: bool,
    /// Say what would be done, deletes among it, and do nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Properties that are compared
    #[arg(long, value_enum, default_value_t)]
    pub(crate) compare: Comparison,
    /// Have each file on stable storage before it has its name; large ones always are
    #[arg(long)]
    pub(crate) fsync: bool,
    #[command(flatten)]
    pub(crate) filters: FilterArgs,
    #[command(flatten)]
    pub(crate) attributes: AttributeArgs,
}

/// `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Folder or address
    pub(crate) source: OsString,
    /// Folder or address
    pub(crate) target: OsString,
    /// Properties that are compared
    #[arg(long, value_enum, default_value_t)]
    pub(crate) compare: Comparison,
    #[command(flatten)]
    pub(crate) filters: FilterArgs,
}

/// `ls`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Address; the beginning of keys is enough [default: the buckets of s3://]
    pub(crate) address: Option<OsString>,
    /// List all keys, not by folder
    #[arg(long, short)]
    pub(crate) recursive: bool,
}

/// `tree`.
#[derive(Debug, Args)]
pub(crate) struct TreeArgs {
    /// Address
    pub(crate) address: OsString,
    /// Folders below each other
    #[arg(long, short = 'd', value_name = "COUNT", default_value_t = usize::MAX, hide_default_value = true)]
    pub(crate) depth: usize,
}

/// Verbs of objects.
#[derive(Debug, Args)]
pub(crate) struct ObjectsArgs {
    /// Addresses
    #[arg(required = true)]
    pub(crate) addresses: Vec<OsString>,
}

/// `head`.
#[derive(Debug, Args)]
pub(crate) struct HeadArgs {
    /// Address
    pub(crate) address: OsString,
    /// Lines
    #[arg(long, short = 'n', default_value_t = 10)]
    pub(crate) lines: usize,
    /// Bytes, instead of lines
    #[arg(long, short = 'c', value_name = "SIZE")]
    pub(crate) bytes: Option<ByteSize>,
}

/// `pipe`.
#[derive(Debug, Args)]
pub(crate) struct PipeArgs {
    /// Address
    pub(crate) address: OsString,
    #[command(flatten)]
    pub(crate) attributes: AttributeArgs,
}

/// `du`.
#[derive(Debug, Args)]
pub(crate) struct DuArgs {
    /// Addresses
    #[arg(required = true)]
    pub(crate) addresses: Vec<OsString>,
    #[command(flatten)]
    pub(crate) filters: FilterArgs,
}

/// `find`.
#[derive(Debug, Args)]
pub(crate) struct FindArgs {
    /// Address
    pub(crate) address: OsString,
    /// Names that match, below the address
    #[arg(long, value_name = "GLOB")]
    pub(crate) name: Option<String>,
    /// Objects larger than this
    #[arg(long, value_name = "SIZE")]
    pub(crate) larger: Option<ByteSize>,
    /// Objects smaller than this
    #[arg(long, value_name = "SIZE")]
    pub(crate) smaller: Option<ByteSize>,
    /// Objects stored longer ago than this, as in 7days
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) older: Option<Duration>,
    /// Objects stored since then
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) newer: Option<Duration>,
}

/// `presign`.
#[derive(Debug, Args)]
pub(crate) struct PresignArgs {
    /// Address
    pub(crate) address: OsString,
    /// Time that the URL holds, up to 7days
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = humantime::parse_duration)]
    pub(crate) expires: Duration,
    /// Make a URL that stores the object
    #[arg(long)]
    pub(crate) put: bool,
}

/// `mb`.
#[derive(Debug, Args)]
pub(crate) struct BucketsArgs {
    /// Addresses of buckets
    #[arg(required = true)]
    pub(crate) addresses: Vec<OsString>,
    /// Succeed where the bucket is there and the caller's
    #[arg(long)]
    pub(crate) ignore_existing: bool,
}

/// `rb`.
#[derive(Debug, Args)]
pub(crate) struct RemoveBucketsArgs {
    /// Addresses of buckets
    #[arg(required = true)]
    pub(crate) addresses: Vec<OsString>,
    /// Remove the objects and unfinished uploads in it first
    #[arg(long)]
    pub(crate) force: bool,
}

/// `rm`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Addresses
    #[arg(required = true)]
    pub(crate) addresses: Vec<OsString>,
    /// Remove all that is below the address
    #[arg(long, short)]
    pub(crate) recursive: bool,
    /// Say what would be removed, and remove nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) filters: FilterArgs,
}

/// `tag`.
#[derive(Debug, Args)]
pub(crate) struct TagArgs {
    /// Address
    pub(crate) address: OsString,
    /// Tags that replace those there are
    #[arg(value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) tags: Vec<(String, String)>,
    /// Remove all tags
    #[arg(long, conflicts_with = "tags")]
    pub(crate) remove: bool,
}

/// `alias`.
#[derive(Debug, Args)]
pub(crate) struct AliasArgs {
    #[command(subcommand)]
    pub(crate) verb: AliasVerb,
}

/// Verbs of aliases.
#[derive(Debug, Subcommand)]
pub(crate) enum AliasVerb {
    /// Keep an endpoint and keys under a name
    Set(AliasSetArgs),
    /// Show the aliases, without secrets
    Ls,
    /// Forget an alias
    Rm {
        /// Name
        name: String,
    },
}

/// `alias set`. The region, addressing and certificates are those of the options of all verbs.
#[derive(Debug, Args)]
pub(crate) struct AliasSetArgs {
    /// Name: NAME://BUCKET/KEY is then an address
    pub(crate) name: String,
    /// Endpoint, as in http://127.0.0.1:9000
    pub(crate) url: String,
    /// Access key; without it requests are not signed. The secret key is read from a line of standard input
    pub(crate) access_key: Option<String>,
}

/// `bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Bucket, or beginning of keys, below which objects are stored and in the end removed
    pub(crate) address: OsString,
    /// Operations, in this order. Objects that are missing are stored first. A list is of all objects
    #[arg(
        long = "op",
        value_enum,
        value_delimiter = ',',
        value_name = "OPS",
        default_value = "put,get,list"
    )]
    pub(crate) operations: Vec<BenchOperation>,
    /// Bytes of an object
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    pub(crate) size: ByteSize,
    /// Objects
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    pub(crate) objects: usize,
    /// Time of each operation
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) duration: Duration,
    /// Leave the objects where they are
    #[arg(long)]
    pub(crate) keep: bool,
}

/// An operation of `bench`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchOperation {
    /// Store an object
    Put,
    /// Read an object, and compare its bytes with those that were stored
    Get,
    /// List the objects, and compare their names
    List,
}

impl BenchOperation {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::List => "list",
        }
    }
}

/// `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder for the pages
    pub(crate) folder: Option<PathBuf>,
}

/// `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell
    pub(crate) shell: Shell,
}
