//! The second pass gives the bytes that were scanned, or says that they changed.

use std::fs;
use std::path::{Path, PathBuf};

use karl_log::input::source::{Source, hash};
use karl_log::read::read;
use karl_log::second_pass::fetch;
use karl_log::{Error, Log, Watch};
use tempfile::TempDir;

use crate::logs::{files, folder, gzip, open, settings, zstd};

fn text() -> String {
    let row = |at| format!("{{\"id\":{at},\"reward\":{at},\"text\":\"{}\"}}\r\n", "x".repeat(at));
    (0..50).map(row).collect()
}

fn logged(bytes: &[u8]) -> (TempDir, PathBuf, Log) {
    let folder = folder();
    let paths = files(&folder, &[bytes]);
    let log = read(open(&paths), &settings(), &Watch::new()).unwrap();
    (folder, paths[0].clone(), log)
}

fn all(log: &Log) -> Vec<u32> {
    (0..u32::try_from(log.len()).unwrap()).collect()
}

fn changed(log: &Log, rows: &[u32]) -> bool {
    matches!(fetch(log, rows, 2, &Watch::new()), Err(Error::Changed { .. }))
}

#[test]
fn thousands_of_records_come_in_the_order_asked_for_by_any_number_of_threads() {
    let row = |at| format!("{{\"id\":{at},\"reward\":{at}}}\n");
    let text: String = (0..10_000).map(row).collect();
    let (_folder, _, log) = logged(text.as_bytes());
    let mut rows = all(&log);
    rows.reverse();
    for threads in [1, 3] {
        let records = fetch(&log, &rows, threads, &Watch::new()).unwrap();
        let digests = records.iter().map(|record| (karl_core::rng::id128(record) >> 64) as u64);
        assert!(digests.eq(log.digests().into_iter().rev()), "{threads}");
    }
    rows[9_000] = 10_000;
    let refused = fetch(&log, &rows, 3, &Watch::new()).unwrap_err().to_string();
    assert!(refused.contains("10000"), "{refused}");
}

#[test]
fn records_come_as_they_were_in_the_order_asked_for_and_as_often() {
    for bytes in [text().into_bytes(), gzip(text().as_bytes()), zstd(text().as_bytes())] {
        let (_folder, _, log) = logged(&bytes);
        let mut rows = all(&log);
        rows.reverse();
        rows.extend([3, 3, 0, 3, 49]);
        let records = fetch(&log, &rows, 2, &Watch::new()).unwrap();
        let digests = records.iter().map(|record| (karl_core::rng::id128(record) >> 64) as u64);
        assert!(digests.eq(rows.iter().map(|&row| log.digests()[row as usize])));
        assert!(records.iter().all(|record| record.starts_with(b"{\"id\"") && record.ends_with(b"}")));
    }
}

#[test]
fn a_window_has_the_rows_that_fit_and_one_that_does_not() {
    let (_folder, _, log) = logged(text().as_bytes());
    let length = |row| u64::from(log.place(row).unwrap().length);
    let three = (0..3).map(length).sum();
    assert_eq!(log.window(0, three), [0, 1, 2]);
    assert_eq!(log.window(0, three - 1), [0, 1]);
    assert_eq!(log.window(7, 1), [7]);
    assert_eq!(log.window(48, u64::MAX), [48, 49]);
    assert!(log.window(50, u64::MAX).is_empty());
}

#[test]
fn records_of_every_layout_come_without_what_stands_around_them() {
    let (a, b) = ("{\"id\":1,\n \"reward\":1}", "{\"id\":2,\"reward\":1}");
    for text in [
        format!("[{a} ,{b}]"),
        format!("{{\"v\":[1],\"r\":[{a},\n{b}],\"w\":2}}"),
        format!(" {a}{b}"),
        format!("{b}{b} \n"),
    ] {
        let (_folder, _, log) = logged(text.as_bytes());
        for record in fetch(&log, &all(&log), 2, &Watch::new()).unwrap() {
            assert!([a, b].contains(&std::str::from_utf8(&record).unwrap()), "{text}");
        }
    }
}

