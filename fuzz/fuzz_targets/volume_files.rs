//! Any bytes are a shard file's header or table, or a volume.json, or are refused; the first byte says
//! which. Checksums are made right first, so that what lies behind them is reached.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use sherd_volume::identity::Identity;
use sherd_volume::shard_file::format::{
    FOOTER_BYTES, HASH_BYTES, HEADER_BYTES, Layout, decode_header, decode_table,
    encode_header, encode_table,
};
use sherd_volume::limits::SHARD_BYTES_MAX;

fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        Some((0, rest)) => header(rest),
        Some((1, rest)) => table(rest),
        Some((2, rest)) => identity(rest),
        _ => {}
    }
});

fn header(data: &[u8]) {
    let mut page = data.to_vec();
    page.resize(HEADER_BYTES, 0);
    let crc = crc32c::crc32c(&page[..HEADER_BYTES - 4]);
    page[HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    let page = Bytes::from(page);
    if let Ok(header) = decode_header(&page) {
        assert_eq!(encode_header(&header), page, "one header has one form");
        let layout = Layout::of(header.shard.shard_bytes).expect("a decoded header can be laid out");
        assert!(header.shard.shard_bytes <= SHARD_BYTES_MAX);
        assert_eq!(layout.file_bytes, layout.footer_at + FOOTER_BYTES as u64);
        assert_eq!(layout.table_bytes(), layout.blocks * HASH_BYTES as u64);
    }
    let short = Bytes::copy_from_slice(data);
    assert!(decode_header(&short).is_err() || data.len() == HEADER_BYTES);
}

fn table(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    for blocks in [0, 1, 3, u64::MAX] {
        if let Ok(table) = decode_table(&bytes, blocks) {
            assert_eq!(table.len() as u64, blocks * HASH_BYTES as u64);
        }
    }
    let hashes: Vec<[u8; HASH_BYTES]> =
        data.chunks_exact(HASH_BYTES).map(|hash| hash.try_into().expect("cut to it")).collect();
    let end = encode_table(&hashes);
    let table = decode_table(&end, hashes.len() as u64).expect("as encoded");
    assert_eq!(table, hashes.concat());
    assert!(decode_table(&end, hashes.len() as u64 + 1).is_err());
}

/// Takes the bytes for a whole file, and for a body under a right checksum.
fn identity(data: &[u8]) {
    check(data);
    if let Ok(body) = std::str::from_utf8(data) {
        let body = body.trim();
        let checksum = blake3::hash(body.as_bytes()).to_hex();
        check(format!(r#"{{"format":1,"checksum":"{checksum}","body":{body}}}"#).as_bytes());
    }
}

fn check(bytes: &[u8]) {
    if let Ok(identity) = Identity::decode(bytes) {
        assert_eq!(Identity::decode(&identity.encode()), Ok(identity));
    }
}
