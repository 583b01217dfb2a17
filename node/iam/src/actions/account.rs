//! The account: a count of its entities with their quotas, and who calls.

use sherd_core::iam::EntityKind;
use sherd_core::limits::{
    IAM_ATTACHED_MAX, IAM_GROUP_POLICY_CHARS_MAX, IAM_GROUPS_MAX, IAM_MANAGED_POLICY_CHARS_MAX,
    IAM_POLICY_VERSIONS_MAX, IAM_USER_KEYS_MAX, IAM_USER_POLICY_CHARS_MAX,
};
use sherd_policy::ACCOUNT;

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::limits::{GROUPS_QUOTA, POLICIES_QUOTA, USERS_QUOTA};
use super::super::request::ActionRequest;

pub(super) async fn summary(request: &ActionRequest) -> Result<Elements, Fault> {
    let entries = [
        ("Users", request.iam.entity_count(EntityKind::User).await?),
        ("UsersQuota", USERS_QUOTA),
        ("Groups", request.iam.entity_count(EntityKind::Group).await?),
        ("GroupsQuota", GROUPS_QUOTA),
        ("Policies", request.iam.entity_count(EntityKind::Policy).await?),
        ("PoliciesQuota", POLICIES_QUOTA),
        ("Roles", 0),
        ("RolesQuota", 0),
        ("InstanceProfiles", 0),
        ("InstanceProfilesQuota", 0),
        ("ServerCertificates", 0),
        ("ServerCertificatesQuota", 0),
        ("Providers", 0),
        ("AccountAccessKeysPresent", 1),
        ("AccountSigningCertificatesPresent", 0),
        ("SigningCertificatesPerUserQuota", 0),
        ("AccountMFAEnabled", 0),
        ("MFADevices", 0),
        ("MFADevicesInUse", 0),
        ("AccessKeysPerUserQuota", IAM_USER_KEYS_MAX),
        ("GroupsPerUserQuota", IAM_GROUPS_MAX),
        ("AttachedPoliciesPerUserQuota", IAM_ATTACHED_MAX),
        ("AttachedPoliciesPerGroupQuota", IAM_ATTACHED_MAX),
        ("VersionsPerPolicyQuota", IAM_POLICY_VERSIONS_MAX),
        ("PolicySizeQuota", IAM_MANAGED_POLICY_CHARS_MAX),
        ("UserPolicySizeQuota", IAM_USER_POLICY_CHARS_MAX),
        ("GroupPolicySizeQuota", IAM_GROUP_POLICY_CHARS_MAX),
    ];
    Ok(Elements::of("SummaryMap", |map| {
        for (key, value) in entries {
            map.within("entry", |entry| {
                entry.text("key", key).text("value", value);
            });
        }
    }))
}

pub(super) async fn caller_identity(request: &ActionRequest) -> Result<Elements, Fault> {
    let mut result = Elements::default();
    result.text("Arn", request.own_arn()).text("UserId", request.own_id()).text("Account", ACCOUNT);
    Ok(result)
}
