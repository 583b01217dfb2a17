//! The signature of a form: over its policy, which is a field as the others are.
//!
//! ```text
//! SigV4: x-amz-signature := hex(HMAC-SHA256(signing key of x-amz-credential, policy))
//! SigV2: signature       := base64(HMAC-SHA1(secret, policy))
//! ```
//! The policy is signed as it was sent, in base64. A form without any of these fields is anonymous. AWS,
//! "Calculating a signature" of browser-based uploads.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use subtle::ConstantTimeEq as _;

use sherd_signature::amz_date::AmzDate;
use sherd_signature::authorization::ALGORITHM;
use sherd_signature::credential_scope::CredentialScope;
use sherd_signature::error::{AuthError, MalformedAuth, Mismatch};
use sherd_signature::form_fields::FormFields;

use super::{S3, Verifier};
use crate::callers::{AuthType, Caller, SignatureFacts, session};
use crate::limits::{FORM_SECONDS_MAX, SKEW_MS_MAX};

/// The fields of SigV4, as S3 spells them in errors.
const V4: [&str; 4] = ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature", "X-Amz-Date"];
/// The fields of SigV2.
const V2: [&str; 2] = ["AWSAccessKeyId", "Signature"];

/// The caller of a form, and the policy that it signed.
#[derive(Debug)]
pub struct VerifiedForm<'a> {
    /// The caller.
    pub caller: Caller,
    /// The policy, in base64; an anonymous caller has none.
    pub policy: Option<&'a str>,
}

impl Verifier {
    /// Verifies a form that came from an address by its fields.
    ///
    /// # Errors
    /// [`AuthError`] with the reason; `Anonymous` for a form with a policy that is not signed.
    pub async fn verify_form<'a>(
        &self,
        fields: &'a FormFields,
        from: IpAddr,
    ) -> Result<VerifiedForm<'a>, AuthError> {
        let has = |names: &[&str]| names.iter().any(|name| fields.get(name).is_some());
        let has_token = has(&[session::TOKEN]);
        match (has(&V4), has(&V2)) {
            (false, false) if has(&["policy"]) => Err(AuthError::Anonymous),
            (false, false) => Ok(VerifiedForm { caller: Caller::anonymous(), policy: None }),
            (true, true) => Err(AuthError::TwoMechanisms),
            _ if has_token => Err(AuthError::Token),
            (true, false) => self.verify_form_v4(fields, from).await,
            (false, true) if !self.takes_sigv2() => Err(AuthError::UnsupportedMechanism),
            (false, true) => self.verify_form_v2(fields, from).await,
        }
    }

    async fn verify_form_v4<'a>(
        &self,
        fields: &'a FormFields,
        from: IpAddr,
    ) -> Result<VerifiedForm<'a>, AuthError> {
        let [algorithm, credential, signature, date] = V4.map(|name| required(fields, name));
        let (algorithm, credential, signature, date) = (algorithm?, credential?, signature?, date?);
        let policy = required(fields, "Policy")?;
        let refused = |name, value: &str, reason| AuthError::FormField { name, value: value.into(), reason };
        if algorithm != ALGORITHM {
            return Err(refused("X-Amz-Algorithm", algorithm, MalformedAuth::Algorithm));
        }
        let scope = CredentialScope::parse(credential)
            .ok_or_else(|| refused("X-Amz-Credential", credential, MalformedAuth::Credential))?;
        let parsed = AmzDate::parse(date.as_bytes());
        let date = parsed.ok_or_else(|| refused("X-Amz-Date", date, MalformedAuth::Date))?;
        if let Some(reason) = self.scope_fault(&[S3], &scope, &date) {
            return Err(refused("X-Amz-Credential", credential, reason));
        }
        self.check_form_time(&date)?;
        let credential = self.credential(scope.access_key, from).await?;
        let key = self.signing_key(&scope, &credential.secret);
        if !key.key.sign(&[policy.as_bytes()]).matches(signature.as_bytes()) {
            return Err(mismatch(scope.access_key, policy, signature));
        }
        self.keep(&scope, &credential, &key);
        let signature =
            SignatureFacts { auth_type: AuthType::Form, signed_ms: Some(date.as_ms()), is_v4: true };
        Ok(VerifiedForm { caller: Caller::new(&credential, signature), policy: Some(policy) })
    }

    async fn verify_form_v2<'a>(
        &self,
        fields: &'a FormFields,
        from: IpAddr,
    ) -> Result<VerifiedForm<'a>, AuthError> {
        let [access_key, signature] = V2.map(|name| required(fields, name));
        let (access_key, signature) = (access_key?, signature?);
        let policy = required(fields, "Policy")?;
        let credential = self.credential(access_key, from).await?;
        let key = Hmac::<Sha1>::new_from_slice(credential.secret.expose().as_bytes())
            .expect("HMAC takes keys of every length");
        let computed = key.chain_update(policy).finalize().into_bytes();
        let sent = STANDARD.decode(signature).unwrap_or_default();
        if !bool::from(computed.as_slice().ct_eq(&sent)) {
            return Err(mismatch(access_key, policy, signature));
        }
        let signature = SignatureFacts { auth_type: AuthType::Form, signed_ms: None, is_v4: false };
        Ok(VerifiedForm { caller: Caller::new(&credential, signature), policy: Some(policy) })
    }

    /// Checks that a form was signed lately: a signing key is good for seven days.
    fn check_form_time(&self, date: &AmzDate) -> Result<(), AuthError> {
        let server_ms = self.now_ms();
        if date.as_ms() > server_ms.saturating_add(SKEW_MS_MAX) {
            return Err(AuthError::NotYetValid);
        }
        let ended_ms = date.as_ms().saturating_add(FORM_SECONDS_MAX * 1000);
        if server_ms > ended_ms {
            return Err(AuthError::Expired { expires_seconds: Some(FORM_SECONDS_MAX), ended_ms, server_ms });
        }
        Ok(())
    }
}

