//! Values that no vote carries: they are asked for by their length, with room taken at this gateway.

use sherd_core::id::UploadId;
use sherd_core::limits::VALUE_UNASKED_BYTES_MAX;
use sherd_core::message::Error;
use sherd_core::record::Upload;

use super::lost_answers::read;
use super::*;
use crate::peer::scripted::{Fate, says};

/// An object with uploads whose attributes lie in its row, as they were stored before.
fn with_uploads() -> Writer<()> {
    let pairs = vec![("x-amz-meta-a".to_owned(), "v".repeat(2_000))];
    let upload = move |n: u8| Upload {
        id: UploadId([n; 16]),
        initiated_ms: 1,
        attributes: Some(Attributes { pairs: pairs.clone() }),
        checksum: None,
    };
    let object = Object { versions: Vec::new(), uploads: (0..40).map(upload).collect() };
    Writer::new(move |_| Ok(Proposal::of(State::Object(object.clone()))))
}

#[tokio::test]
async fn a_long_value_waits_for_room_and_gives_it_back_with_its_row() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let registers = gateway.registers();
    registers.change(registers.begin(&key()), with_uploads()).await.expect("a healthy node");
    let asked = Arc::new(AtomicBool::new(false));
    says(&script.reads, {
        let asked = Arc::clone(&asked);
        move |_, values| {
            asked.fetch_or(values > ValueLimit::USUAL, Ordering::SeqCst);
            Fate::Through
        }
    });
    let values = &registers.inner.values;
    let whole = values.free_bytes();
    let taken = values.take(whole).await.expect("free");
    let key = key();
    let mut reading = Box::pin(registers.read(&key));
    let soon = tokio::time::timeout(std::time::Duration::from_millis(300), &mut reading).await;
    assert!(soon.is_err() && !asked.load(Ordering::SeqCst), "no volume is asked without room");
    drop(taken);
    let found = reading.await.expect("readable").expect("there");
    assert!(asked.load(Ordering::SeqCst) && found.head.len() > VALUE_UNASKED_BYTES_MAX);
    assert!(values.free_bytes() <= whole - 2 * found.head.len(), "{} of {whole}", values.free_bytes());
    let light = found.clone().for_reading();
    drop(found);
    assert_eq!(values.free_bytes(), whole);
    assert!(light.object().is_some_and(|object| object.uploads.is_empty()));
    // A change finds it, too.
    registers.change(registers.begin(&key), plain(1)).await.expect("a healthy node");
    assert_eq!(values.free_bytes(), whole);
    assert_eq!(number_of(Some(&read(&node).await.value.state)), Some(1));
    gateway.close().await;
}

#[tokio::test]
async fn volumes_without_room_are_asked_again_and_the_client_gets_slow_down() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let timeouts = RegisterTimeouts { round: std::time::Duration::from_millis(500), ..Default::default() };
    let (gateway, script) = node.scripted_gateway(timeouts);
    let registers = gateway.registers();
    registers.change(registers.begin(&key()), with_uploads()).await.expect("a healthy node");
    let busy = |refusals: usize| {
        let mut left = refusals;
        says(&script.reads, move |_, values| {
            if values > ValueLimit::USUAL && left > 0 {
                left -= 1;
                return Fate::Instead(Err(Error::Busy));
            }
            Fate::Through
        });
    };
    busy(9);
    assert!(registers.read(&key()).await.is_ok_and(|found| found.is_some()), "it is asked for again");
    busy(usize::MAX);
    assert_eq!(registers.read(&key()).await, Err(Failure::Overloaded));
    let outcome = registers.change(registers.begin(&key()), plain(1)).await;
    assert!(matches!(outcome, Err(ChangeError::Failed(Failure::Overloaded))), "{outcome:?}");
    busy(0);
    let found = registers.read(&key()).await.expect("readable").expect("there");
    assert_eq!(number_of_uploads(&found), 40, "nothing changed");
    gateway.close().await;
}

fn number_of_uploads(found: &QuorumRow) -> usize {
    found.object().map_or(0, |object| object.uploads.len())
}
