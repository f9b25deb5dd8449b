//! What the trusted parser takes for JSON, text by text, in the spirit of `JSONTestSuite`.
#![allow(clippy::unwrap_used, reason = "a helper that fails, fails its test")]

use std::thread;

use karl_log::field::{Path, Wanted, scan};
use karl_log::trusted::{lookup, parse};

const ACCEPTED: [&[u8]; 46] = [
    b"{}",
    b"[]",
    b" {} ",
    b"\t\r\n{}\n",
    b"null",
    b"true",
    b"false",
    b"\"\"",
    b"0",
    b"-0",
    b"1",
    b"-1",
    b"0.0",
    b"1.5",
    b"1e1",
    b"1E1",
    b"1e+1",
    b"1e-1",
    b"0e0",
    b"-0.0e-0",
    b"1e400",
    b"1e-400",
    b"123456789012345678901234567890",
    b"\"\\u0000\"",
    b"\"\\ud83d\\ude00\"",
    b"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    b"\"\x7f\"",
    b"\"\xe2\x80\xa8\"",
    b"\"\xf4\x8f\xbf\xbf\"",
    b"\"\xef\xbb\xbf\"",
    b"\"\\uFFFF\"",
    b"[1,2]",
    b"[[[]]]",
    b"[ 1 , 2 ]",
    b"[null]",
    b"{\"a\":1}",
    b"{\"a\":1,\"a\":2}",
    b"{\"\":0}",
    b"{ \"a\" : 1 , \"b\" : [ ] }",
    b"{\"\\u0061\":1}",
    b"{\"a\":{\"b\":{\"c\":[{}]}}}",
    b"NaN",
    b"[Infinity]",
    b"{\"a\":-Infinity}",
    b"[ NaN , NaN ]",
    b"{\"$serde_json\":1}",
];

const REJECTED: [&[u8]; 75] = [
    b"",
    b" ",
    b"{",
    b"}",
    b"[",
    b"]",
    b"{]",
    b"[}",
    b"[1",
    b"[1,",
    b"[1,]",
    b"[,1]",
    b"[1 2]",
    b"[1,,2]",
    b"[1]]",
    b"{\"a\"",
    b"{\"a\":",
    b"{\"a\":1",
    b"{\"a\":1,",
    b"{\"a\":1,}",
    b"{,}",
    b"{a:1}",
    b"{'a':1}",
    b"{1:1}",
    b"{\"a\" 1}",
    b"{\"a\":1 \"b\":2}",
    b"{\"a\"::1}",
    b"{} {}",
    b"{}x",
    b"1 2",
    b"tru",
    b"True",
    b"nul",
    b"None",
    b"undefined",
    b"nan",
    b"NAN",
    b"+NaN",
    b"-NaN",
    b"Inf",
    b"+Infinity",
    b"--Infinity",
    b"NaNa",
    b"1NaN",
    b"{NaN:1}",
    b"01",
    b"-01",
    b"+1",
    b".5",
    b"1.",
    b"1.e1",
    b"1e",
    b"1e+",
    b"-",
    b"--1",
    b"0x10",
    b"1_000",
    b"1e1.5",
    b"1,2",
    b"\"",
    b"\"a",
    b"\"\\\"",
    b"\"\\x41\"",
    b"\"\\u12\"",
    b"\"\\u12g4\"",
    b"\"\\ud800\"",
    b"\"\\udc00\"",
    b"\"\\ud800\\u0041\"",
    b"\"a\nb\"",
    b"\"\x00\"",
    b"\"\xff\"",
    b"\"\xc0\xaf\"",
    b"\"\xed\xa0\x80\"",
    b"\xef\xbb\xbf{}",
    b"// c\n{}",
];

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

#[test]
fn nesting_is_accepted_up_to_127_levels_and_refused_beyond() {
    for (levels, fine) in [(1, true), (127, true), (128, false), (100_000, false)] {
        assert_eq!(parse(deep("[", "]", levels).as_bytes()).is_ok(), fine, "{levels}");
        assert_eq!(parse(deep("{\"a\":", "}", levels).as_bytes()).is_ok(), fine, "{levels}");
    }
}

#[test]
fn deep_nesting_overflows_no_stack_in_either_path() {
    on_a_small_stack(|| {
        for (open, close) in [("[", "]"), ("{\"id\":", "}"), ("[{\"a\":", "}]")] {
            let text = format!("{{\"x\":{0},\"id\":{0},\"y\":2}}", deep(open, close, 100_000));
            let wanted = Wanted::new(&["id", "id.id.id", "y"].map(|path| Path::parse(path).unwrap()));
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
            let text = format!("{{\"id\":{}", open.repeat(100_000));
            let wanted = Wanted::new(&[Path::parse("id").unwrap()]);
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
