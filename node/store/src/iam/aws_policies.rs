//! The managed policies of AWS that are part of the program: `arn:aws:iam::aws:policy/...`.
//!
//! None is a record. The record of a user or a group names those that are attached to it, and is of a version
//! that programs without such policies refuse. A program that has not all that a record names gives its keys
//! no view ([`super::IamReadError::UnknownAwsPolicy`]): one that is left out could be one that denies.
//!
//! Names and ids are AWS's (AWS Managed Policy Reference Guide). Documents are AWS's too; those of three
//! policies that name actions of some hundred services have the statements about S3, IAM and STS alone.

use std::sync::LazyLock;

use sherd_core::iam::{EntityId, ManagedPolicy, PolicyVendor, PolicyVersion};

/// A row of the table.
struct Row {
    name: &'static str,
    path: &'static str,
    id: &'static str,
    /// The number of the version, as AWS has it; 1 where the document is a part of AWS's.
    version: u32,
    description: &'static str,
    /// The effect, `Action` or `NotAction`, and the actions of each statement; each is about all resources.
    statements: &'static [(&'static str, &'static str, &'static [&'static str])],
}

/// When AWS published its first managed policies, 2015-02-06, in milliseconds since the Unix epoch.
const PUBLISHED_MS: u64 = 1_423_180_800_000;

const TABLE: &[Row] = &[
    Row {
        name: "AWSDenyAll",
        path: "/",
        id: "ANPAZKAPJZG4P43IUQ5E5",
        version: 2,
        description: "Deny all access.",
        statements: &[("Deny", "Action", &["*"])],
    },
    Row {
        name: "AdministratorAccess",
        path: "/",
        id: "ANPAIWMBCKSKIEE64ZLYK",
        version: 1,
        description: "Provides full access to AWS services and resources.",
        statements: &[("Allow", "Action", &["*"])],
    },
    Row {
        name: "AmazonS3FullAccess",
        path: "/",
        id: "ANPAIFIR6V6BVTRAHWINE",
        version: 2,
        description: "Provides full access to all buckets via the AWS Management Console.",
        statements: &[("Allow", "Action", &["s3:*", "s3-object-lambda:*"])],
    },
    Row {
        name: "AmazonS3ReadOnlyAccess",
        path: "/",
        id: "ANPAIZTJ4DXE7G6AGAE6M",
        version: 3,
        description: "Provides read only access to all buckets via the AWS Management Console.",
        statements: &[(
            "Allow",
            "Action",
            &["s3:Get*", "s3:List*", "s3:Describe*", "s3-object-lambda:Get*", "s3-object-lambda:List*"],
        )],
    },
    Row {
        name: "IAMFullAccess",
        path: "/",
        id: "ANPAI7XKCFMBPM3QQRRVQ",
        version: 2,
        description: "Provides full access to IAM via the AWS Management Console.",
        statements: &[(
            "Allow",
            "Action",
            &[
                "iam:*",
                "organizations:DescribeAccount",
                "organizations:DescribeOrganization",
                "organizations:DescribeOrganizationalUnit",
                "organizations:DescribePolicy",
                "organizations:ListChildren",
                "organizations:ListParents",
                "organizations:ListPoliciesForTarget",
                "organizations:ListRoots",
                "organizations:ListPolicies",
                "organizations:ListTargetsForPolicy",
            ],
        )],
    },
    Row {
        name: "IAMReadOnlyAccess",
        path: "/",
        id: "ANPAJKSO7NDY4T57MWDSQ",
        version: 4,
        description: "Provides read only access to IAM via the AWS Management Console.",
        statements: &[(
            "Allow",
            "Action",
            &[
                "iam:GenerateCredentialReport",
                "iam:GenerateServiceLastAccessedDetails",
                "iam:Get*",
                "iam:List*",
                "iam:SimulateCustomPolicy",
                "iam:SimulatePrincipalPolicy",
            ],
        )],
    },
    Row {
        name: "PowerUserAccess",
        path: "/",
        id: "ANPAJYRXTHIB4FOVS3ZXS",
        version: 12,
        description: "Provides full access to AWS services and resources, but does not allow management of \
                      Users and groups.",
        statements: &[
            ("Allow", "NotAction", &["iam:*", "organizations:*", "account:*"]),
            (
                "Allow",
                "Action",
                &[
                    "account:GetAccountInformation",
                    "account:GetGovCloudAccountInformation",
                    "account:GetPrimaryEmail",
                    "account:ListRegions",
                    "iam:CreateServiceLinkedRole",
                    "iam:DeleteServiceLinkedRole",
                    "iam:ListRoles",
                    "organizations:DescribeEffectivePolicy",
                    "organizations:DescribeOrganization",
                ],
            ),
        ],
    },
    Row {
        name: "ReadOnlyAccess",
        path: "/",
        id: "ANPAILL3HVNFSB6DCOWYQ",
        version: 1,
        description: "Provides read-only access to S3, IAM and STS.",
        statements: &[(
            "Allow",
            "Action",
            &[
                "iam:Generate*",
                "iam:Get*",
                "iam:List*",
                "iam:Simulate*",
                "s3:Describe*",
                "s3:Get*",
                "s3:List*",
                "sts:GetAccessKeyInfo",
                "sts:GetCallerIdentity",
                "sts:GetSessionToken",
            ],
        )],
    },
    Row {
        name: "SecurityAudit",
        path: "/",
        id: "ANPAIX2T3QCXHR2OGGCTO",
        version: 1,
        description: "Provides access to read the security configuration of S3 and IAM.",
        statements: &[(
            "Allow",
            "Action",
            &[
                "iam:GenerateCredentialReport",
                "iam:GenerateServiceLastAccessedDetails",
                "iam:Get*",
                "iam:List*",
                "iam:SimulateCustomPolicy",
                "iam:SimulatePrincipalPolicy",
                "s3:GetAccelerateConfiguration",
                "s3:GetAccountPublicAccessBlock",
                "s3:GetAnalyticsConfiguration",
                "s3:GetBucket*",
                "s3:GetEncryptionConfiguration",
                "s3:GetInventoryConfiguration",
                "s3:GetLifecycleConfiguration",
                "s3:GetMetricsConfiguration",
                "s3:GetObjectAcl",
                "s3:GetObjectVersionAcl",
                "s3:GetReplicationConfiguration",
                "s3:ListAllMyBuckets",
            ],
        )],
    },
    Row {
        name: "ViewOnlyAccess",
        path: "/job-function/",
        id: "ANPAID22R6XPJATWOFDK6",
        version: 1,
        description: "Provides access to list the resources and the basic metadata of S3 and IAM.",
        statements: &[(
            "Allow",
            "Action",
            &[
                "iam:GetAccountSummary",
                "iam:GetLoginProfile",
                "iam:List*",
                "s3:ListAllMyBuckets",
                "s3:ListBucket",
            ],
        )],
    },
];

/// All of them, by name.
static POLICIES: LazyLock<Vec<ManagedPolicy>> = LazyLock::new(|| TABLE.iter().map(Row::policy).collect());

impl Row {
    fn policy(&self) -> ManagedPolicy {
        let version =
            PolicyVersion { number: self.version, created_ms: PUBLISHED_MS, document: self.document() };
        ManagedPolicy {
            vendor: PolicyVendor::Aws,
            id: EntityId::parse(self.id.to_owned()).expect("the table has ids"),
            name: self.name.to_owned(),
            path: self.path.to_owned(),
            created_ms: PUBLISHED_MS,
            description: self.description.to_owned(),
            updated_ms: PUBLISHED_MS,
            tags: Vec::new(),
            default: self.version,
            last: self.version,
            versions: vec![version],
        }
    }

