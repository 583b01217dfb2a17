//! Settings of which every bucket has one value (access control lists, ownership, payment, acceleration,
//! versioning, events, logs) and storage classes: a request for that value succeeds, and any other has S3's
//! own error.

use aws_sdk_s3::types::{
    AccelerateConfiguration, AccessControlPolicy, BucketAccelerateStatus, BucketCannedAcl,
    BucketLoggingStatus, BucketVersioningStatus, EventBridgeConfiguration, Grant, Grantee, LoggingEnabled,
    NotificationConfiguration, ObjectCannedAcl, ObjectOwnership, Owner, OwnershipControls,
    OwnershipControlsRule, Payer, Permission, RequestPaymentConfiguration, StorageClass, Type,
    VersioningConfiguration,
};

use super::*;
use crate::harness::form::Form;

const NOT_SUPPORTED: &str = "AccessControlListNotSupported";

/// A list of one grant.
fn list(owner: &Owner, grantee: Grantee, permission: Permission) -> AccessControlPolicy {
    let grant = Grant::builder().grantee(grantee).permission(permission).build();
    AccessControlPolicy::builder().owner(owner.clone()).grants(grant).build()
}

fn person(id: &str) -> Grantee {
    Grantee::builder().r#type(Type::CanonicalUser).id(id).build().expect("a type")
}

fn everyone() -> Grantee {
    let group = Grantee::builder().r#type(Type::Group);
    group.uri("http://acs.amazonaws.com/groups/global/AllUsers").build().expect("a type")
}

#[tokio::test]
async fn a_list_gives_the_owner_full_control_or_is_not_supported() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "v").await;
    let acl = client.get_bucket_acl().bucket(BUCKET).send().await.unwrap();
    let owner = acl.owner().expect("an owner").clone();
    let id = owner.id().expect("an id").to_owned();
    let of_bucket = || client.put_bucket_acl().bucket(BUCKET);
    let of_object = || client.put_object_acl().bucket(BUCKET).key("k");

    of_bucket().acl(BucketCannedAcl::Private).send().await.unwrap();
    of_object().acl(ObjectCannedAcl::Private).send().await.unwrap();
    of_object().acl(ObjectCannedAcl::BucketOwnerFullControl).version_id("null").send().await.unwrap();
    let mine = list(&owner, person(&id), Permission::FullControl);
    of_bucket().access_control_policy(mine.clone()).send().await.unwrap();
    of_object().access_control_policy(mine.clone()).send().await.unwrap();

    let refused = is(400, NOT_SUPPORTED);
    assert_eq!(code(of_bucket().acl(BucketCannedAcl::PublicRead).send().await), refused);
    assert_eq!(code(of_object().acl(ObjectCannedAcl::BucketOwnerRead).send().await), refused);
    assert_eq!(code(of_bucket().grant_read("id=1").send().await), refused);
    assert_eq!(code(of_object().grant_full_control(format!("id={id}")).send().await), refused);
    for other in [
        list(&owner, person(&id), Permission::Read),
        list(&owner, person("another"), Permission::FullControl),
        list(&owner, everyone(), Permission::Read),
    ] {
        assert_eq!(code(of_bucket().access_control_policy(other.clone()).send().await), refused);
        assert_eq!(code(of_object().access_control_policy(other).send().await), refused);
    }
    assert_eq!(code(of_bucket().acl("mine".into()).send().await), is(400, "InvalidArgument"));
    assert_eq!(code(of_bucket().send().await), is(400, "MissingSecurityHeader"));
    let both = of_bucket().acl(BucketCannedAcl::Private).access_control_policy(mine);
    assert_eq!(code(both.send().await), is(400, "UnexpectedContent"));
    let empty = AccessControlPolicy::builder().owner(owner).build();
    assert_eq!(code(of_bucket().access_control_policy(empty).send().await), is(400, "MalformedACLError"));

    let nowhere = client.put_bucket_acl().bucket("nowhere").acl(BucketCannedAcl::Private).send().await;
    assert_eq!(code(nowhere), is(404, "NoSuchBucket"));
    let nothing =
        client.put_object_acl().bucket(BUCKET).key("none").acl(ObjectCannedAcl::Private).send().await;
    assert_eq!(code(nothing), is(404, "NoSuchKey"));
}

