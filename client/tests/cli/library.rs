//! The library as a program uses it: bytes, files, streams and many objects of a running node, and what is
//! left behind when work is dropped or cancelled.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use sherd_client::{
    ByteRange, Error, ListEntry, ListQuery, ObjectAttributes, ObjectChoice, ObjectName, PresignedMethod,
    Progress, Service,
};
use tokio_util::sync::CancellationToken;

use crate::fixture::{Sherd, noise};
use crate::relay::{Relay, Rule, Way};

/// Runs a story with a service and a bucket of its own.
fn story<F: Future<Output = ()>>(tell: impl FnOnce(Sherd, Service) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(tell(Sherd::new(), Sherd::service()));
}

fn plain() -> ObjectAttributes {
    ObjectAttributes::default()
}

#[test]
fn bytes_are_stored_read_listed_and_removed() {
    story(async |sherd, service| {
        let object = |key: &str| ObjectName::new(sherd.bucket.as_str(), key);
        let content = Bytes::from(noise(3 << 20, 1));
        assert_eq!(
            service.put(&object("a/b.html"), content.clone(), &plain()).await.expect("stored"),
            3 << 20
        );
        assert_eq!(service.get(&object("a/b.html"), None).await.expect("read"), content);
        let range = ByteRange { offset: 5, bytes: Some(7) };
        assert_eq!(service.get(&object("a/b.html"), Some(range)).await.expect("read"), content[5..12]);
        let behind = ByteRange { offset: 3 << 20, bytes: None };
        assert_eq!(service.get(&object("a/b.html"), Some(behind)).await.expect("nothing"), "");
        let info = service.stat(&object("a/b.html")).await.expect("it is there");
        assert_eq!(info.attributes.headers, [("content-type".to_owned(), "text/html".to_owned())]);
        service.copy(&object("a/b.html"), &object("c"), None).await.expect("copied");
        let query = ListQuery { bucket: sherd.bucket.clone(), is_by_folder: true, ..ListQuery::default() };
        let mut entries = service.list(query).expect("a bucket");
        let mut names = Vec::new();
        while let Some(entry) = entries.recv().await {
            names.push(entry.map(|entry: ListEntry| entry.name().to_owned()).expect("an entry"));
        }
        assert_eq!(names, ["a/", "c"]);
        let url = service.presign(PresignedMethod::Get, &object("c"), 60).expect("it has keys");
        assert!(url.contains("/c?") && url.contains("X-Amz-Signature="), "{url}");
        let keys = ["a/b.html".to_owned(), "c".to_owned()];
        assert_eq!(service.delete_many(&sherd.bucket, &keys).await.expect("removed"), []);
        assert!(service.stat(&object("c")).await.unwrap_err().is_absent());
        service.delete(&object("c")).await.expect("what is not there counts as removed");
    });
}

#[test]
fn files_go_up_and_down_and_their_bytes_are_counted() {
    story(async |sherd, service| {
        let content = noise(20 << 20, 2);
        sherd.write("up", &content);
        let object = ObjectName::new(sherd.bucket.as_str(), "key");
        let (progress, _events) = Progress::new();
        let counted = service.reporting_to(progress.clone());
        let count = || {
            let counters = progress.counters();
            let load =
                |count: &std::sync::atomic::AtomicU64| count.load(std::sync::atomic::Ordering::Relaxed);
            (load(&counters.bytes), load(&counters.bytes_planned))
        };
        counted.upload(&sherd.path("up"), &object, &plain()).await.expect("it is stored");
        assert_eq!(count(), (20 << 20, 20 << 20));
        counted.download(&object, &sherd.path("down")).await.expect("it is read");
        assert_eq!(count(), (40 << 20, 40 << 20));
        assert!(std::fs::read(sherd.path("down")).expect("a file") == content);
        let absent = ObjectName::new(sherd.bucket.as_str(), "absent");
        assert!(service.download(&absent, &sherd.path("other")).await.unwrap_err().is_absent());
        assert_eq!(sherd.files(""), ["down", "up"]);
    });
}

#[test]
fn an_object_is_written_and_read_piece_by_piece() {
    story(async |sherd, service| {
        let object = ObjectName::new(sherd.bucket.as_str(), "key");
        let content = Bytes::from(noise(25 << 20, 3));
        let mut writer = service.write(&object, &plain()).expect("a name");
        for at in (0..content.len()).step_by(1 << 20) {
            writer.write(content.slice(at..at + (1 << 20))).await.expect("it is sent");
        }
        assert_eq!(writer.finish().await.expect("it is stored"), 25 << 20);
        for range in [None, Some(ByteRange { offset: 1 << 20, bytes: Some(3 << 20) })] {
            let mut reader = service.read(&object, range).await.expect("it begins");
            let (begin, end) = range.map_or((0, 25 << 20), |_| (1 << 20, 4 << 20));
            assert_eq!((reader.info().bytes, reader.bytes()), (25 << 20, (end - begin) as u64));
            let mut read = Vec::new();
            while let Some(bytes) = reader.next().await {
                read.extend_from_slice(&bytes.expect("it arrives"));
            }
            assert!(read == content[begin..end]);
        }
        let absent = ObjectName::new(sherd.bucket.as_str(), "absent");
        assert!(service.read(&absent, None).await.unwrap_err().is_absent());
    });
}