#[test]
fn a_file_that_grew_is_fine() {
    let (_folder, path, log) = logged(text().as_bytes());
    fs::write(&path, text() + "{\"id\":99}\n").unwrap();
    assert_eq!(fetch(&log, &all(&log), 2, &Watch::new()).unwrap().len(), 50);
}

#[test]
fn a_file_that_shrank_changed() {
    for pack in [|bytes: &[u8]| bytes.to_vec(), gzip, zstd] {
        let (_folder, path, log) = logged(&pack(text().as_bytes()));
        fs::write(&path, pack(&text().as_bytes()[..text().len() / 2])).unwrap();
        assert!(changed(&log, &all(&log)));
        for other in [&b""[..], b"other", b"\x1f\x8b\x08 damaged"] {
            fs::write(&path, other).unwrap();
            assert!(changed(&log, &[0]), "{}", other.escape_ascii());
        }
    }
}

#[test]
fn a_record_that_changed_in_place_is_told_from_its_neighbours() {
    let (_folder, path, log) = logged(text().as_bytes());
    fs::write(&path, text().replace("\"reward\":7,", "\"reward\":8,")).unwrap();
    let told: Vec<bool> = all(&log).into_iter().map(|row| changed(&log, &[row])).collect();
    assert_eq!(told.iter().filter(|&&changed| changed).count(), 1);
}

#[test]
fn a_file_that_was_rewritten_or_removed_is_an_error() {
    let (_folder, path, log) = logged(text().as_bytes());
    fs::write(&path, format!("\n{}", text())).unwrap();
    assert!(changed(&log, &all(&log)));
    fs::remove_file(&path).unwrap();
    assert!(changed(&log, &[0]));
}

#[test]
fn of_a_copy_the_file_that_was_given_is_told() {
    let folder = folder();
    let path = files(&folder, &[text()])[0].clone();
    let copy = Source::open(&path, "given.jsonl.gz").unwrap();
    let log = read(vec![copy.clone()], &settings(), &Watch::new()).unwrap();
    fs::remove_file(&path).unwrap();
    let fetched = fetch(&log, &[0], 1, &Watch::new()).map(drop);
    for told in [fetched, hash(&copy, true, &Watch::new()).map(drop)] {
        assert!(matches!(told, Err(Error::Changed { path, .. }) if path == Path::new("given.jsonl.gz")));
    }
    let gone = [
        Source::open(&path, "given.jsonl.gz").unwrap_err(),
        read(vec![copy.clone()], &settings(), &Watch::new()).unwrap_err(),
    ];
    assert!(gone.iter().all(|error| error.to_string().contains(" given.jsonl.gz: ")), "{gone:?}");
}

#[test]
fn a_row_that_the_log_does_not_have_is_refused() {
    let (_folder, _, log) = logged(text().as_bytes());
    assert!(matches!(
        fetch(&log, &[0, 50], 2, &Watch::new()),
        Err(Error::Draw(karl_core::Error::Row { index: 1, row: 50, count: 50 }))
    ));
    assert!(fetch(&log, &[], 2, &Watch::new()).unwrap().is_empty());
}

#[test]
fn the_hash_of_a_file_tells_a_change_at_either_end_and_the_whole_one_any() {
    let folder = folder();
    let mut bytes = vec![b'x'; 3 << 20];
    let hashes = |bytes: &[u8]| {
        let source = &open(&files(&folder, &[bytes]))[0];
        [false, true].map(|whole| hash(source, whole, &Watch::new()).unwrap())
    };
    let before = hashes(&bytes);
    for (at, ends_tell) in [(0, true), ((3 << 20) - 1, true), (3 << 19, false)] {
        bytes[at] = b'y';
        let after = hashes(&bytes);
        assert_eq!((after[0] != before[0], after[1] != before[1]), (ends_tell, true), "{at}");
        bytes[at] = b'x';
    }
}
