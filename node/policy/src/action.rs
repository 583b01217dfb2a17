//! The actions of S3, what each is about, and patterns of actions.

use std::sync::LazyLock;

use super::pattern::{Glob, Pattern, TextForm};

/// The kind of resource that an action is decided for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionTarget {
    /// The account: all buckets.
    Account,
    /// A bucket.
    Bucket,
    /// An object, or one that may be made.
    Object,
    /// A kind of resource that is not here: access points, jobs, grants.
    Other,
}

use ActionTarget::{Account, Bucket, Object, Other};

/// All actions of S3 behind their `s3:`, sorted.
const ACTIONS: &[(&str, ActionTarget)] = &[
    ("AbortMultipartUpload", Object),
    ("AssociateAccessGrantsIdentityCenter", Other),
    ("BypassGovernanceRetention", Object),
    ("CreateAccessGrant", Other),
    ("CreateAccessGrantsInstance", Other),
    ("CreateAccessGrantsLocation", Other),
    ("CreateAccessPoint", Other),
    ("CreateAccessPointForObjectLambda", Other),
    ("CreateBucket", Bucket),
    ("CreateBucketMetadataTableConfiguration", Bucket),
    ("CreateJob", Account),
    ("CreateMultiRegionAccessPoint", Other),
    ("CreateStorageLensGroup", Account),
    ("DeleteAccessGrant", Other),
    ("DeleteAccessGrantsInstance", Other),
    ("DeleteAccessGrantsInstanceResourcePolicy", Other),
    ("DeleteAccessGrantsLocation", Other),
    ("DeleteAccessPoint", Other),
    ("DeleteAccessPointForObjectLambda", Other),
    ("DeleteAccessPointPolicy", Other),
    ("DeleteAccessPointPolicyForObjectLambda", Other),
    ("DeleteBucket", Bucket),
    ("DeleteBucketMetadataTableConfiguration", Bucket),
    ("DeleteBucketPolicy", Bucket),
    ("DeleteBucketWebsite", Bucket),
    ("DeleteJobTagging", Other),
    ("DeleteMultiRegionAccessPoint", Other),
    ("DeleteObject", Object),
    ("DeleteObjectTagging", Object),
    ("DeleteObjectVersion", Object),
    ("DeleteObjectVersionTagging", Object),
    ("DeleteStorageLensConfiguration", Other),
    ("DeleteStorageLensConfigurationTagging", Other),
    ("DeleteStorageLensGroup", Other),
    ("DescribeJob", Other),
    ("DescribeMultiRegionAccessPointOperation", Other),
    ("DissociateAccessGrantsIdentityCenter", Other),
    ("GetAccelerateConfiguration", Bucket),
    ("GetAccessGrant", Other),
    ("GetAccessGrantsInstance", Other),
    ("GetAccessGrantsInstanceForPrefix", Other),
    ("GetAccessGrantsInstanceResourcePolicy", Other),
    ("GetAccessGrantsLocation", Other),
    ("GetAccessPoint", Account),
    ("GetAccessPointConfigurationForObjectLambda", Other),
    ("GetAccessPointForObjectLambda", Other),
    ("GetAccessPointPolicy", Other),
    ("GetAccessPointPolicyForObjectLambda", Other),
    ("GetAccessPointPolicyStatus", Other),
    ("GetAccessPointPolicyStatusForObjectLambda", Other),
    ("GetAccountPublicAccessBlock", Account),
    ("GetAnalyticsConfiguration", Bucket),
    ("GetBucketAbac", Bucket),
    ("GetBucketAcl", Bucket),
    ("GetBucketCORS", Bucket),
    ("GetBucketLocation", Bucket),
    ("GetBucketLogging", Bucket),
    ("GetBucketMetadataTableConfiguration", Bucket),
    ("GetBucketNotification", Bucket),
    ("GetBucketObjectLockConfiguration", Bucket),
    ("GetBucketOwnershipControls", Bucket),
    ("GetBucketPolicy", Bucket),
    ("GetBucketPolicyStatus", Bucket),
    ("GetBucketPublicAccessBlock", Bucket),
    ("GetBucketRequestPayment", Bucket),
    ("GetBucketTagging", Bucket),
    ("GetBucketVersioning", Bucket),
    ("GetBucketWebsite", Bucket),
    ("GetDataAccess", Other),
    ("GetEncryptionConfiguration", Bucket),
    ("GetIntelligentTieringConfiguration", Bucket),
    ("GetInventoryConfiguration", Bucket),
    ("GetJobTagging", Other),
    ("GetLifecycleConfiguration", Bucket),
    ("GetMetricsConfiguration", Bucket),
    ("GetMultiRegionAccessPoint", Other),
    ("GetMultiRegionAccessPointPolicy", Other),
    ("GetMultiRegionAccessPointPolicyStatus", Other),
    ("GetMultiRegionAccessPointRoutes", Other),
    ("GetObject", Object),
    ("GetObjectAcl", Object),
    ("GetObjectAttributes", Object),
    ("GetObjectLegalHold", Object),
    ("GetObjectRetention", Object),
    ("GetObjectTagging", Object),
    ("GetObjectTorrent", Object),
    ("GetObjectVersion", Object),
    ("GetObjectVersionAcl", Object),
    ("GetObjectVersionAttributes", Object),
    ("GetObjectVersionForReplication", Object),
    ("GetObjectVersionTagging", Object),
    ("GetObjectVersionTorrent", Object),
    ("GetReplicationConfiguration", Bucket),
    ("GetStorageLensConfiguration", Other),
    ("GetStorageLensConfigurationTagging", Other),
    ("GetStorageLensDashboard", Other),
    ("GetStorageLensGroup", Other),
    ("InitiateReplication", Object),
    ("ListAccessGrants", Other),
    ("ListAccessGrantsInstances", Account),
    ("ListAccessGrantsLocations", Other),
    ("ListAccessPoints", Account),
    ("ListAccessPointsForObjectLambda", Account),
    ("ListAllMyBuckets", Account),
    ("ListBucket", Bucket),
    ("ListBucketMultipartUploads", Bucket),
    ("ListBucketVersions", Bucket),
    ("ListCallerAccessGrants", Other),
    ("ListJobs", Account),
    ("ListMultiRegionAccessPoints", Account),
    ("ListMultipartUploadParts", Object),
    ("ListStorageLensConfigurations", Account),
    ("ListStorageLensGroups", Account),
    ("ListTagsForResource", Bucket),
    ("ObjectOwnerOverrideToBucketOwner", Object),
    ("PauseReplication", Bucket),
    ("PutAccelerateConfiguration", Bucket),
    ("PutAccessGrantsInstanceResourcePolicy", Other),
    ("PutAccessPointConfigurationForObjectLambda", Other),
    ("PutAccessPointPolicy", Other),
    ("PutAccessPointPolicyForObjectLambda", Other),
    ("PutAccessPointPublicAccessBlock", Account),
    ("PutAccountPublicAccessBlock", Account),
    ("PutAnalyticsConfiguration", Bucket),
    ("PutBucketAbac", Bucket),
    ("PutBucketAcl", Bucket),
    ("PutBucketCORS", Bucket),
    ("PutBucketLogging", Bucket),
    ("PutBucketNotification", Bucket),
    ("PutBucketObjectLockConfiguration", Bucket),
    ("PutBucketOwnershipControls", Bucket),
    ("PutBucketPolicy", Bucket),
    ("PutBucketPublicAccessBlock", Bucket),
    ("PutBucketRequestPayment", Bucket),
    ("PutBucketTagging", Bucket),
    ("PutBucketVersioning", Bucket),
    ("PutBucketWebsite", Bucket),
    ("PutEncryptionConfiguration", Bucket),
    ("PutIntelligentTieringConfiguration", Bucket),
    ("PutInventoryConfiguration", Bucket),
    ("PutJobTagging", Other),
    ("PutLifecycleConfiguration", Bucket),
    ("PutMetricsConfiguration", Bucket),
    ("PutMultiRegionAccessPointPolicy", Other),
    ("PutObject", Object),
    ("PutObjectAcl", Object),
    ("PutObjectLegalHold", Object),
    ("PutObjectRetention", Object),
    ("PutObjectTagging", Object),
    ("PutObjectVersionAcl", Object),
    ("PutObjectVersionTagging", Object),
    ("PutReplicationConfiguration", Bucket),
    ("PutStorageLensConfiguration", Other),
    ("PutStorageLensConfigurationTagging", Other),
    ("ReplicateDelete", Object),
    ("ReplicateObject", Object),
    ("ReplicateTags", Object),
    ("RestoreObject", Object),
    ("SubmitMultiRegionAccessPointRoutes", Other),
    ("TagResource", Bucket),
    ("UntagResource", Bucket),
    ("UpdateAccessGrantsLocation", Other),
    ("UpdateBucketMetadataInventoryTableConfiguration", Bucket),
    ("UpdateBucketMetadataJournalTableConfiguration", Bucket),
    ("UpdateJobPriority", Other),
    ("UpdateJobStatus", Other),
    ("UpdateObjectEncryption", Object),
    ("UpdateStorageLensGroup", Other),
];

