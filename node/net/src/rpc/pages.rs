//! Pages as they leave this node: they end at 1 MiB, and have one row at least.
//!
//! A volume ends a page by its count of rows, and a row may carry a value of 4 MiB. The caller asks for the
//! rest by `next`; pages whose kind has no `next` have rows that are short by their kind. Called by the
//! services on a volume's answer.

use sherd_core::message::call::VolumeAnswer;
use sherd_core::message::{Answer, ListPage, ListedRow, RowPage, behind, behind_prefix};
use sherd_proto::limits::PAGE_BYTES_MAX;

use sherd_store::peer::{entry_bytes, row_bytes};

pub(super) fn end(answer: &mut VolumeAnswer) {
    match answer {
        VolumeAnswer::List(Answer { result: Ok(page), .. }) => end_list(page),
        VolumeAnswer::Rows(Answer { result: Ok(page), .. }) => end_rows(page),
        _ => {}
    }
}

fn end_list(page: &mut ListPage) {
    let Some(kept) = kept(page.entries.iter().map(entry_bytes)) else { return };
    page.entries.truncate(kept);
    page.next = match page.entries.last() {
        Some(ListedRow::Row(row)) => Some(behind(row.key.key.as_bytes())),
        Some(ListedRow::Prefix { prefix, .. }) => behind_prefix(prefix),
        None => return,
    };
}

fn end_rows(page: &mut RowPage) {
    if let Some(kept) = kept(page.rows.iter().map(row_bytes)) {
        page.rows.truncate(kept);
        page.next = page.rows.last().map(|row| row.key.clone());
    }
}

/// Counts the entries that fit the page; `None` where all do.
fn kept(bytes: impl Iterator<Item = usize>) -> Option<usize> {
    let mut sum = 0;
    for (index, bytes) in bytes.enumerate() {
        sum += bytes;
        if sum > PAGE_BYTES_MAX && index > 0 {
            return Some(index);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    use bytes::Bytes;

    use sherd_core::id::{Ballot, BucketId, ObjectKey, RegisterKey};
    use sherd_core::message::ScannedRow;
    use sherd_core::register::{Row, RowHead};

    fn row(name: &str, bytes: usize) -> ScannedRow {
        let key = RegisterKey::object(BucketId([1; 16]), ObjectKey::new(name.to_owned()).expect("a key"));
        let head = RowHead { ballot: Ballot::ZERO, digest: [0; 32], committed: true };
        ScannedRow {
            key,
            row: Row { head, value_bytes: 0, value: Some(Bytes::from(vec![0; bytes])) },
            tombstone: false,
            is_missed: false,
        }
    }

    #[test]
    fn a_page_of_rows_ends_at_its_bytes_and_goes_on_behind_the_last() {
        let rows = vec![row("a", 600 << 10), row("b", 600 << 10), row("c", 1)];
        let mut page = RowPage { rows, next: None };
        end_rows(&mut page);
        assert_eq!(page.rows.len(), 1);
        assert_eq!(page.next.as_ref(), Some(&page.rows[0].key));
    }

    #[test]
    fn a_row_longer_than_a_page_is_a_page() {
        let mut page = RowPage { rows: vec![row("a", 3 << 20), row("b", 1)], next: None };
        end_rows(&mut page);
        assert_eq!(page.rows.len(), 1);
        let mut page = RowPage { rows: vec![row("a", 3 << 20)], next: None };
        end_rows(&mut page);
        assert_eq!((page.rows.len(), page.next), (1, None));
    }

    #[test]
    fn a_listing_goes_on_behind_a_prefix_that_ends_its_page() {
        let prefix = Bytes::from_static(b"p/");
        let entries = vec![
            ListedRow::Prefix { prefix: prefix.clone(), witness: row("p/x", 900 << 10) },
            ListedRow::Row(row("q", 900 << 10)),
        ];
        let mut page = ListPage { entries, ..ListPage::default() };
        end_list(&mut page);
        assert_eq!(page.entries.len(), 1);
        assert_eq!(page.next, behind_prefix(&prefix));
    }
}