#[tokio::test]
async fn a_write_brings_the_owners_list_or_is_not_supported() {
    let (_node, client) = a_bucket().await;
    let at = || client.put_object().bucket(BUCKET).key("k");
    for acl in [ObjectCannedAcl::Private, ObjectCannedAcl::BucketOwnerFullControl] {
        at().acl(acl).send().await.unwrap();
    }
    let copy = || client.copy_object().bucket(BUCKET).key("copy").copy_source(format!("{BUCKET}/k"));
    let begin = || client.create_multipart_upload().bucket(BUCKET).key("upload");
    copy().acl(ObjectCannedAcl::Private).send().await.unwrap();
    begin().acl(ObjectCannedAcl::Private).send().await.unwrap();
    let refusals = [
        refused(at().acl(ObjectCannedAcl::PublicRead).send().await),
        refused(copy().acl(ObjectCannedAcl::AuthenticatedRead).send().await),
        refused(begin().acl(ObjectCannedAcl::AwsExecRead).send().await),
        refused(at().grant_read("uri=http://acs.amazonaws.com/groups/global/AllUsers").send().await),
        refused(copy().grant_full_control("id=1").send().await),
        refused(begin().grant_write_acp("id=1").send().await),
    ];
    for refusal in refusals {
        assert_eq!((refusal.status, refusal.code.as_str()), (400, NOT_SUPPORTED));
        assert_eq!(refusal.message, "The bucket does not allow ACLs");
    }
}

/// A node that ignores lists, with a bucket.
async fn a_bucket_without_lists() -> (Node, Client) {
    let node = empty().serve("[s3]\nunsupported_acl = \"ignore\"").start().await;
    let client = node.client();
    let make = client.create_bucket().bucket(BUCKET).acl(BucketCannedAcl::PublicReadWrite);
    make.grant_write("id=1").send().await.expect("a new bucket");
    (node, client)
}

#[tokio::test]
async fn an_ignored_list_changes_nothing_of_a_write() {
    let (node, client) = a_bucket_without_lists().await;
    let everyone_reads = "uri=http://acs.amazonaws.com/groups/global/AllUsers";
    let put = client.put_object().bucket(BUCKET).key("k").body(ByteStream::from_static(b"v"));
    put.acl(ObjectCannedAcl::PublicRead).grant_read(everyone_reads).send().await.unwrap();
    let copy = client.copy_object().bucket(BUCKET).key("copy").copy_source(format!("{BUCKET}/k"));
    copy.acl(ObjectCannedAcl::AuthenticatedRead).grant_full_control("id=1").send().await.unwrap();
    let begin = client.create_multipart_upload().bucket(BUCKET).key("upload");
    begin.acl("of-no-store".into()).grant_write_acp("id=1").send().await.unwrap();
    let form = Form::new(&node, BUCKET, "form", "v").field("acl", "public-read").v4(None).send().await;
    assert_eq!(form.status, 204, "{form:?}");

    // A list that is put is taken, where it is one, and what is read stays the owner's.
    let of_object = || client.put_object_acl().bucket(BUCKET).key("k");
    of_object().acl(ObjectCannedAcl::PublicRead).send().await.unwrap();
    of_object().grant_read(everyone_reads).send().await.unwrap();
    let acl = client.get_object_acl().bucket(BUCKET).key("k").send().await.unwrap();
    let owner = acl.owner().expect("an owner").clone();
    let public = list(&owner, everyone(), Permission::Read);
    client.put_bucket_acl().bucket(BUCKET).access_control_policy(public).send().await.unwrap();
    let empty = AccessControlPolicy::builder().owner(owner.clone()).build();
    let empty = of_object().access_control_policy(empty).send().await;
    assert_eq!(code(empty), is(400, "MalformedACLError"));
    assert_eq!(code(of_object().send().await), is(400, "MissingSecurityHeader"));
    let acl = client.get_bucket_acl().bucket(BUCKET).send().await.unwrap();
    let [grant] = acl.grants() else { panic!("{acl:?}") };
    assert_eq!(grant.grantee().and_then(Grantee::id), owner.id());
    assert_eq!(grant.permission(), Some(&Permission::FullControl));
    let anonymous = node.s3_anonymous();
    let read = anonymous.sdk().get_object().bucket(BUCKET).key("k").send().await;
    assert_eq!(code(read), is(403, "AccessDenied"));
}