/// Their names in lower case, as patterns are compared with them.
static LOWER_NAMES: LazyLock<Vec<String>> =
    LazyLock::new(|| ACTIONS.iter().map(|(name, _)| name.to_ascii_lowercase()).collect());

const WORDS: usize = ACTIONS.len().div_ceil(64);

/// The actions of S3, each with its `s3:` left out, and what each is about.
pub fn s3_actions() -> impl Iterator<Item = (&'static str, ActionTarget)> {
    ACTIONS.iter().copied()
}

/// Places of a hash table of their names: a power of two, three times as many as actions.
const SLOTS: usize = 512;

/// The hash table of names: the place of an action in [`ACTIONS`] and one more; zero is empty.
static SLOT_OF_NAME: LazyLock<[u8; SLOTS]> = LazyLock::new(|| {
    let mut slots = [0; SLOTS];
    for (place, (name, _)) in (1..).zip(ACTIONS) {
        let mut slot = slot_of(name);
        while slots[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = place;
    }
    slots
});

/// By its length, its first and its last 8 bytes: each decision looks up one name, so it has to be quick.
fn slot_of(name: &str) -> usize {
    let bytes = name.as_bytes();
    let number = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let mixed = number(bytes.first_chunk()) ^ number(bytes.last_chunk()).rotate_left(23) ^ bytes.len() as u64;
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % SLOTS
}

/// The place of an action in the table; none if it is not S3's.
pub(crate) fn index_of(action: &str) -> Option<usize> {
    let name = action.strip_prefix("s3:")?;
    let slots = &*SLOT_OF_NAME;
    let mut slot = slot_of(name);
    loop {
        let index = usize::from(slots[slot]).checked_sub(1)?;
        if ACTIONS[index].0 == name {
            return Some(index);
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// The name of the action at a place, without its `s3:`.
pub(crate) fn name_of(index: usize) -> &'static str {
    ACTIONS.get(index).map_or("", |(name, _)| *name)
}

/// The kind of resource of the action at a place.
pub(crate) fn target_of(index: usize) -> ActionTarget {
    ACTIONS.get(index).map_or(Other, |(_, target)| *target)
}

/// Some actions of S3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ActionSet([u64; WORDS]);

impl ActionSet {
    pub(crate) fn has(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// The actions of both.
    pub(crate) fn or(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// Its actions that another lacks.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// All actions.
    pub(crate) fn all() -> Self {
        let mut all = Self::default();
        (0..ACTIONS.len()).for_each(|index| all.add(index));
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(crate) fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        (0..ACTIONS.len()).filter(|&index| self.has(index))
    }

    fn add(&mut self, index: usize) {
        if let Some(word) = self.0.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }
}

/// One text of `Action`: `*`, `s3:Get*`, `iam:CreateUser`.
#[derive(Debug, Clone)]
pub(crate) struct ActionPattern {
    /// In lower case: actions are compared without regard to case.
    glob: Glob,
    /// The actions of S3 that it matches.
    pub(crate) of_s3: ActionSet,
    /// Whether it names S3, and so no action of IAM.
    is_of_s3_alone: bool,
}

impl ActionPattern {
    pub(crate) fn parse(text: &str) -> Self {
        let reading = TextForm { wildcards: true, variables: false };
        let pattern = Pattern::parse(&text.to_ascii_lowercase(), reading);
        let glob = pattern.fixed().cloned().unwrap_or_else(Glob::any);
        let mut of_s3 = ActionSet::default();
        let names = glob.after("s3:");
        for (index, name) in LOWER_NAMES.iter().enumerate() {
            if names.iter().any(|glob| glob.matches(name)) {
                of_s3.add(index);
            }
        }
        // The name of a service has no wildcards.
        let is_of_s3_alone =
            text.split_once(':').is_some_and(|(vendor, _)| vendor.eq_ignore_ascii_case("s3"));
        Self { glob, of_s3, is_of_s3_alone }
    }
}

/// `Action` or `NotAction`.
#[derive(Debug, Clone)]
pub(crate) struct ActionTest {
    pub(crate) is_negated: bool,
    pub(crate) patterns: Vec<ActionPattern>,
    /// The actions of S3 that it matches.
    pub(crate) of_s3: ActionSet,
}

impl ActionTest {
    pub(crate) fn new(patterns: Vec<ActionPattern>, is_negated: bool) -> Self {
        let mut of_s3 = ActionSet::default();
        for index in 0..ACTIONS.len() {
            if patterns.iter().any(|pattern| pattern.of_s3.has(index)) != is_negated {
                of_s3.add(index);
            }
        }
        Self { is_negated, patterns, of_s3 }
    }

    /// Bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let heap = |pattern: &ActionPattern| pattern.glob.heap_bytes();
        size_of::<Self>() + size_of_val(&*self.patterns) + self.patterns.iter().map(heap).sum::<usize>()
    }

    /// Whether it matches actions of S3 alone.
    pub(crate) fn is_of_s3_alone(&self) -> bool {
        !self.is_negated && self.patterns.iter().all(|pattern| pattern.is_of_s3_alone)
    }

    /// Whether it matches one of these actions of S3.
    pub(crate) fn has_any(&self, names: &[&str]) -> bool {
        self.of_s3.indices().any(|index| names.contains(&name_of(index)))
    }

    /// Whether it matches an action that is in no table.
    pub(crate) fn matches(&self, action: &str) -> bool {
        let action = action.to_ascii_lowercase();
        self.patterns.iter().any(|pattern| pattern.glob.matches(&action)) != self.is_negated
    }
}
