//! The actions of S3, and what each is about.

use std::sync::LazyLock;

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

const WORDS: usize = ACTIONS.len().div_ceil(64);

/// The actions of S3, each with its `s3:` left out, and what each is about.
pub fn s3_actions() -> impl Iterator<Item = (&'static str, ActionTarget)> {
    ACTIONS.iter().copied()
}

/// Cells of the hash table of names: a power of two, three times as many as actions.
const CELLS: usize = 512;

/// The hash table of names: the place of an action in [`ACTIONS`] and one more; zero is empty.
static CELL_OF_NAME: LazyLock<[u8; CELLS]> = LazyLock::new(|| {
    let mut cells = [0; CELLS];
    for (place, (name, _)) in (1..).zip(ACTIONS) {
        let mut cell = cell_of(name);
        while cells[cell] != 0 {
            cell = (cell + 1) % CELLS;
        }
        cells[cell] = place;
    }
    cells
});

/// By its length, its first and its last 8 bytes: each decision looks up one name, so it has to be quick.
fn cell_of(name: &str) -> usize {
    let bytes = name.as_bytes();
    let number = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let mixed = number(bytes.first_chunk()) ^ number(bytes.last_chunk()).rotate_left(23) ^ bytes.len() as u64;
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % CELLS
}

/// The place of an action in the table; none if it is not S3's.
pub(crate) fn index_of(action: &str) -> Option<usize> {
    index_of_name(action.strip_prefix("s3:")?)
}

fn index_of_name(name: &str) -> Option<usize> {
    let cells = &*CELL_OF_NAME;
    let mut cell = cell_of(name);
    loop {
        let index = usize::from(cells[cell]).checked_sub(1)?;
        if ACTIONS[index].0 == name {
            return Some(index);
        }
        cell = (cell + 1) % CELLS;
    }
}

/// The kind of resource of the action at a place.
fn target_of(index: usize) -> ActionTarget {
    ACTIONS.get(index).map_or(Other, |(_, target)| *target)
}

/// Some actions of S3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ActionSet([u64; WORDS]);

impl ActionSet {
    /// The actions with these names, which have no `s3:`.
    pub(crate) fn of(names: &[&str]) -> Self {
        let mut found = Self::default();
        names.iter().filter_map(|name| index_of_name(name)).for_each(|index| found.add(index));
        found
    }

    pub(crate) fn has(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Whether the set has an action of another set.
    pub(crate) fn has_any(&self, other: Self) -> bool {
        !self.and(other).is_empty()
    }

    /// The actions of both.
    pub(crate) fn or(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// The actions that both have.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// Actions of this set that another lacks.
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
        *self == Self::default()
    }

    /// All actions that are about a kind of resource which is meant.
    pub(crate) fn about(is_meant: impl Fn(ActionTarget) -> bool) -> Self {
        let mut found = Self::default();
        (0..ACTIONS.len()).filter(|&index| is_meant(target_of(index))).for_each(|index| found.add(index));
        found
    }

    pub(crate) fn add(&mut self, index: usize) {
        if let Some(word) = self.0.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }
}