#[tokio::test]
async fn conditions_compare_a_list_that_is_ignored_and_it_needs_no_right() {
    let (node, client) = a_bucket_without_lists().await;
    client.delete_public_access_block().bucket(BUCKET).send().await.unwrap();
    let policy = format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":"*","Action":"s3:PutObject",
        "Resource":"arn:aws:s3:::{BUCKET}/*","Condition":{{"StringEquals":{{"s3:x-amz-acl":"public-read"}}}}}}]}}"#
    );
    client.put_bucket_policy().bucket(BUCKET).policy(policy).send().await.unwrap();
    let anonymous = node.s3_anonymous();
    let put = || anonymous.sdk().put_object().bucket(BUCKET).key("k");
    put().acl(ObjectCannedAcl::PublicRead).send().await.unwrap();
    assert_eq!(code(put().acl(ObjectCannedAcl::Private).send().await), is(403, "AccessDenied"));
    assert_eq!(code(put().send().await), is(403, "AccessDenied"));
    let list = anonymous.sdk().put_object_acl().bucket(BUCKET).key("k").acl(ObjectCannedAcl::PublicRead);
    assert_eq!(code(list.send().await), is(403, "AccessDenied"));
}

#[tokio::test]
async fn a_bucket_is_made_its_owners_or_not_at_all() {
    let node = node().await;
    let client = node.client();
    let make = || client.create_bucket().bucket(BUCKET);
    let invalid = is(400, "InvalidBucketAclWithObjectOwnership");
    assert_eq!(code(make().acl(BucketCannedAcl::PublicRead).send().await), invalid);
    assert_eq!(code(make().grant_read("id=1").send().await), invalid);
    for ownership in [ObjectOwnership::ObjectWriter, ObjectOwnership::BucketOwnerPreferred] {
        assert_eq!(code(make().object_ownership(ownership.clone()).send().await), is(400, NOT_SUPPORTED));
        let with_list = make().object_ownership(ownership).acl(BucketCannedAcl::PublicRead);
        assert_eq!(refused(with_list.send().await).status, 400);
    }
    let unknown = make().object_ownership("mine".into()).send().await;
    assert_eq!(code(unknown), is(400, "InvalidArgument"));
    assert_eq!(code(client.head_bucket().bucket(BUCKET).send().await), is(404, "NotFound"));
    let enforced = ObjectOwnership::BucketOwnerEnforced;
    make().object_ownership(enforced).acl(BucketCannedAcl::Private).send().await.unwrap();
}

#[tokio::test]
async fn ownership_stays_with_the_owner_of_the_bucket() {
    let (_node, client) = a_bucket().await;
    let set = |bucket: &str, ownership: ObjectOwnership| {
        let rule = OwnershipControlsRule::builder().object_ownership(ownership).build().expect("a rule");
        let controls = OwnershipControls::builder().rules(rule).build().expect("rules");
        client.put_bucket_ownership_controls().bucket(bucket).ownership_controls(controls).send()
    };
    set(BUCKET, ObjectOwnership::BucketOwnerEnforced).await.unwrap();
    for other in [ObjectOwnership::ObjectWriter, ObjectOwnership::BucketOwnerPreferred] {
        assert_eq!(code(set(BUCKET, other).await), is(400, NOT_SUPPORTED));
    }
    assert_eq!(code(set(BUCKET, "mine".into()).await), is(400, "MalformedXML"));
    assert_eq!(code(set("nowhere", ObjectOwnership::BucketOwnerEnforced).await), is(404, "NoSuchBucket"));
    let read = client.get_bucket_ownership_controls().bucket(BUCKET).send().await.unwrap();
    let rules = read.ownership_controls().expect("rules").rules();
    assert_eq!(rules[0].object_ownership(), &ObjectOwnership::BucketOwnerEnforced);
}

