//! What becomes of the documents of `JSONTestSuite` (<https://github.com/nst/JSONTestSuite>, Nicolas Seriot, MIT), each
//! as a field of a record. Its files are not part of this repository; `json_corpus` has documents of our own of the
//! same kinds. With a checkout of the suite:
//!
//! ```sh
//! KARL_FAST_JSON_TEST_SUITE=... cargo test -p karl-log --test all json_test_suite -- --ignored
//! ```

use std::fs;
use std::path::PathBuf;

use karl_log::json::project::{Path, PathTree, scan};
use karl_log::json::reference_parser::parse;
use karl_log::json::scalar::{Name, RewardValue, name, reward};

use crate::logs::{bad_count, strictly, try_read};

/// What the suite wants refused and Python's `json` reads; logs are written by Python.
const PYTHON: [&str; 3] = ["n_number_NaN", "n_number_infinity", "n_number_minus_infinity"];

/// What the suite leaves open and we read; every other such document is refused: lone surrogates, bytes that are no
/// UTF-8, UTF-16, a byte order mark inside a text, nesting beyond 127.
const READ: [(&str, &str); 10] = [
    ("i_number_double_huge_neg_exp", "a number keeps its digits; as a reward it is 0"),
    ("i_number_huge_exp", "a number keeps its digits; as a reward it is infinite"),
    ("i_number_neg_int_huge_exp", "as above"),
    ("i_number_pos_double_huge_exp", "as above"),
    ("i_number_real_neg_overflow", "as above"),
    ("i_number_real_pos_overflow", "as above"),
    ("i_number_real_underflow", "a number keeps its digits; as a reward it is 0"),
    ("i_number_too_big_neg_int", "an integer of any length"),
    ("i_number_too_big_pos_int", "an integer of any length"),
    ("i_number_very_big_negative_int", "an integer of any length"),
];

/// Name and text of every document, in order.
fn suite() -> Vec<(String, Vec<u8>)> {
    let checkout = std::env::var_os("KARL_FAST_JSON_TEST_SUITE").unwrap();
    let folder = PathBuf::from(checkout).join("test_parsing");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let document =
        |path: PathBuf| (path.file_stem().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap());
    paths.into_iter().map(document).collect()
}

fn is_read(name: &str) -> bool {
    name.starts_with("y_") || PYTHON.contains(&name) || READ.iter().any(|(read, _)| *read == name)
}

fn wrapped(text: &[u8]) -> Vec<u8> {
    [b"{\"id\":\"r\",\"x\":", text, b",\"reward\":1}"].concat()
}

/// Whether a file that holds nothing but this record is read in full, as `--strict` does, without damage.
fn read_strictly(record: &[u8]) -> bool {
    let strict = strictly();
    try_read(&[record], &strict).is_ok_and(|log| log.len() == 1 && bad_count(&log) == 0)
}

#[test]
#[ignore = "wants a checkout of JSONTestSuite in KARL_FAST_JSON_TEST_SUITE"]
fn every_document_is_read_or_refused_as_the_table_says() {
    let mut counts = [[0, 0]; 3];
    for (name, text) in suite() {
        let record = wrapped(&text);
        let read = read_strictly(&record);
        assert_eq!(read, is_read(&name), "{name}");
        assert_eq!(parse(&record).is_ok(), read, "{name}");
        counts["yni".find(&name[..1]).unwrap()][usize::from(read)] += 1;
    }
    // Refused and read of those to be read, those to be refused, and those left open.
    assert_eq!(counts, [[0, 95], [185, 3], [25, 10]]);
}

#[test]
#[ignore = "wants a checkout of JSONTestSuite in KARL_FAST_JSON_TEST_SUITE"]
fn the_scan_takes_every_value_that_is_read_and_no_damage_for_one() {
    let wanted = PathTree::new(&["x", "id", "reward"].map(|path| Path::parse(path).unwrap()));
    for (title, text) in suite() {
        let record = wrapped(&text);
        let mut values = [None, None, None];
        let scanned = scan(&record, &wanted, &mut values);
        if is_read(&title) {
            assert_eq!(scanned.unwrap().end, record.len(), "{title}");
            let [x, id, one] = values.map(|value| &record[value.unwrap()]);
            assert_eq!((x, id, one), (text.trim_ascii(), &b"\"r\""[..], &b"1"[..]), "{title}");
        } else if let (Ok(_), Some(x)) = (scanned, &values[0]) {
            let x = &record[x.clone()];
            let refused = name(Some(x)) == Name::Bad && reward(Some(x)) == RewardValue::NotANumber;
            assert!(refused || parse(x).is_ok(), "{title}");
        }
    }
}
