//! The table of actions: each with its service, the entity whose permission it takes, and its function.
//!
//! A new action is a row here and a function in a file of this folder. An action that is not in the table is
//! answered InvalidAction.

mod page;
mod users;
mod keys;
mod groups;
mod inline;
mod managed;
mod versions;
mod attached;
mod account;
mod details;
mod simulate;
mod context_keys;
mod absent;

use futures::future::BoxFuture;

use super::answer::{Elements, Service};
use super::authorize::Subject;
use super::fault::Fault;
use super::request::ActionRequest;

/// The work of an action; gives the elements of its result.
type Handler = fn(ActionRequest) -> BoxFuture<'static, Result<Elements, Fault>>;

/// An action.
#[derive(Debug)]
pub(crate) struct Action {
    /// The action's name, as the parameter `Action` has it.
    pub(crate) name: &'static str,
    /// The permission that it takes.
    pub(crate) permission: &'static str,
    /// The service that the action is of.
    pub(crate) service: Service,
    /// The entity that it is about.
    pub(crate) subject: Subject,
    /// The function that carries the action out.
    pub(crate) run: Handler,
}

/// The actions of one service: `Name(subject) = function;`.
macro_rules! actions {
    ($($service:ident, $prefix:literal { $($name:ident($subject:ident) = $run:path;)* })*) => {
        /// All actions.
        pub(crate) static ACTIONS: &[Action] = &[$($(
            Action {
                name: stringify!($name),
                permission: concat!($prefix, ":", stringify!($name)),
                service: Service::$service,
                subject: Subject::$subject,
                run: |request| Box::pin(async move { $run(&request).await }),
            },
        )*)*];
    };
}

actions! {
    Iam, "iam" {
        CreateUser(NewUser) = users::create;
        GetUser(User) = users::get;
        ListUsers(Account) = users::list;
        UpdateUser(MovedUser) = users::update;
        DeleteUser(User) = users::delete;
        TagUser(User) = users::tag;
        UntagUser(User) = users::untag;
        ListUserTags(User) = users::list_tags;
        CreateAccessKey(User) = keys::create;
        ListAccessKeys(User) = keys::list;
        UpdateAccessKey(User) = keys::update;
        DeleteAccessKey(User) = keys::delete;
        GetAccessKeyLastUsed(Key) = keys::last_used;
        ImportAccessKey(Certificate) = keys::import;
        CreateGroup(NewGroup) = groups::create;
        GetGroup(Group) = groups::get;
        ListGroups(Account) = groups::list;
        UpdateGroup(MovedGroup) = groups::update;
        DeleteGroup(Group) = groups::delete;
        AddUserToGroup(Group) = groups::add_user;
        RemoveUserFromGroup(Group) = groups::remove_user;
        ListGroupsForUser(User) = groups::list_for_user;
        PutUserPolicy(User) = inline::put_of_user;
        GetUserPolicy(User) = inline::get_of_user;
        ListUserPolicies(User) = inline::list_of_user;
        DeleteUserPolicy(User) = inline::delete_of_user;
        PutGroupPolicy(Group) = inline::put_of_group;
        GetGroupPolicy(Group) = inline::get_of_group;
        ListGroupPolicies(Group) = inline::list_of_group;
        DeleteGroupPolicy(Group) = inline::delete_of_group;
        CreatePolicy(NewPolicy) = managed::create;
        GetPolicy(Policy) = managed::get;
        ListPolicies(Account) = managed::list;
        TagPolicy(Policy) = managed::tag;
        UntagPolicy(Policy) = managed::untag;
        ListPolicyTags(Policy) = managed::list_tags;
        DeletePolicy(Policy) = managed::delete;
        ListEntitiesForPolicy(Policy) = managed::list_entities;
        CreatePolicyVersion(Policy) = versions::create;
        GetPolicyVersion(Policy) = versions::get;
        ListPolicyVersions(Policy) = versions::list;
        SetDefaultPolicyVersion(Policy) = versions::set_default;
        DeletePolicyVersion(Policy) = versions::delete;
        AttachUserPolicy(User) = attached::attach_to_user;
        DetachUserPolicy(User) = attached::detach_from_user;
        ListAttachedUserPolicies(User) = attached::list_of_user;
        AttachGroupPolicy(Group) = attached::attach_to_group;
        DetachGroupPolicy(Group) = attached::detach_from_group;
        ListAttachedGroupPolicies(Group) = attached::list_of_group;
        GetAccountSummary(Account) = account::summary;
        GetAccountAuthorizationDetails(Account) = details::get;
        SimulatePrincipalPolicy(PolicySource) = simulate::principal;
        SimulateCustomPolicy(Account) = simulate::custom;
        GetContextKeysForPrincipalPolicy(PolicySource) = context_keys::of_principal;
        GetContextKeysForCustomPolicy(Account) = context_keys::of_custom;
        ListAccountAliases(Account) = absent::account_aliases;
        ListVirtualMFADevices(Account) = absent::virtual_mfa_devices;
        ListRoles(Account) = absent::roles;
        ListInstanceProfiles(Account) = absent::instance_profiles;
        ListServerCertificates(Account) = absent::server_certificates;
        ListSAMLProviders(Account) = absent::saml_providers;
        ListOpenIDConnectProviders(Account) = absent::open_id_connect_providers;
        ListMFADevices(User) = absent::mfa_devices;
        ListSigningCertificates(User) = absent::signing_certificates;
        ListSSHPublicKeys(User) = absent::ssh_public_keys;
        ListServiceSpecificCredentials(User) = absent::service_specific_credentials;
        GetLoginProfile(User) = absent::login_profile;
        DeleteLoginProfile(User) = absent::login_profile;
    }
    Sts, "sts" {
        GetCallerIdentity(Caller) = account::caller_identity;
    }
}

/// The action of a name.
pub(crate) fn find(service: Service, name: &str) -> Option<&'static Action> {
    ACTIONS.iter().find(|action| action.service == service && action.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_is_there_once_under_its_permission() {
        for (at, action) in ACTIONS.iter().enumerate() {
            assert!(ACTIONS[..at].iter().all(|other| other.name != action.name), "{}", action.name);
            assert_eq!(action.permission, format!("{}:{}", action.service.name(), action.name));
        }
        assert!(find(Service::Iam, "GetUser").is_some() && find(Service::Sts, "GetUser").is_none());
        assert!(find(Service::Iam, "getuser").is_none());
    }
}
