//! Packed files read as plain ones do, and damage costs what follows it and no more.

use std::io::Write;

use karl_log::input::codec::Codec;

use crate::logs::{self, bad_count, balanced, columns, gzip, log, zstd as frame};

fn rows(count: usize) -> Vec<String> {
    let row = |at| {
        format!(
            "{{\"id\":{at},\"group\":\"g{}\",\"reward\":{}.25,\"text\":\"{:x}\"}}\n",
            at % 7,
            at % 3,
            at * 7919
        )
    };
    (0..count).map(row).collect()
}

/// Packs each row by itself.
fn members(pack: fn(&[u8]) -> Vec<u8>, count: usize) -> Vec<u8> {
    rows(count).iter().flat_map(|row| pack(row.as_bytes())).collect()
}

/// A frame with a checksum: without one, a changed byte may be unpacked as another.
fn checked_zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_packed_log_reads_as_the_plain_one() {
    let plain = log(rows(1000).concat());
    let text = rows(1000).concat();
    let mut skippable = vec![0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    skippable.extend(frame(text.as_bytes()));
    let packed = [
        (gzip(text.as_bytes()), Codec::Gzip),
        (members(gzip, 1000), Codec::Gzip),
        (frame(text.as_bytes()), Codec::Zstd),
        (members(frame, 1000), Codec::Zstd),
        (skippable, Codec::Zstd),
    ];
    for (bytes, codec) in packed {
        // The name ends in `.jsonl`: the first bytes tell.
        let log = log(bytes);
        assert_eq!((log.inputs[0].source.codec, columns(&log)), (codec, columns(&plain)));
    }
}

#[test]
fn a_packed_document_reads_as_the_plain_one() {
    let array = format!("[{}]", rows(50).join(","));
    let object = format!("{{\"n\": 1, \"results\":\n{array}, \"m\": [2]}}");
    for text in [array, object] {
        for pack in [gzip, frame] {
            assert_eq!(columns(&log(pack(text.as_bytes()))), columns(&log(&text)));
        }
    }
}

#[test]
fn an_empty_packed_file_has_no_rows() {
    for bytes in [gzip(b""), frame(b""), gzip(b"\n")] {
        let log = log(bytes);
        assert_eq!((log.len(), bad_count(&log)), (0, 0));
    }
}

#[test]
fn a_packed_file_cut_between_members_keeps_the_rows_before() {
    for pack in [gzip, frame] {
        let bytes = members(pack, 30);
        let tenth: usize = rows(10).iter().map(|row| pack(row.as_bytes()).len()).sum();
        for cut in [tenth + 3, tenth + 11] {
            let log = log(&bytes[..cut]);
            assert_eq!(log.accounts[0].places[0].reason.name(), "damaged_stream");
            assert_eq!((log.len(), bad_count(&log), log.accounts[0].places[0].line), (10, 1, 11));
        }
    }
}

#[test]
fn a_packed_file_cut_or_changed_anywhere_is_damaged_and_never_lost_in_silence() {
    for pack in [gzip, checked_zstd] {
        let whole = pack(rows(200).concat().as_bytes());
        for at in (4..whole.len() - 1).step_by(whole.len() / 40) {
            let mut changed = whole.clone();
            changed[at] ^= 0x40;
            for bytes in [&whole[..at], &changed[..]] {
                let log = log(bytes);
                assert!(balanced(&log) && log.len() <= 200);
                assert!(
                    bad_count(&log) > 0 || columns(&log) == columns(&self::log(rows(200).concat())),
                    "{at}"
                );
            }
        }
    }
}

#[test]
fn a_window_that_is_too_large_and_a_dictionary_that_nobody_has_are_damage() {
    let mut wide = zstd::Encoder::new(Vec::new(), 1).unwrap();
    wide.window_log(28).unwrap();
    wide.write_all(rows(10).concat().as_bytes()).unwrap();
    let wide = wide.finish().unwrap();
    // A frame with one raw block, which asks for dictionary 7.
    let strange = [0x28, 0xb5, 0x2f, 0xfd, 0x01, 0x58, 0x07, 0x19, 0, 0, b'{', b'}', b'\n'];
    for tail in [&wide[..], &strange] {
        for head in [Vec::new(), frame(rows(5).concat().as_bytes())] {
            let kept = if head.is_empty() { 0 } else { 5 };
            let log = log([&head, tail].concat());
            assert_eq!((log.len(), logs::bad(&log)), (kept, vec![("damaged_stream", kept as u64 + 1)]));
        }
    }
}

#[test]
fn what_follows_a_damaged_member_is_counted_as_one_loss() {
    let mut bytes = members(gzip, 10);
    bytes.extend(b"no gzip");
    let log = log(bytes);
    assert_eq!((log.len(), log.accounts[0].places[0].reason.name()), (10, "damaged_stream"));
    let end = rows(10).concat().len() as u64;
    assert!(end - log.accounts[0].places[0].offset <= 1);
}
