//! Law 2: the log is the same for any number of threads, files and ranges, any order, plain or packed.

use karl_log::Log;
use karl_log::read::ReadSettings;
use proptest::prelude::*;

use crate::logs::{self, bad, columns, gzip, log, log_in_ranges, log_with, settings, zstd};

/// Rows with and without ids and groups, with repeated ids and identical rows.
fn rows(count: usize) -> Vec<String> {
    let row = |at: usize| match at % 5 {
        0 => format!("{{\"group\":\"g{}\",\"reward\":{at}}}", at % 11),
        1 => format!("{{\"id\":\"twice{}\",\"reward\":0.{at},\"domain\":\"d{}\"}}", at / 10, at % 3),
        2 => "{\"id\":\"same\",\"group\":\"same\",\"reward\":1}".to_owned(),
        _ => format!(
            "{{\"id\":{at},\"group\":\"g{}\",\"reward\":null,\"text\":\"{}\"}}",
            at % 13,
            "é\\n".repeat(at % 40)
        ),
    };
    (0..count).map(row).collect()
}

/// A fixed shuffle: by a multiplier that shares no factor with the length.
fn shuffled(rows: &[String]) -> Vec<String> {
    (0..rows.len()).map(|at| rows[at * 7919 % rows.len()].clone()).collect()
}

fn lines(rows: &[String]) -> String {
    rows.join("\n") + "\n"
}

fn sharded(rows: &[String], shards: usize, threads: usize) -> Log {
    let files: Vec<String> = rows.chunks(rows.len().div_ceil(shards)).map(lines).collect();
    log_with(&files, &ReadSettings { threads, ..settings() })
}

#[test]
fn threads_and_shards_do_not_matter() {
    let rows = rows(1000);
    let wanted = columns(&log(lines(&rows)));
    for shards in [1, 7, 64, 1000] {
        for threads in [1, 2, 8] {
            assert_eq!(
                columns(&sharded(&rows, shards, threads)),
                wanted,
                "{shards} shards, {threads} threads"
            );
        }
    }
}

#[test]
fn the_order_of_records_does_not_matter() {
    let rows = rows(1000);
    let wanted = columns(&log(lines(&rows)));
    assert_ne!(shuffled(&rows), rows);
    assert_eq!(columns(&sharded(&shuffled(&rows), 1, 1)), wanted);
    assert_eq!(columns(&sharded(&shuffled(&rows), 7, 8)), wanted);
}

#[test]
fn packing_some_shards_does_not_matter() {
    let rows = rows(300);
    let files: Vec<Vec<u8>> = rows.chunks(100).map(|rows| lines(rows).into_bytes()).collect();
    let mixed = [gzip(&files[0]), zstd(&files[1]), files[2].clone()];
    assert_eq!(columns(&log_with(&mixed, &settings())), columns(&log_with(&files, &settings())));
}

#[test]
fn ranges_do_not_matter_wherever_they_cut() {
    let text = lines(&rows(9)[..6]) + "\n\r\n" + &lines(&rows(9)[6..]).replace('\n', "\r\n");
    let whole = log_in_ranges(&text, u64::MAX, 1);
    for range in 1..=text.len() as u64 + 2 {
        let cut = log_in_ranges(&text, range, 3);
        assert_eq!(columns(&cut), columns(&whole), "{range}");
        assert_eq!((cut.accounts[0].read, cut.accounts[0].blank), (9, 2), "{range}");
    }
}

#[test]
fn a_cut_before_at_or_after_a_line_end_parts_no_line() {
    let row = |id: usize, length: usize| format!("{{\"id\":{id},\"x\":\"{}\"}}", "y".repeat(length - 15));
    for length in [98, 99, 100, 101] {
        let text = format!("{}\n{}\n{}", row(1, length), row(2, 50), row(3, 250));
        let log = log_in_ranges(&text, 100, 2);
        assert_eq!((row(1, length).len(), log.len(), bad(&log)), (length, 3, vec![]));
    }
}

#[test]
fn a_file_of_several_ranges_of_the_usual_size_reads_as_its_shards() {
    let long = "z".repeat(9_000);
    let row = |at| format!("{{\"id\":{at},\"group\":\"{}\",\"reward\":{at},\"text\":\"{long}\"}}", at % 100);
    let rows: Vec<String> = (0..2_000).map(row).collect();
    assert!(lines(&rows).len() > 17 << 20);
    let whole = sharded(&rows, 1, 2);
    assert_eq!((whole.len(), bad(&whole)), (2_000, vec![]));
    assert_eq!(columns(&whole), columns(&sharded(&rows, 7, 1)));
}

#[test]
fn records_of_one_id_are_numbered_by_their_bytes() {
    let twins = ["{\"id\":1,\"reward\":1}", "{\"id\":1,\"reward\":2}", "{\"id\":\"1\",\"reward\":3}"];
    let log = log(twins.join("\n"));
    assert_eq!(log.keys.iter().map(|key| key.ordinal).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(log.digests().is_sorted() && log.keys.iter().all(|key| key.id == log.keys.get(0).id));
    assert_eq!(log.duplicates().0, 2);
}

proptest! {
    #![proptest_config(logs::fixed(60))]

    #[test]
    fn any_bytes_read_the_same_in_any_ranges(
        bytes in prop::collection::vec(prop::sample::select(b"{}\"id:1,\n\r\n\0[ x".to_vec()), 1..120), range in 1_u64..40,
    ) {
        let bytes = [b"{\"id\":0}\n", &bytes[..]].concat();
        let (one, many) = (log_in_ranges(&bytes, u64::MAX, 1), log_in_ranges(&bytes, range, 2));
        prop_assert_eq!(columns(&many), columns(&one));
        prop_assert_eq!(bad(&many), bad(&one));
    }
}
