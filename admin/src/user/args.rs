//! The arguments of `sherd-node user` and `kubectl sherd user`. `C` are those by which the cluster is
//! reached; each command has them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The arguments of a command on users.
#[derive(Debug, Clone, Args)]
pub struct UserArgs<C: Args> {
    #[command(subcommand)]
    pub(super) command: UserCommand<C>,
}

/// The actions on users.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum UserCommand<C: Args> {
    /// Make a user; with --with-key an access key, too, whose secret is printed once
    Add {
        /// Name of the user
        name: String,
        /// Path of the user, which groups users for policies
        #[arg(long, default_value = "/")]
        path: String,
        /// Make an access key and print it
        #[arg(long)]
        with_key: bool,
        #[command(flatten)]
        asked: CommonArgs<C>,
    },
    /// List the users
    List {
        #[command(flatten)]
        asked: CommonArgs<C>,
    },
    /// Make all access keys of a user inactive: in force through every node when this returns
    Disable {
        /// Name of the user
        name: String,
        /// End the uploads and reads of its keys that are under way, too
        #[arg(long)]
        now: bool,
        #[command(flatten)]
        asked: CommonArgs<C>,
    },
    /// Make all access keys of a user active again
    Enable {
        /// Name of the user
        name: String,
        #[command(flatten)]
        asked: CommonArgs<C>,
    },
    /// Delete a user that has no keys, no policies and is in no group
    Delete {
        /// Name of the user
        name: String,
        /// First delete its keys and inline policies, detach the others, and take it out of its groups
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        asked: CommonArgs<C>,
    },
    /// Say whether a key may do an action on a resource, and which statement of which policy decides
    ///
    /// Judged as a request of now would be: by the policies of the key's user and of its groups, and by the
    /// policy of the bucket. Further keys that conditions ask for are given with
    /// --context.
    Why(WhyArgs<C>),
    /// Access keys of a user
    #[command(subcommand)]
    Key(KeyCommand<C>),
    /// Policies of a user
    #[command(subcommand)]
    Policy(PolicyCommand<C>),
}

/// A question of who may do what.
#[derive(Debug, Clone, Args)]
pub(super) struct WhyArgs<C: Args> {
    /// Id of an access key (AKIA...), or name of a user
    #[arg(value_name = "KEY")]
    pub(super) caller: String,
    /// Action, as policies name it: s3:GetObject
    pub(super) action: String,
    /// Bucket, bucket/key, or an ARN; * for an action on none, such as s3:ListAllMyBuckets
    pub(super) resource: String,
    /// Value of a condition key in the request, such as aws:SourceIp=10.0.0.1; several times for several
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) context: Vec<String>,
    #[command(flatten)]
    pub(super) asked: CommonArgs<C>,
}

/// The actions on access keys.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum KeyCommand<C: Args> {
    /// Make a key and print its secret, which no later command prints; a user has two keys at most
    Add {
        /// Name of the user
        user: String,
        #[command(flatten)]
        asked: CommonArgs<C>,
    },
    /// List the keys of a user, without secrets
    List {
        /// Name of the user
        user: String,
        #[command(flatten)]
        asked: CommonArgs<C>,
    },
    /// Make a key inactive: in force through every node when this returns
    Disable {
        #[command(flatten)]
        key: OneKey<C>,
        /// End the uploads and reads of the key that are under way, too
        #[arg(long)]
        now: bool,
    },
    /// Make a key active again
    Enable(OneKey<C>),
    /// Delete a key: in force through every node when this returns
    Delete(OneKey<C>),
}

/// A key of a user.
#[derive(Debug, Clone, Args)]
pub(super) struct OneKey<C: Args> {
    /// Name of the user
    pub(super) user: String,
    /// Id of the key (AKIA...)
    pub(super) key_id: String,
    #[command(flatten)]
    pub(super) asked: CommonArgs<C>,
}

/// The actions on policies.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum PolicyCommand<C: Args> {
    /// Give a user a policy of its own, in place of the one of this name: a document, or rights to buckets
    Put {
        /// Name of the user
        user: String,
        /// Name of the policy
        policy: String,
        #[command(flatten)]
        document: DocumentArgs,
        #[command(flatten)]
        asked: CommonArgs<C>,
    },
    /// List the policies of a user: its own by name, attached ones by ARN
    List {
        /// Name of the user
        user: String,
        #[command(flatten)]
        asked: CommonArgs<C>,
    },
    /// Print the document of a policy of a user's own
    Show(OnePolicy<C>),
    /// Delete a policy of a user's own
    Delete(OnePolicy<C>),
    /// Attach a managed policy to a user
    Attach(Attachment<C>),
    /// Detach a managed policy from a user
    Detach(Attachment<C>),
}

/// A policy of a user's own.
#[derive(Debug, Clone, Args)]
pub(super) struct OnePolicy<C: Args> {
    /// Name of the user
    pub(super) user: String,
    /// Name of the policy
    pub(super) policy: String,
    #[command(flatten)]
    pub(super) asked: CommonArgs<C>,
}

/// A managed policy and a user.
#[derive(Debug, Clone, Args)]
pub(super) struct Attachment<C: Args> {
    /// Name of the user
    pub(super) user: String,
    /// ARN of the managed policy
    pub(super) policy_arn: String,
    #[command(flatten)]
    pub(super) asked: CommonArgs<C>,
}

/// The document of a policy.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = true)]
pub(super) struct DocumentArgs {
    /// File of the document, in AWS's JSON
    #[arg(long, value_name = "FILE", conflicts_with_all = ["read", "write"])]
    pub(super) file: Option<PathBuf>,
    /// Bucket that the user may list and read; several times for several buckets
    #[arg(long, value_name = "BUCKET")]
    pub(super) read: Vec<String>,
    /// Bucket that the user may list, read and write; several times for several buckets
    #[arg(long, value_name = "BUCKET")]
    pub(super) write: Vec<String>,
}

/// The arguments that all commands have.
#[derive(Debug, Clone, Args)]
pub(super) struct CommonArgs<C: Args> {
    #[command(flatten)]
    pub(super) connection: C,
    /// Write JSON instead of text
    #[arg(long)]
    pub(super) json: bool,
}
