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
const WRITES: &[&str] = &["CopyObject", "CreateMultipartUpload", "PostObject", "PutObject"];
/// Lists of keys.
const LISTS: &[&str] = &["ListObjectVersions", "ListObjects", "ListObjectsV2"];

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        of: LISTS,
        here: "a page that passes many deleted keys is short or empty, with `IsTruncated` and a marker",
        aws: "a page is rarely empty",
        why: "a page's work is bounded",
        test: "pages_end_after_enough_deleted_keys_and_lead_to_what_is_behind_them",
    },
    Difference {
        of: WRITES,
        here: "a new key with a NUL character is InvalidURI",
        aws: "it is stored",
        why: "XML cannot write it",
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
        aws: "also in the `Authorization` header, where a region has them",
        why: "see [Presigned URLs of Signature Version 2](#presigned-urls-of-signature-version-2)",
        test: "urls_of_signature_version_2_are_refused_for_all_else",
    },
    Difference {
        of: &["GetObjectAttributes"],
        here: "the parts of every multipart object are listed, without checksums where the object's covers it whole",
        aws: "those of such an object are only counted",
        why: "clients that resume a download want them",
        test: "the_parts_of_a_multipart_object_are_listed",
    },
    Difference {
        of: WRITES,
        here: "a storage class other than `STANDARD` is 400 InvalidStorageClass",
        aws: "it has others",
        why: "clients try a 501 again",
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
        aws: "they are taken",
        why: "lists decide nothing",
        test: "ownership_stays_with_the_owner_of_the_bucket",
    },
    Difference {
        of: &["DeleteBucketOwnershipControls"],
        here: "access control lists stay unsupported",
        aws: "as with `ObjectWriter`",
        why: "as above",
        test: "deleted_ownership_controls_are_not_found_until_they_are_put",
    },
    Difference {
        of: &["PutBucketPolicy"],
        here: "a policy of more than 64 KiB is 400 MaxMessageLengthExceeded, white space included",
        aws: "white space does not count",
        why: "it is stored as it was sent",
        test: "a_policy_that_is_malformed_is_refused_in_the_words_of_s3",
    },
    Difference {
        of: &["PutBucketPolicy"],
        here: "the policy is shown as it was sent",
        aws: "white space between its tokens is gone",
        why: "what a client compares is what it sent",
        test: "a_policy_is_shown_as_it_was_put_until_it_is_deleted",
    },
    Difference {
        of: &["DeletePublicAccessBlock", "GetPublicAccessBlock", "PutPublicAccessBlock"],
        here: "`BlockPublicAcls` and `IgnorePublicAcls` are stored and shown, and change nothing",
        aws: "they refuse and ignore access control lists",
        why: "no list has an effect here",
        test: "a_new_bucket_blocks_all_public_access",
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
        aws: "both are taken",
        why: "there is no network of edge locations",
        test: "the_owner_pays_and_nothing_is_accelerated",
    },
    Difference {
        of: &["PutBucketVersioning"],
        here: "`Enabled` is 501 NotImplemented; `Suspended` is taken, and GetBucketVersioning goes on showing no status",
        aws: "both are taken and shown",
        why: "an object has one version",
        test: "what_is_off_can_be_turned_off",
    },
    Difference {
        of: &["PutBucketLogging", "PutBucketNotificationConfiguration"],
        here: "a document that turns nothing on is taken; any other is 501 NotImplemented",
        aws: "both are taken",
        why: "there are no such logs and events",
        test: "what_is_off_can_be_turned_off",
    },
    Difference {
        of: &[
            "DeleteObject",
            "DeleteObjectTagging",
            "GetObject",
            "GetObjectAttributes",
            "GetObjectTagging",
            "HeadObject",
            "PutObjectTagging",
        ],
        here: "a version id is `null` or 32 hexadecimal digits; any other is 400 InvalidArgument",
        aws: "it has ids of another form",
        why: "ids are opaque",
        test: "a_version_that_is_not_there_is_missed_and_no_version_id_is_invalid",
    },
    Difference {
        of: WRITES,
        here: "`x-amz-website-redirect-location` is stored and given back, and redirects nothing",
        aws: "a website's address redirects to it",
        why: "no website is served",
        test: "the_address_to_redirect_to_is_kept_and_never_copied",
    },
    Difference {
        of: &["CopyObject"],
        here: "a copy onto itself is InvalidRequest unless its metadata or its tags are replaced, or it redirects",
        aws: "a storage class or another encryption is a reason, too",
        why: "such a copy changes nothing",
        test: "metadata_is_replaced_when_asked",
    },
    Difference {
        of: &["ListMultipartUploads"],
        here: "a page passes 10,000 keys at most, and may be empty and truncated where few of them have uploads",
        aws: "a page has as many uploads as it may",
        why: "there is no list of keys with uploads",
        test: "pages_of_uploads_end_after_enough_keys_and_lose_none",
    },
    Difference {
        of: &["ListBuckets", "ListObjectsV2"],
        here: "an empty `continuation-token` is InvalidArgument",
        aws: "not documented",
        why: "a lost token would begin again without an end",
        test: "an_invalid_argument_is_named_with_its_value",
    },
    Difference {
        of: &["CompleteMultipartUpload", "CopyObject", "PutObject", "UploadPart", "UploadPartCopy"],
        here: "a full disk is 507 InsufficientStorage",
        aws: "it has no such error",
        why: "a client must not try again",
        test: "overload_and_full_disks_keep_their_status_and_headers",
    },
    Difference {
        of: &["UploadPart"],
        here: "an aws-chunked frame that is signed has 16 MiB at most: InvalidChunkSizeError",
        aws: "it has no such bound",
        why: "a frame is held in memory until its signature is verified; SDKs send 64 KiB",
        test: "a_signed_frame_over_the_limit_is_refused",
    },
    Difference {
        of: &["CreateBucket"],
        here: "a bucket is in the cluster's region, whose name may be any",
        aws: "InvalidLocationConstraint for a name that is not a region of AWS's",
        why: "a cluster is one region",
        test: "a_location_is_a_region_of_aws_or_invalid",
    },
    Difference {
        of: WRITES,
        here: "a header `x-amz-*` that is not known is 501 NotImplemented",
        aws: "it is ignored",
        why: "200 would be for what was not stored",
        test: "headers_for_features_that_are_lacking_are_not_implemented",
    },
    Difference {
        of: &["PostObject"],
        here: "a form without a signature is AccessDenied",
        aws: "it is taken where the bucket may be written by everyone",
        why: "the access keys of the cluster decide every access",
        test: "a_form_that_is_not_signed_well_is_refused",
    },
    Difference {
        of: &["PostObject"],
        here: "where the file has no name, nothing stands in the place of `${filename}`, as AWS's page says",
        aws: "the variable stays as it is",
        why: "an object with such a name helps no one",
        test: "the_name_of_the_file_stands_for_its_variable",
    },
    Difference {
        of: &["PostObject"],
        here: "more than 1 MiB behind the file is MaxMessageLengthExceeded, another file there \
               IncorrectNumberOfFilesInPostRequest, and so is a form without a file",
        aws: "all behind the file is ignored; a form without a file is InvalidArgument with the same message",
        why: "a form has one file",
        test: "a_body_that_is_no_form_is_refused",
    },
    Difference {
        of: &["PostObject"],
        here: "a field `x-amz-tagging` is 501 NotImplemented",
        aws: "not documented; ignored, by reports",
        why: "the field `tagging` has tags",
        test: "fields_are_held_to_the_rules_of_the_headers_that_they_are",
    },
    Difference {
        of: &["ListMultipartUploads"],
        here: "an `upload-id-marker` of no upload that is open begins the page where that id would stand; only a text that can be no id is InvalidArgument",
        aws: "not documented",
        why: "uploads end while a client pages through them",
        test: "the_marker_of_an_upload_that_is_over_begins_where_it_stood",
    },
];
