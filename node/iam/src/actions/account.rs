//! The account: a count of its entities with their quotas, and who calls.

use sherd_core::limits::{
    IAM_ATTACHED_MAX, IAM_GROUP_POLICY_CHARS_MAX, IAM_GROUPS_MAX, IAM_MANAGED_POLICY_CHARS_MAX,
    IAM_POLICY_VERSIONS_MAX, IAM_USER_KEYS_MAX, IAM_USER_POLICY_CHARS_MAX,
};
use sherd_policy::ACCOUNT;

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::limits::COUNTED_PAGE;
use super::super::request::Call;

/// Counts the entities of one kind, a page at a time.
macro_rules! count {
    ($call:expr, $list:ident) => {{
        let (mut count, mut marker) = (0, None::<String>);
        loop {
            let page = $call.iam.$list("/", marker.as_deref(), COUNTED_PAGE).await?;
            count += page.records.len();
            match page.next {
                Some(next) => marker = Some(next),
                None => break count,
            }
        }
    }};
}

pub(super) async fn summary(call: &Call) -> Result<Elements, Fault> {
    let entries = [
        ("Users", count!(call, list_users)),
        ("Groups", count!(call, list_groups)),
        ("Policies", count!(call, list_policies)),
        ("AccountAccessKeysPresent", 1),
        ("AccountMFAEnabled", 0),
        ("MFADevices", 0),
        ("AccessKeysPerUserQuota", IAM_USER_KEYS_MAX),
        ("GroupsPerUserQuota", IAM_GROUPS_MAX),
        ("AttachedPoliciesPerUserQuota", IAM_ATTACHED_MAX),
        ("AttachedPoliciesPerGroupQuota", IAM_ATTACHED_MAX),
        ("VersionsPerPolicyQuota", IAM_POLICY_VERSIONS_MAX),
        ("PolicySizeQuota", IAM_MANAGED_POLICY_CHARS_MAX),
        ("UserPolicySizeQuota", IAM_USER_POLICY_CHARS_MAX),
        ("GroupPolicySizeQuota", IAM_GROUP_POLICY_CHARS_MAX),
    ];
    let mut result = Elements::default();
    result.within("SummaryMap", |map| {
        for (key, value) in entries {
            map.within("entry", |entry| {
                entry.text("key", key).text("value", value);
            });
        }
    });
    Ok(result)
}

pub(super) async fn caller_identity(call: &Call) -> Result<Elements, Fault> {
    let mut result = Elements::default();
    result.text("Arn", call.own_arn()).text("UserId", call.own_id()).text("Account", ACCOUNT);
    Ok(result)
}