#[test]
fn slow_readers_leave_all_places_to_others() {
    story(async |sherd, service| {
        let object = ObjectName::new(sherd.bucket.as_str(), "key");
        let content = Bytes::from(noise(4 << 20, 4));
        service.put(&object, content.clone(), &plain()).await.expect("it is stored");
        let mut readers = Vec::new();
        for _ in 0..40 {
            readers.push(service.read(&object, None).await.expect("it begins"));
        }
        assert_eq!(service.get(&object, None).await.expect("there is a place"), content);
    });
}

#[test]
fn a_writer_that_ends_early_leaves_nothing_behind() {
    story(async |sherd, service| {
        let object = ObjectName::new(sherd.bucket.as_str(), "key");
        for is_aborted in [true, false] {
            let mut writer = service.write(&object, &plain()).expect("a name");
            while service.client().uploads(&sherd.bucket).await.expect("a list").is_empty() {
                writer.write(Bytes::from(vec![7; 8 << 20])).await.expect("it is sent");
            }
            if is_aborted {
                writer.abort().await;
                assert_eq!(service.client().uploads(&sherd.bucket).await.expect("a list"), []);
            } else {
                drop(writer);
                while !service.client().uploads(&sherd.bucket).await.expect("a list").is_empty() {
                    tokio::task::yield_now().await;
                }
            }
            assert!(service.stat(&object).await.unwrap_err().is_absent());
        }
    });
}

#[test]
fn cancelled_work_is_cleaned_up_before_it_returns() {
    story(async |sherd, service| {
        let object = ObjectName::new(sherd.bucket.as_str(), "key");
        sherd.write("up", noise(64 << 20, 5));
        let (progress, _events) = Progress::new();
        let token = CancellationToken::new();
        let cancellable = service.cancelled_by(token.clone()).reporting_to(progress.clone());
        let bytes = &progress.counters().bytes;
        let moved = poll_fn(|context| {
            context.waker().wake_by_ref();
            if bytes.load(std::sync::atomic::Ordering::Relaxed) > 0 { Poll::Ready(()) } else { Poll::Pending }
        });
        let path = sherd.path("up");
        let cancel = async {
            moved.await;
            token.cancel();
        };
        let attributes = plain();
        let (ended, ()) = tokio::join!(cancellable.upload(&path, &object, &attributes), cancel);
        assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
        assert_eq!(service.client().uploads(&sherd.bucket).await.expect("a list"), []);
        assert!(service.stat(&object).await.unwrap_err().is_absent(), "others of the service go on");
    });
}

#[test]
fn an_upload_that_ends_before_its_beginning_is_answered_leaves_nothing_behind() {
    story(async |sherd, service| {
        let uploads = async || service.client().uploads(&sherd.bucket).await.expect("a list").len();
        sherd.write("up", noise(17 << 20, 8));
        for is_cancelled in [true, false] {
            let relay = Relay::new(Way::Down, Rule::Hold { bytes: 1 });
            let token = CancellationToken::new();
            let far = Sherd::service_at(relay.address).cancelled_by(token.clone());
            let (path, object) = (sherd.path("up"), ObjectName::new(sherd.bucket.as_str(), "key"));
            let uploading = tokio::spawn(async move { far.upload(&path, &object, &plain()).await });
            tokio::task::block_in_place(|| relay.wait_until_held());
            assert_eq!(uploads().await, 1);
            if is_cancelled {
                token.cancel();
                relay.pass();
                assert!(matches!(uploading.await.expect("it ends"), Err(Error::Cancelled)));
                assert_eq!(uploads().await, 0);
            } else {
                uploading.abort();
                assert!(uploading.await.is_err_and(|error| error.is_cancelled()));
                relay.pass();
                while uploads().await > 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
    });
}

#[test]
fn many_objects_come_in_order_and_one_that_is_absent_does_not_end_them() {
    story(async |sherd, service| {
        let mut keys: Vec<String> = (0..30).map(|number| format!("sample/{number:02}")).collect();
        for key in &keys {
            let object = ObjectName::new(sherd.bucket.as_str(), key.as_str());
            service.put(&object, Bytes::from(key.clone()), &plain()).await.expect("it is stored");
        }
        let mut below =
            service.read_many(&sherd.bucket, ObjectChoice::Prefix("sample/".to_owned()), 8).unwrap();
        for key in &keys {
            let (read, bytes) = below.next().await.expect("one more").expect("the list goes on");
            assert_eq!((&read, bytes.expect("it is read")), (key, Bytes::from(key.clone())));
        }
        assert!(below.next().await.is_none());
        keys.reverse();
        keys.insert(7, "absent".to_owned());
        let mut given = service.read_many(&sherd.bucket, ObjectChoice::Keys(keys.clone()), 8).unwrap();
        for key in &keys {
            let (read, bytes) = given.next().await.expect("one more").expect("there is no list");
            assert_eq!((&read, bytes.is_ok()), (key, key != "absent"));
        }
        assert!(service.read_many(&sherd.bucket, ObjectChoice::Keys(keys), 0).is_err());
        let mut nowhere =
            service.read_many("no-such-bucket", ObjectChoice::Prefix(String::new()), 1).unwrap();
        assert!(nowhere.next().await.expect("an error").unwrap_err().is_absent());
        assert!(nowhere.next().await.is_none());
    });
}
