//! AccessDenied as AWS words it: who, what, on what, and by which kind of policy. S3 and IAM answer with it,
//! and S3 shows a caller without a signature none of it.

use sherd_policy::Resource;

/// The reason why a caller may not do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// No policy of the caller allows the action.
    Implicit,
    /// A policy of the caller denies the action.
    ByIdentity,
    /// The policy of the bucket denies the action.
    ByResource,
    /// The policy that the caller puts is public, and Block Public Access is on.
    PublicPolicy,
    /// The policy that the caller changes is one of AWS.
    ForeignPolicy,
}

impl Denial {
    /// The message to the caller with this ARN, who may not do `action` (`s3:GetObject`) to `resource`.
    pub fn message(self, arn: &str, action: &str, resource: Resource<'_>) -> String {
        let resource = match resource {
            // S3 names no resource where the action is on all buckets.
            Resource::Service if action.starts_with("s3:") => String::new(),
            Resource::Service => " on resource: *".to_owned(),
            Resource::Bucket(bucket) => format!(" on resource: \"arn:aws:s3:::{bucket}\""),
            Resource::Object(bucket, key) => format!(" on resource: \"arn:aws:s3:::{bucket}/{key}\""),
            Resource::Iam(arn) if self == Self::ForeignPolicy => format!(" on resource: policy {arn}"),
            Resource::Iam(arn) => format!(" on resource: {arn}"),
        };
        let reason = match self {
            Self::Implicit => format!(" because no identity-based policy allows the {action} action"),
            Self::ByIdentity => " with an explicit deny in an identity-based policy".to_owned(),
            Self::ByResource => " with an explicit deny in a resource-based policy".to_owned(),
            Self::PublicPolicy => {
                " because public policies are prevented by the BlockPublicPolicy setting in S3 \
                                   Block Public Access."
                    .to_owned()
            }
            Self::ForeignPolicy => String::new(),
        };
        format!("User: {arn} is not authorized to perform: {action}{resource}{reason}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_who_may_not_do_what_to_what_and_why() {
        let policy = "arn:aws:iam::aws:policy/ReadOnlyAccess";
        for (denial, action, resource, end) in [
            (
                Denial::Implicit,
                "s3:ListAllMyBuckets",
                Resource::Service,
                "s3:ListAllMyBuckets because no identity-based policy allows the s3:ListAllMyBuckets action",
            ),
            (
                Denial::Implicit,
                "iam:ListUsers",
                Resource::Service,
                "iam:ListUsers on resource: * because no identity-based policy allows the iam:ListUsers action",
            ),
            (
                Denial::ByIdentity,
                "s3:GetObject",
                Resource::Object("b", "a/k"),
                "s3:GetObject on resource: \"arn:aws:s3:::b/a/k\" with an explicit deny in an identity-based policy",
            ),
            (
                Denial::ByResource,
                "s3:ListBucket",
                Resource::Bucket("b"),
                "s3:ListBucket on resource: \"arn:aws:s3:::b\" with an explicit deny in a resource-based policy",
            ),
            (
                Denial::PublicPolicy,
                "s3:PutBucketPolicy",
                Resource::Bucket("b"),
                "s3:PutBucketPolicy on resource: \"arn:aws:s3:::b\" because public policies are prevented by the \
                 BlockPublicPolicy setting in S3 Block Public Access.",
            ),
            (
                Denial::ByIdentity,
                "iam:DeletePolicy",
                Resource::Iam(policy),
                "iam:DeletePolicy on resource: arn:aws:iam::aws:policy/ReadOnlyAccess with an explicit deny in an \
                 identity-based policy",
            ),
            (
                Denial::ForeignPolicy,
                "iam:DeletePolicy",
                Resource::Iam(policy),
                "iam:DeletePolicy on resource: policy arn:aws:iam::aws:policy/ReadOnlyAccess",
            ),
        ] {
            let message = denial.message("ada", action, resource);
            assert_eq!(message, format!("User: ada is not authorized to perform: {end}"));
        }
    }
}
