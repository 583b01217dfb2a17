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

/// The actions of one service: `Name(subject) = function;`, or `= function, argument;` of a function that
/// several actions share.
macro_rules! actions {
    ($($service:ident, $prefix:literal { $($name:ident($subject:ident) = $run:path $(, $argument:expr)?;)* })*) => {
        /// All actions.
        pub(crate) static ACTIONS: &[Action] = &[$($(
            Action {
                name: stringify!($name),
                permission: concat!($prefix, ":", stringify!($name)),
                service: Service::$service,
                subject: Subject::$subject,
                run: |request| Box::pin(async move { $run(&request $(, $argument)?).await }),
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
        PutUserPolicy(User) = inline::put, ActionRequest::owning_user;
        GetUserPolicy(User) = inline::get, ActionRequest::owning_user;
        ListUserPolicies(User) = inline::list, ActionRequest::owning_user;
        DeleteUserPolicy(User) = inline::delete, ActionRequest::owning_user;
        PutGroupPolicy(Group) = inline::put, ActionRequest::owning_group;
        GetGroupPolicy(Group) = inline::get, ActionRequest::owning_group;
        ListGroupPolicies(Group) = inline::list, ActionRequest::owning_group;
        DeleteGroupPolicy(Group) = inline::delete, ActionRequest::owning_group;
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
        AttachUserPolicy(User) = attached::attach, ActionRequest::owning_user;
        DetachUserPolicy(User) = attached::detach, ActionRequest::owning_user;
        ListAttachedUserPolicies(User) = attached::list, ActionRequest::owning_user;
        AttachGroupPolicy(Group) = attached::attach, ActionRequest::owning_group;
        DetachGroupPolicy(Group) = attached::detach, ActionRequest::owning_group;
        ListAttachedGroupPolicies(Group) = attached::list, ActionRequest::owning_group;
        GetAccountSummary(Account) = account::summary;
        GetAccountAuthorizationDetails(Account) = details::get;
        SimulatePrincipalPolicy(PolicySource) = simulate::principal;
        SimulateCustomPolicy(Account) = simulate::custom;
        GetContextKeysForPrincipalPolicy(PolicySource) = context_keys::of_principal;
        GetContextKeysForCustomPolicy(Account) = context_keys::of_custom;
        ListAccountAliases(Account) = absent::list, "AccountAliases";
        ListVirtualMFADevices(Account) = absent::list, "VirtualMFADevices";
        ListRoles(Account) = absent::list, "Roles";
        ListInstanceProfiles(Account) = absent::list, "InstanceProfiles";
        ListServerCertificates(Account) = absent::list, "ServerCertificateMetadataList";
        ListSAMLProviders(Account) = absent::whole_list, "SAMLProviderList";
        ListOpenIDConnectProviders(Account) = absent::whole_list, "OpenIDConnectProviderList";
        ListMFADevices(User) = absent::list_of_user, "MFADevices";
        ListSigningCertificates(User) = absent::list_of_user, "Certificates";
        ListSSHPublicKeys(User) = absent::list_of_user, "SSHPublicKeys";
        ListServiceSpecificCredentials(User) = absent::whole_list_of_user, "ServiceSpecificCredentials";
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
