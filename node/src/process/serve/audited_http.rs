//! Records the requests of operators and admins that come as calls, where there is an audit log, with the
//! name in the certificate of each.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::Full;
use sherd_net::rpc::{AdminHttpHandler, NoAnswer};
use sherd_net::tls::ConnectedPeer;
use sherd_proto::convert::http_call::HttpService;

use super::root_http::source_of;
use crate::audit::{AnswerCount, AuditLog};

/// Answers by another handler, and records that.
#[derive(Debug)]
pub(crate) struct AuditedHttp {
    handler: Arc<dyn AdminHttpHandler>,
    log: AuditLog,
}

impl AuditedHttp {
    /// Records in `log` what `handler` answers, where a log is given.
    pub(crate) fn around(
        handler: Arc<dyn AdminHttpHandler>,
        log: Option<AuditLog>,
    ) -> Arc<dyn AdminHttpHandler> {
        match log {
            Some(log) => Arc::new(Self { handler, log }),
            None => handler,
        }
    }
}

impl AdminHttpHandler for AuditedHttp {
    fn answer(
        &self,
        service: HttpService,
        mut request: Request<Bytes>,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        let api = match service {
            HttpService::S3 => "s3",
            HttpService::Iam => "iam",
        };
        let name = request.extensions().get::<ConnectedPeer>().map(|peer| peer.identity().name.clone());
        let source = source_of(request.extensions());
        let record = self.log.begin(api, source, name.as_deref(), &mut request);
        record.received(request.body().len());
        let answered = self.handler.answer(service, request);
        async move {
            let (head, body) = answered.await?.into_parts();
            let answer = Response::from_parts(head, Full::new(body.clone()));
            let mut count = AnswerCount::begin(record, &answer);
            count.count::<NoAnswer>(Some(&Ok(Frame::data(body.clone()))));
            Ok(answer.map(|_| body))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use sherd_core::id::ClusterId;
    use sherd_front::audit::record::AuditRecord;
    use sherd_net::tls::{PeerIdentity, Role};
    use sherd_store::machine::system::SystemClock;
    use sherd_store::observe::metrics::AuditMetrics;

    use super::*;
    use crate::audit::AuditTarget;

    #[derive(Debug)]
    struct Echo;

    impl AdminHttpHandler for Echo {
        fn answer(
            &self,
            _: HttpService,
            request: Request<Bytes>,
        ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
            AuditRecord::of(request.extensions()).expect("a record").name_operation("Echo");
            async move { Ok(Response::new(request.into_body())) }.boxed()
        }
    }

    #[tokio::test]
    async fn a_call_has_a_line_with_the_name_in_its_certificate() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("audit.log");
        let (target, clock) = (AuditTarget::File(path.clone()), Arc::new(SystemClock::new()));
        let log =
            AuditLog::start(target, "n1".to_owned(), AuditMetrics::unscraped(), clock).expect("a thread");
        let handler = AuditedHttp::around(Arc::new(Echo), Some(log.clone()));
        let mut request = Request::new(Bytes::from("text"));
        let by = PeerIdentity { name: "anna".to_owned(), role: Role::Admin, cluster: ClusterId([1; 16]) };
        request.extensions_mut().insert(ConnectedPeer::new(by, Some([192, 0, 2, 7].into())));
        let answer = handler.answer(HttpService::Iam, request).await.expect("an answer");
        assert_eq!(answer.into_body(), "text");
        log.close().await;
        let text = std::fs::read_to_string(path).expect("the audit log");
        let line: serde_json::Value = serde_json::from_str(&text).expect("one line");
        let fields = ["node", "service", "certificate", "operation", "end"].map(|name| &line[name]);
        assert_eq!(fields, ["n1", "iam", "anna", "Echo", "complete"], "{line}");
        assert_eq!([&line["bytes_in"], &line["bytes_out"]], [4, 4]);
        assert_eq!((&line["source"], &line["tls"]), (&"192.0.2.7".into(), &true.into()), "{line}");
    }
}