#[tokio::test]
async fn the_owner_pays_and_nothing_is_accelerated() {
    let (_node, client) = a_bucket().await;
    let pay = |bucket: &str, payer: Payer| {
        let payment = RequestPaymentConfiguration::builder().payer(payer).build().expect("a payer");
        client.put_bucket_request_payment().bucket(bucket).request_payment_configuration(payment).send()
    };
    pay(BUCKET, Payer::BucketOwner).await.unwrap();
    assert_eq!(code(pay(BUCKET, Payer::Requester).await), is(400, "InvalidRequest"));
    assert_eq!(code(pay(BUCKET, "Nature".into()).await), is(400, "MalformedXML"));
    assert_eq!(code(pay("nowhere", Payer::BucketOwner).await), is(404, "NoSuchBucket"));
    let read = client.get_bucket_request_payment().bucket(BUCKET).send().await.unwrap();
    assert_eq!(read.payer(), Some(&Payer::BucketOwner));

    let accelerate = |bucket: &str, status: Option<BucketAccelerateStatus>| {
        let set = AccelerateConfiguration::builder().set_status(status).build();
        client.put_bucket_accelerate_configuration().bucket(bucket).accelerate_configuration(set).send()
    };
    accelerate(BUCKET, Some(BucketAccelerateStatus::Suspended)).await.unwrap();
    let enabled = refused(accelerate(BUCKET, Some(BucketAccelerateStatus::Enabled)).await);
    assert_eq!((enabled.status, enabled.code.as_str()), (400, "InvalidRequest"));
    assert_eq!(enabled.message, "S3 Transfer Acceleration cannot be enabled on this bucket");
    assert_eq!(code(accelerate(BUCKET, Some("Fast".into())).await), is(400, "MalformedXML"));
    assert_eq!(code(accelerate(BUCKET, None).await), is(400, "MalformedXML"));
    let nowhere = accelerate("nowhere", Some(BucketAccelerateStatus::Suspended)).await;
    assert_eq!(code(nowhere), is(404, "NoSuchBucket"));
    let read = client.get_bucket_accelerate_configuration().bucket(BUCKET).send().await.unwrap();
    assert_eq!(read.status(), None, "as before: it was never enabled");
}

#[tokio::test]
async fn there_is_one_storage_class() {
    let (_node, client) = a_bucket().await;
    let at = || client.put_object().bucket(BUCKET).key("k");
    let copy = || client.copy_object().bucket(BUCKET).key("copy").copy_source(format!("{BUCKET}/k"));
    let begin = || client.create_multipart_upload().bucket(BUCKET).key("upload");
    at().storage_class(StorageClass::Standard).send().await.unwrap();
    copy().storage_class(StorageClass::Standard).send().await.unwrap();
    begin().storage_class(StorageClass::Standard).send().await.unwrap();
    for class in [
        StorageClass::ReducedRedundancy,
        StorageClass::StandardIa,
        StorageClass::Glacier,
        StorageClass::IntelligentTiering,
        StorageClass::ExpressOnezone,
        "standard".into(),
    ] {
        for refusal in [
            refused(at().storage_class(class.clone()).send().await),
            refused(copy().storage_class(class.clone()).send().await),
            refused(begin().storage_class(class.clone()).send().await),
        ] {
            assert_eq!((refusal.status, refusal.code.as_str()), (400, "InvalidStorageClass"), "{class}");
            let element = format!("<StorageClassRequested>{class}</StorageClassRequested>");
            assert!(refusal.document().contains(&element), "{}", refusal.document());
        }
    }
}

#[tokio::test]
async fn what_is_off_can_be_turned_off() {
    let (_node, client) = a_bucket().await;
    let versioning = |bucket: &str, status: Option<BucketVersioningStatus>| {
        let set = VersioningConfiguration::builder().set_status(status).build();
        client.put_bucket_versioning().bucket(bucket).versioning_configuration(set).send()
    };
    versioning(BUCKET, Some(BucketVersioningStatus::Suspended)).await.unwrap();
    let lacking = is(501, "NotImplemented");
    assert_eq!(code(versioning(BUCKET, Some(BucketVersioningStatus::Enabled)).await), lacking);
    assert_eq!(code(versioning(BUCKET, Some("Off".into())).await), is(400, "MalformedXML"));
    let illegal = is(400, "IllegalVersioningConfigurationException");
    assert_eq!(code(versioning(BUCKET, None).await), illegal);
    let nowhere = versioning("nowhere", Some(BucketVersioningStatus::Suspended)).await;
    assert_eq!(code(nowhere), is(404, "NoSuchBucket"));
    let read = client.get_bucket_versioning().bucket(BUCKET).send().await.unwrap();
    assert_eq!(read.status(), None);

    let notify = |set: NotificationConfiguration| {
        client.put_bucket_notification_configuration().bucket(BUCKET).notification_configuration(set)
    };
    let none = NotificationConfiguration::builder();
    notify(none.clone().build()).skip_destination_validation(true).send().await.unwrap();
    let events = none.event_bridge_configuration(EventBridgeConfiguration::builder().build()).build();
    assert_eq!(code(notify(events).send().await), lacking);
    let log = |set: BucketLoggingStatus| {
        client.put_bucket_logging().bucket(BUCKET).bucket_logging_status(set).send()
    };
    log(BucketLoggingStatus::builder().build()).await.unwrap();
    let logs = LoggingEnabled::builder().target_bucket("logs").target_prefix("a/").build().expect("a target");
    assert_eq!(code(log(BucketLoggingStatus::builder().logging_enabled(logs).build()).await), lacking);
}
