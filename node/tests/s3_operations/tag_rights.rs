//! Tags by which policies decide: a request is judged by those that it gives, wherever it names them.

use super::*;
use crate::harness::form::Form;
use crate::harness::users::AccessKey;

/// Makes a user who may do everything but what `statement` denies.
async fn a_user(node: &Node, denied: &str) -> AccessKey {
    let key = node.users().user("ada").await;
    let policy = format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Action":"s3:*","Resource":"*"}},{denied}]}}"#
    );
    node.users().put_user_policy("ada", &policy).await;
    key
}

/// Denies an action where a condition key has a value.
fn denied(action: &str, key: &str, value: &str) -> String {
    format!(
        r#"{{"Effect":"Deny","Action":"{action}","Resource":"*","Condition":{{"StringEquals":{{"{key}":"{value}"}}}}}}"#
    )
}

#[tokio::test]
async fn a_form_is_judged_by_the_tags_of_its_field() {
    for action in ["s3:PutObject", "s3:PutObjectTagging"] {
        let (node, client) = a_bucket().await;
        let key = a_user(&node, &denied(action, "s3:RequestObjectTag/class", "secret")).await;
        let post = async |class: &str| {
            let document = format!(
                "<Tagging><TagSet><Tag><Key>class</Key><Value>{class}</Value></Tag></TagSet></Tagging>"
            );
            let form = Form::new(&node, BUCKET, class, "v").field("tagging", &document);
            let answer = form.signed_by(&key.id, &key.secret).v4(None).send().await;
            (answer.status, answer.element("Code").unwrap_or_default().to_owned())
        };
        assert_eq!(post("public").await, (204, String::new()), "{action}");
        assert_eq!(post("secret").await, (403, "AccessDenied".to_owned()), "{action}");
        let tagged =
            client.get_object_tagging().bucket(BUCKET).key("public").send().await.expect("an object");
        assert_eq!(tagged.tag_set().len(), 1);
        client.head_object().bucket(BUCKET).key("secret").send().await.expect_err("it is not stored");
    }
}
