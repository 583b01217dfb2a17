//! Known differences from AWS's S3, each with its reason and the test that holds it.

/// A row: the answer here and on AWS.
pub(super) struct Difference {
    /// The operations that it is one of.
    pub(super) of: &'static [&'static str],
    pub(super) here: &'static str,
    pub(super) aws: &'static str,
    pub(super) why: &'static str,
    /// The function of the test.
    pub(super) test: &'static str,
}

/// Operations that write an object, or begin to.
const WRITES: &[&str] = &["CopyObject", "CreateMultipartUpload", "PutObject"];
/// Lists of keys.
const LISTS: &[&str] = &["ListObjectVersions", "ListObjects", "ListObjectsV2"];

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        of: LISTS,
        here: "a page that passes many deleted keys is short or empty, with `IsTruncated` and a marker",
        aws: "a page may be short, too, but is rarely empty",
        why: "a page does a bounded amount of work",
        test: "a_hundred_clients_list_a_bucket_that_was_emptied",
    },
    Difference {
        of: &["CreateMultipartUpload", "PutObject", "CopyObject"],
        here: "a new key with a NUL character is InvalidArgument",
        aws: "it is stored",
        why: "XML cannot write it, so that lists with it break clients",
        test: "a_new_key_has_no_nul",
    },
    Difference {
        of: &["CompleteMultipartUpload", "CopyObject", "DeleteObject", "DeleteObjects", "PutObject"],
        here: "a conditional write that is sent again by its client is answered with the first success",
        aws: "412",
        why: "see [Retries of conditional writes](#retries-of-conditional-writes)",
        test: "a_conditional_write_whose_answer_is_lost_succeeds",
    },
    Difference {
        of: &["GetObject", "HeadObject", "PutObject"],
        here: "URLs of Signature Version 2 are taken in the query alone, and with signed parameters alone",
        aws: "they are taken in the `Authorization` header, too, where a region has them",
        why: "see [Presigned URLs of Signature Version 2](#presigned-urls-of-signature-version-2)",
        test: "urls_of_signature_version_2_are_refused_for_all_else",
    },
    Difference {
        of: &["GetObjectAttributes"],
        here: "the parts of every multipart object are listed",
        aws: "those of an object whose checksum covers it whole are only counted",
        why: "they are known, and clients that resume a download want them",
        test: "the_parts_of_a_multipart_object_are_listed",
    },
    Difference {
        of: WRITES,
        here: "a storage class other than `STANDARD` is 400 InvalidStorageClass",
        aws: "it has others",
        why: "there is one class, and clients try a 501 again",
        test: "there_is_one_storage_class",
    },
    Difference {
        of: &[
            "CopyObject",
            "CreateBucket",
            "CreateMultipartUpload",
            "PutBucketAcl",
            "PutObject",
            "PutObjectAcl",
        ],
        here: "the canned list `private` is taken like `bucket-owner-full-control`; all others, and grants, are 400 \
               AccessControlListNotSupported, and where a bucket is made InvalidBucketAclWithObjectOwnership",
        aws: "the same with the ownership `BucketOwnerEnforced`, which new buckets have, but for `private`",
        why: "it says what holds, and clients send it with every PUT",
        test: "a_write_brings_the_owners_list_or_is_not_supported",
    },
    Difference {
        of: &["CreateBucket", "PutBucketOwnershipControls"],
        here: "`ObjectWriter` and `BucketOwnerPreferred` are 400 AccessControlListNotSupported",
        aws: "they bring access control lists back",
        why: "there is one account, and lists decide nothing",
        test: "ownership_stays_with_the_owner_of_the_bucket",
    },
    Difference {
        of: &["DeleteBucketOwnershipControls", "GetBucketOwnershipControls"],
        here: "a deletion changes nothing: the ownership stays `BucketOwnerEnforced`",
        aws: "the bucket has no ownership controls then",
        why: "as above",
        test: "deleting_an_absent_configuration_succeeds",
    },
    Difference {
        of: &["PutBucketRequestPayment"],
        here: "`Requester` is 400 InvalidRequest",
        aws: "it is taken",
        why: "no request has a price",
        test: "the_owner_pays_and_nothing_is_accelerated",
    },
    Difference {
        of: &["GetBucketAccelerateConfiguration", "PutBucketAccelerateConfiguration"],
        here: "`Enabled` is 400 InvalidRequest; `Suspended` is taken and not shown",
        aws: "both are taken where the bucket can be accelerated",
        why: "there is no network of edge locations",
        test: "the_owner_pays_and_nothing_is_accelerated",
    },
    Difference {
        of: WRITES,
        here: "a header `x-amz-*` that is not known is 501 NotImplemented",
        aws: "it is ignored",
        why: "to ignore it would be to answer 200 for what was not stored",
        test: "headers_for_features_that_are_lacking_are_not_implemented",
    },
];
