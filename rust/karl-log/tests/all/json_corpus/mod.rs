//! What the trusted parser takes for JSON, text by text: a document of our own for every kind in `JSONTestSuite`
//! (<https://github.com/nst/JSONTestSuite>), which `json_test_suite.rs` reads itself where there is a copy.

mod texts;

use std::thread;

use karl_log::json::project::{Path, PathTree, scan};
use karl_log::json::reference_parser::{lookup, parse};
use karl_log::json::scalar::{Name, RewardValue, name, reward};

use texts::{ACCEPTED, REJECTED};

/// The smallest stack that a thread usually has.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}

fn deep(open: &str, close: &str, levels: usize) -> String {
    format!("{}1{}", open.repeat(levels), close.repeat(levels))
}

#[test]
fn what_is_json_is_accepted() {
    for text in ACCEPTED {
        assert!(parse(text).is_ok(), "{}: {:?}", text.escape_ascii(), parse(text));
    }
}

#[test]
fn what_is_not_json_is_rejected() {
    for text in REJECTED {
        assert!(parse(text).is_err(), "{}: {:?}", text.escape_ascii(), parse(text));
    }
}

/// As fields of a record that nobody looks at: the scan passes over what is JSON, and takes nothing from behind it.
#[test]
fn every_text_that_is_json_is_passed_over_as_a_field() {
    for text in ACCEPTED {
        let record = [b"{\"x\":", *text, b",\"id\":7}"].concat();
        let mut id = [None];
        let scanned = scan(&record, &PathTree::new(&[Path::parse("id").unwrap()]), &mut id).unwrap();
        assert_eq!((scanned.end, &record[id[0].clone().unwrap()]), (record.len(), &b"7"[..]));
        assert!(parse(&record).is_ok());
    }
}

#[test]
fn no_text_that_is_not_json_becomes_a_name_or_a_reward() {
    for text in REJECTED {
        let record = [b"{\"id\":", *text, b",\"reward\":", text, b"}"].concat();
        assert!(parse(&record).is_err(), "{}", text.escape_ascii());
        let mut found = [None, None];
        let paths = ["id", "reward"].map(|path| Path::parse(path).unwrap());
        if scan(&record, &PathTree::new(&paths), &mut found).is_ok() {
            let raw = |at: usize| found[at].clone().map(|range: std::ops::Range<usize>| &record[range]);
            let taken = |raw: Option<&[u8]>| raw.is_some_and(|raw| parse(raw).is_err());
            assert!(!taken(raw(0)) || name(raw(0)) == Name::Bad, "{}", record.escape_ascii());
            assert!(!taken(raw(1)) || reward(raw(1)) == RewardValue::NotANumber, "{}", record.escape_ascii());
        }
    }
}

#[test]
fn nesting_is_accepted_up_to_127_levels_and_refused_beyond() {
    for (levels, fine) in [(1, true), (127, true), (128, false), (1_000_000, false)] {
        assert_eq!(parse(deep("[", "]", levels).as_bytes()).is_ok(), fine, "{levels}");
        assert_eq!(parse(deep("{\"a\":", "}", levels).as_bytes()).is_ok(), fine, "{levels}");
    }
}

#[test]
fn deep_nesting_overflows_no_stack_in_either_path() {
    on_a_small_stack(|| {
        for (open, close) in [("[", "]"), ("{\"id\":", "}"), ("[{\"a\":", "}]")] {
            let text = format!("{{\"x\":{0},\"id\":{0},\"y\":2}}", deep(open, close, 1_000_000));
            let wanted = PathTree::new(&["id", "id.id.id", "y"].map(|path| Path::parse(path).unwrap()));
            let mut values = vec![None; 3];
            assert_eq!(scan(text.as_bytes(), &wanted, &mut values).unwrap().end, text.len());
            assert_eq!(&text[values[2].clone().unwrap()], "2");
            assert!(parse(text.as_bytes()).is_err());
        }
    });
}

#[test]
fn unclosed_nesting_overflows_no_stack_in_either_path() {
    on_a_small_stack(|| {
        for open in ["[", "{\"id\":"] {
            let text = format!("{{\"id\":{}", open.repeat(1_000_000));
            let wanted = PathTree::new(&[Path::parse("id").unwrap()]);
            assert!(scan(text.as_bytes(), &wanted, &mut [None]).is_err());
            assert!(parse(text.as_bytes()).is_err());
        }
    });
}

#[test]
fn the_parsers_own_signs_are_no_keys_however_they_are_written() {
    for key in [
        "$serde_json::private::Number",
        "$serde_json::private::RawValue",
        r"\u0024serde_json::private::Number",
    ] {
        for text in [format!("{{\"{key}\":\"1\"}}"), format!("{{\"a\":[{{\"{key}\" : \"[1]\"}}]}}")] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
    let said = br#"{"a":"$serde_json::private::Number","b":["$serde_json::private::RawValue"]}"#;
    assert_eq!(parse(said).unwrap().to_string().as_bytes(), said);
}

#[test]
fn the_last_of_two_equal_keys_counts() {
    let record = parse(br#"{"a":{"b":1},"\u0061":{"b":2}}"#).unwrap();
    assert_eq!(lookup(&record, &Path::parse("a.b").unwrap()).unwrap(), 2);
}
