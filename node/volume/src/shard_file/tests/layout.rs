//! The bytes of a shard file, and what is refused of them.

use super::*;

#[test]
fn the_bytes_of_version_1_never_change() {
    let disk = disk();
    let files = files(&disk);
    let payload = payload(70_000);
    write(&files, 1, &payload).unwrap();
    let bytes = file_bytes(&disk, &path(1));
    let layout = FileLayout::of(70_000).unwrap();
    assert_eq!(path(1), Path::new("/volume/shards/50/01a3185c500100000102030405060708.2"));
    assert_eq!((bytes.len() as u64, layout.table_at, layout.footer_at), (layout.file_bytes, 77_824, 77_888));
    assert_eq!(layout.file_bytes, 77_936);
    let mut wanted = b"SHRDFILE\x01\0\0\0\0\0\0\0".to_vec();
    wanted.extend([0xc1; 16]);
    wanted.extend([0xb1; 16]);
    wanted.extend(blake3::hash("photos/été.jpg".as_bytes()).as_bytes());
    wanted.extend([0x01, 0xa3, 0x18, 0x5c, 0x50, 0x01, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    wanted.extend([2, 2, 2, 1]);
    wanted.extend([0, 0, 4, 0]);
    wanted.extend([0x70, 0x11, 1, 0, 0, 0, 0, 0]);
    wanted.extend([0x77; 16]);
    wanted.extend([9, 0, 16, 0, 0, 0, 0, 0]);
    wanted.extend("photos/été.jpg".as_bytes());
    assert_eq!(bytes[..wanted.len()], wanted);
    assert!(bytes[wanted.len()..4092].iter().all(|byte| *byte == 0));
    assert_eq!(bytes[4096..74_096], payload);
    assert!(bytes[74_096..77_824].iter().all(|byte| *byte == 0));
    assert_eq!(bytes[77_824..77_856], *blake3::hash(&payload[..65_536]).as_bytes());
    assert_eq!(bytes[77_856..77_888], *blake3::hash(&payload[65_536..]).as_bytes());
    assert_eq!(bytes[77_888..77_896], [64, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[77_896..77_928], *blake3::hash(&bytes[77_824..77_888]).as_bytes());
    assert_eq!(&bytes[77_928..], b"SHRDDONE");
    let whole = blake3::hash(&bytes).to_hex().to_string();
    assert_eq!(whole, "8a485a9ec7c8ef83f46a202f4cda5cb824634e33661d93cdf41ecea1988f0378", "the whole file");
}

#[test]
fn headers_come_back_and_other_bytes_are_refused() {
    let mut plain = header(3, 5);
    plain.key = RegisterKey::object(BucketId([1; 16]), ObjectKey::new(vec![b'k'; 1024]).unwrap());
    for shard in [header(1, 70_000), plain] {
        let stored = StoredHeader { cluster: CLUSTER, shard };
        let page = encode_header(&stored);
        assert_eq!(decode_header(&page), Ok(stored));
        for at in 0..HEADER_BYTES {
            let mut damaged = page.to_vec();
            damaged[at] ^= 0x10;
            assert!(decode_header(&damaged.into()).is_err(), "byte {at}");
        }
        assert!(decode_header(&page.slice(1..)).is_err());
        assert!(decode_header(&Bytes::new()).is_err());
    }
    let mut next = encode_header(&StoredHeader { cluster: CLUSTER, shard: header(1, 1) }).to_vec();
    next[8] = 2;
    let refused = decode_header(&next.into());
    assert_eq!(refused, Err(DecodeError::Version { field: "shard file header", version: 2 }));
}

proptest::proptest! {
    #[test]
    fn no_header_with_a_right_crc_panics_and_one_that_decodes_has_one_form(
        changes in proptest::collection::vec((0..200_usize, proptest::prelude::any::<u8>()), 0..6),
    ) {
        let stored = StoredHeader { cluster: CLUSTER, shard: header(1, 70_000) };
        let mut page = encode_header(&stored).to_vec();
        for (at, byte) in changes {
            page[at] = byte;
        }
        let crc = crc32c::crc32c(&page[..HEADER_BYTES - 4]);
        page[HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        let page = Bytes::from(page);
        if let Ok(decoded) = decode_header(&page) {
            proptest::prop_assert_eq!(encode_header(&decoded), page);
        }
    }

    #[test]
    fn no_table_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300), blocks in 0..10_u64) {
        proptest::prop_assert!(decode_table(&bytes.into(), blocks).is_err());
    }
}

#[test]
fn tables_come_back_and_fit_only_their_number_of_blocks() {
    for blocks in [0, 1, 5] {
        let hashes = vec![[7; 32]; blocks];
        let end = encode_table(&hashes);
        assert_eq!(decode_table(&end, blocks as u64).unwrap(), hashes.concat());
        assert!(decode_table(&end, blocks as u64 + 1).is_err());
        assert!(decode_table(&end, u64::MAX).is_err());
    }
}

#[test]
fn damage_anywhere_in_the_file_is_found() {
    let disk = disk();
    let payload = payload(2 * HASH_BLOCK_BYTES + 100);
    write(&files(&disk), 1, &payload).unwrap();
    let layout = FileLayout::of(payload.len() as u64).unwrap();
    for at in (0..layout.file_bytes).step_by(509).chain(layout.table_at..layout.file_bytes) {
        let damaged = disk.fork();
        damaged.rot(&path(1), at..at + 1).unwrap();
        let files = files(&damaged);
        assert!(is_corrupt(&check(&files, 1)), "the scrubber missed byte {at}");
        let is_padding = (HEADER_BYTES as u64 + payload.len() as u64..layout.table_at).contains(&at);
        let read = read(&files, shard_id(1), 0..payload.len() as u64);
        assert_eq!(is_corrupt(&read), !is_padding, "byte {at}");
    }
}

#[test]
fn a_file_cut_short_grown_unreadable_or_of_others_is_refused() {
    let disk = disk();
    let whole = payload(80_000);
    write(&files(&disk), 1, &whole).unwrap();
    let layout = FileLayout::of(80_000).unwrap();
    for length in [0, 10, 4095, 4096, 50_000, layout.file_bytes - 1, layout.file_bytes + 1] {
        let changed = disk.fork();
        changed.open(&path(1), OpenMode::Write).unwrap().truncate(length).unwrap();
        assert!(is_corrupt(&read(&files(&changed), shard_id(1), 0..1)), "{length} bytes");
    }
    for range in [0..1, 4096..4097, layout.table_at..layout.table_at + 1] {
        let changed = disk.fork();
        changed.make_unreadable(&path(1), range).unwrap();
        assert!(is_corrupt(&read(&files(&changed), shard_id(1), 0..1)));
    }
    let other = ShardFiles::new(Arc::new(disk.clone()), PathBuf::from(ROOT), ClusterId([9; 16]), pool());
    assert!(is_corrupt(&read(&other, shard_id(1), 0..1)));
    disk.rename(&path(1), &path(1).with_extension("3")).unwrap();
    assert!(is_corrupt(&read(&files(&disk), ShardId { index: 3, ..shard_id(1) }, 0..1)));
    assert!(matches!(read(&files(&disk), shard_id(1), 0..1), Err(Error::NotFound)));
}