    fn document(&self) -> String {
        let statements = self.statements.iter().map(|(effect, element, actions)| {
            let actions: Vec<String> = actions.iter().map(|action| format!("\"{action}\"")).collect();
            let actions = actions.join(",");
            format!(r#"{{"Effect":"{effect}","{element}":[{actions}],"Resource":"*"}}"#)
        });
        let statements: Vec<String> = statements.collect();
        format!(r#"{{"Version":"2012-10-17","Statement":[{}]}}"#, statements.join(","))
    }
}

/// All of them, by name.
pub fn aws_policies() -> &'static [ManagedPolicy] {
    &POLICIES
}

/// The one of a name, in any case.
pub(super) fn find(name: &str) -> Option<&'static ManagedPolicy> {
    POLICIES.iter().find(|policy| policy.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use sherd_core::limits::IAM_MANAGED_POLICY_CHARS_MAX;
    use sherd_policy::{Policy, PolicyForm};

    use super::*;

    #[test]
    fn the_ten_are_managed_policies_of_stable_names_and_ids() {
        let known: Vec<String> =
            aws_policies().iter().map(|policy| format!("{} {}", policy.arn(), policy.id)).collect();
        let expected = [
            "AWSDenyAll ANPAZKAPJZG4P43IUQ5E5",
            "AdministratorAccess ANPAIWMBCKSKIEE64ZLYK",
            "AmazonS3FullAccess ANPAIFIR6V6BVTRAHWINE",
            "AmazonS3ReadOnlyAccess ANPAIZTJ4DXE7G6AGAE6M",
            "IAMFullAccess ANPAI7XKCFMBPM3QQRRVQ",
            "IAMReadOnlyAccess ANPAJKSO7NDY4T57MWDSQ",
            "PowerUserAccess ANPAJYRXTHIB4FOVS3ZXS",
            "ReadOnlyAccess ANPAILL3HVNFSB6DCOWYQ",
            "SecurityAudit ANPAIX2T3QCXHR2OGGCTO",
            "job-function/ViewOnlyAccess ANPAID22R6XPJATWOFDK6",
        ];
        assert_eq!(known, expected.map(|policy| format!("arn:aws:iam::aws:policy/{policy}")));
        for policy in aws_policies() {
            let version = policy.default_version().expect("it has one");
            let parsed = Policy::parse_new(version.document.as_bytes(), PolicyForm::Managed);
            assert!(parsed.is_ok(), "{}: {parsed:?}", policy.name);
            assert!(version.document.len() <= IAM_MANAGED_POLICY_CHARS_MAX);
            assert_eq!(find(&policy.name.to_lowercase()), Some(policy));
        }
    }
}