fn required<'a>(fields: &'a FormFields, name: &'static str) -> Result<&'a str, AuthError> {
    fields.get(name).ok_or(AuthError::MissingFormField { name })
}

fn mismatch(access_key: &str, policy: &str, signature: &str) -> AuthError {
    AuthError::SignatureMismatch(Box::new(Mismatch {
        access_key: access_key.into(),
        string_to_sign: policy.to_owned(),
        canonical_request: None,
        signature: signature.into(),
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt as _;
    use sherd_core::env::Clock;
    use sherd_policy::Identity;

    use super::*;
    use sherd_signature::Secret;

    use crate::callers::StaticCredentials;

    /// The policy of AWS's example ("Example: Browser-Based Upload using HTTP POST"), as it is signed.
    const POLICY: &str = "eyAiZXhwaXJhdGlvbiI6ICIyMDE1LTEyLTMwVDEyOjAwOjAwLjAwMFoiLA0KICAiY29uZGl0aW9ucyI6IFsNCiAgICB7ImJ1Y2tldCI6ICJzaWd2NGV4YW1wbGVidWNrZXQifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRrZXkiLCAidXNlci91c2VyMS8iXSwNCiAgICB7ImFjbCI6ICJwdWJsaWMtcmVhZCJ9LA0KICAgIHsic3VjY2Vzc19hY3Rpb25fcmVkaXJlY3QiOiAiaHR0cDovL3NpZ3Y0ZXhhbXBsZWJ1Y2tldC5zMy5hbWF6b25hd3MuY29tL3N1Y2Nlc3NmdWxfdXBsb2FkLmh0bWwifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRDb250ZW50LVR5cGUiLCAiaW1hZ2UvIl0sDQogICAgeyJ4LWFtei1tZXRhLXV1aWQiOiAiMTQzNjUxMjM2NTEyNzQifSwNCiAgICB7IngtYW16LXNlcnZlci1zaWRlLWVuY3J5cHRpb24iOiAiQUVTMjU2In0sDQogICAgWyJzdGFydHMtd2l0aCIsICIkeC1hbXotbWV0YS10YWciLCAiIl0sDQoNCiAgICB7IngtYW16LWNyZWRlbnRpYWwiOiAiQUtJQUlPU0ZPRE5ON0VYQU1QTEUvMjAxNTEyMjkvdXMtZWFzdC0xL3MzL2F3czRfcmVxdWVzdCJ9LA0KICAgIHsieC1hbXotYWxnb3JpdGhtIjogIkFXUzQtSE1BQy1TSEEyNTYifSwNCiAgICB7IngtYW16LWRhdGUiOiAiMjAxNTEyMjlUMDAwMDAwWiIgfQ0KICBdDQp9";
    const SIGNATURE: &str = "8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e";
    const KEY: &str = "AKIAIOSFODNN7EXAMPLE";
    /// 2015-12-29T00:00:00Z.
    const SIGNED_MS: u64 = 1_451_347_200_000;

    #[derive(Debug)]
    struct SetClock(u64);

    impl Clock for SetClock {
        fn wall_ms(&self) -> u64 {
            self.0
        }
        fn monotonic_us(&self) -> u64 {
            0
        }
    }

    fn verifier(now_ms: u64) -> Verifier {
        let secret = Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        let credentials = Arc::new(StaticCredentials::single(KEY, secret));
        Verifier::new("us-west-2", credentials, Arc::new(SetClock(now_ms))).with_sigv2_presigned(true)
    }

    fn verified<'a>(verifier: &Verifier, form: &'a FormFields) -> Result<VerifiedForm<'a>, AuthError> {
        verifier
            .verify_form(form, std::net::Ipv4Addr::LOCALHOST.into())
            .now_or_never()
            .expect("a static key takes no wait")
    }

    /// AWS's form, with one field changed, or without it.
    fn form(name: &str, changed: Option<&str>) -> FormFields {
        let mut fields = FormFields::default();
        for (field, value) in [
            ("X-Amz-Credential", "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request"),
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Date", "20151229T000000Z"),
            ("Policy", POLICY),
            ("x-amz-signature", SIGNATURE),
        ] {
            if !field.eq_ignore_ascii_case(name) {
                fields.push(field.to_owned(), value);
            } else if let Some(value) = changed {
                fields.push(field.to_owned(), value);
            }
        }
        fields
    }

    #[test]
    fn the_form_of_aws_is_believed_for_seven_days() {
        let week_ms = FORM_SECONDS_MAX * 1000;
        for now_ms in [SIGNED_MS - SKEW_MS_MAX, SIGNED_MS, SIGNED_MS + week_ms] {
            let verifier = verifier(now_ms);
            for _with_a_kept_key in 0..2 {
                let form = form("", None);
                let signed = verified(&verifier, &form).expect("AWS's own example");
                assert_eq!((signed.caller.access_key(), signed.policy), (KEY, Some(POLICY)));
            }
        }
        let refused = |now_ms| verified(&verifier(now_ms), &form("", None)).expect_err("another time");
        assert_eq!(refused(SIGNED_MS - SKEW_MS_MAX - 1000), AuthError::NotYetValid);
        assert!(matches!(refused(SIGNED_MS + week_ms + 1), AuthError::Expired { .. }));
    }

    #[test]
    fn every_field_of_a_signature_is_checked() {
        fn refused(name: &str, changed: Option<&str>) -> AuthError {
            verified(&verifier(SIGNED_MS), &form(name, changed)).expect_err(name)
        }
        for name in V4.into_iter().chain(["Policy"]) {
            assert_eq!(refused(name, None), AuthError::MissingFormField { name });
        }
        for (name, value) in [("Policy", &POLICY[4..]), ("X-Amz-Signature", "8afd"), ("X-Amz-Signature", "")]
        {
            let AuthError::SignatureMismatch(mismatch) = refused(name, Some(value)) else {
                panic!("{name} {value} passed");
            };
            assert_eq!(mismatch.string_to_sign, if name == "Policy" { value } else { POLICY });
        }
        for (name, value, reason) in [
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA1", MalformedAuth::Algorithm),
            ("X-Amz-Credential", "AKIA/20151229/us-east-1/s3", MalformedAuth::Credential),
            ("X-Amz-Date", "2015-12-29", MalformedAuth::Date),
        ] {
            assert_eq!(
                refused(name, Some(value)),
                AuthError::FormField { name, value: value.into(), reason },
                "{name}"
            );
        }
        for scope in [
            "20151229/eu-west-1/s3/aws4_request",
            "20151228/us-east-1/s3/aws4_request",
            "20151229/us-east-1/sts/aws4_request",
            "20151229/us-east-1/s3/aws4",
        ] {
            let credential = format!("{KEY}/{scope}");
            let refused = refused("X-Amz-Credential", Some(&credential));
            assert!(matches!(refused, AuthError::FormField { name: "X-Amz-Credential", .. }), "{refused:?}");
        }
        let unknown = refused("X-Amz-Credential", Some("OTHER/20151229/us-east-1/s3/aws4_request"));
        assert!(matches!(unknown, AuthError::UnknownAccessKey { .. }));
    }

    #[test]
    fn a_form_of_signature_version_2_is_believed_where_that_is_taken() {
        let form = |signature: &str, key: &str| {
            let mut fields = FormFields::default();
            for (name, value) in [("awsaccesskeyid", key), ("policy", POLICY), ("Signature", signature)] {
                fields.push(name.to_owned(), value);
            }
            fields
        };
        let key =
            Hmac::<Sha1>::new_from_slice(b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY").expect("any length");
        let signature = STANDARD.encode(key.chain_update(POLICY).finalize().into_bytes());
        let verifier = verifier(SIGNED_MS);
        assert_eq!(verified(&verifier, &form(&signature, KEY)).expect("signed").policy, Some(POLICY));
        let refused = |verifier: &Verifier, form: &FormFields| verified(verifier, form).expect_err("wrong");
        assert!(matches!(refused(&verifier, &form("AAAA", KEY)), AuthError::SignatureMismatch(_)));
        assert!(matches!(refused(&verifier, &form("", KEY)), AuthError::SignatureMismatch(_)));
        assert!(matches!(refused(&verifier, &form(&signature, "OTHER")), AuthError::UnknownAccessKey { .. }));
        let mut both = form(&signature, KEY);
        both.push("x-amz-algorithm".to_owned(), "AWS4-HMAC-SHA256");
        assert_eq!(refused(&verifier, &both), AuthError::TwoMechanisms);
        let mut unsigned = FormFields::default();
        let anonymous = verified(&verifier, &unsigned).expect("an anonymous caller");
        assert_eq!((anonymous.caller.access_key(), anonymous.policy), ("", None));
        assert!(matches!(**anonymous.caller.identity(), Identity::Anonymous));
        unsigned.push("policy".to_owned(), POLICY);
        assert_eq!(refused(&verifier, &unsigned), AuthError::Anonymous);
        unsigned.push("AWSAccessKeyId".to_owned(), KEY);
        assert_eq!(refused(&verifier, &unsigned), AuthError::MissingFormField { name: "Signature" });
        unsigned.push("x-amz-security-token".to_owned(), "t");
        assert_eq!(refused(&verifier, &unsigned), AuthError::Token);
        let off = verifier.with_sigv2_presigned(false);
        assert_eq!(refused(&off, &form(&signature, KEY)), AuthError::UnsupportedMechanism);
    }
}
