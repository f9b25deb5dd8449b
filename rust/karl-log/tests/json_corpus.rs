//! What the trusted parser takes for JSON, text by text: a document of our own for every kind in `JSONTestSuite`
//! (<https://github.com/nst/JSONTestSuite>), which `json_test_suite.rs` reads itself where there is a copy.
#![allow(clippy::unwrap_used, reason = "a helper that fails, fails its test")]

use std::thread;

use karl_log::json::project::{Path, PathTree, scan};
use karl_log::json::reference::{lookup, parse};
use karl_log::json::scalar::{Name, Reward, name, reward};

const ACCEPTED: &[&[u8]] = &[
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
    b"[\"\"]",
    b"[true,false]\r\n",
    b"[1e-2,1E-2,1.5E+3,0e+1]",
    b"[-0.000000000000000000000000000000000000000000000000000000000000000000000000001]",
    b"[1.7976931348623157e308,-5e-324]",
    b"{\"a\":1,\"a\":1}",
    b"{\"a\\u0000b\":0}",
    b"{\"\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87\":\"\xe6\x97\xa5\"}",
    b"{\n\"a\":\n1\n}",
    b"\"//no comment/*here*/\"",
    b"\"\\\\n\\\\a\"",
    b"\"\\u0012\\u000a\\u0022\\u005C\"",
    b"\"\\uFDD0\\uDBFF\\uDFFE\\u200B\\u2064\\u00A0\"",
    b"\"\xef\xbf\xbf\xef\xb7\x90\xf0\x9b\xbf\xbf\xf4\x8f\xbf\xbe\"",
    b"\"\xc2\xa0\xe2\x80\xa9\xcf\x80\"",
];

const REJECTED: &[&[u8]] = &[
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
    b"[3[4]]",
    b"[1;2]",
    b"[1:2]",
    b"[*]",
    b"[-]",
    b"[ ,2]",
    b"[1],",
    b"[1\xff]",
    b"[\xe5]",
    b"[1,\n2\n",
    b"[\"a\x0bb\",\x0c]",
    b"[x",
    b"[1,{",
    b"[fals",
    b"[nul]",
    b"[tru]",
    b"[\"a",
    b"[\"a\"",
    b"['",
    b"[][]",
    b"[1]x",
    b"[<null>]",
    b"<.>",
    b"[,",
    b"\x00",
    b"7\x00",
    b"[\x00]",
    b"7@",
    b"7a",
    b"++7",
    b"-1.0.",
    b"-2.",
    b".-1",
    b"-.5",
    b"-foo",
    b"- 1",
    b"1+2",
    b"0.1.2",
    b"0.3e",
    b"0.3e+",
    b"1.0e-",
    b"1eE2",
    b"2.e-3",
    b"0x1",
    b"1.2a-3",
    b"1.5H-9",
    b"\xef\xbc\x91",
    b"1\xe5",
    b"1e1\xe5",
    b"-Inf",
    b"-1x",
    b"{\"a\",1}",
    b"{:1}",
    b"{[:1}",
    b"{\"a\"}",
    b"{\"a\":}",
    b"{\"a\":1,,\"b\":2}",
    b"{\"a\":1,,}",
    b"{null:null,null:null}",
    b"{9999e9999:1}",
    b"{\xf0\x9f\x92\xa5}",
    b"{\"\xb9\":1,}",
    b"{\"a\":\"b",
    b"{\"a\":{\"b\"",
    b"{\"a\":1}}",
    b"{\"a\":1}#",
    b"{\"a\":1}/**/",
    b"{\"a\":1}/*",
    b"{\"a\":1}//",
    b"{\"a\":1}/",
    b"{\"a\":/*c*/1}",
    b"{\"a\":1 x}",
    b"{\"a\":truth}",
    b"{'a'",
    b"{\"a",
    b"{[",
    b"[\"\\{[\"\\{",
    b"'a'",
    b"\"\"x",
    b"a",
    b"*",
    b"\xc3\xa9",
    b"a\xc3\xa5",
    b"[\\n]",
    b"\\u0020\"a\"",
    b"\"\\",
    b"\"\\a\"",
    b"\"\\U1234\"",
    b"\"\\\x00\"",
    b"\"\\\t\"",
    b"\"\\\xf0\x9f\x92\xa5\"",
    b"\"\\\xe5\"",
    b"\"\\u\xe5\"",
    b"\"\\uqqqq\"",
    b"\"\\uD800\\\"",
    b"\"\\uD800\\u\"",
    b"\"\\uD800\\u1\"",
    b"\"\\uD834\\uDd\"",
    b"\"\\uDd1e\\uD834\"",
    b"\"\\uD800\\uD800\\n\"",
    b"\"\x1f\"",
    b"\"\t\"",
    b"\"\xe9\"",
    b"\"\x80\"",
    b"\"\xe6\x97\"",
    b"\"\xf4\xbf\xbf\xbf\"",
    b"\"\xfc\x83\xbf\xbf\xbf\xbf\"",
    b"\xff\xfe[\x00]\x00",
    b"\x00[\x00]",
    b"\xef\xbb\xbf",
    b"\xef\xbb",
    b"\xe2\x81\xa0",
    b"[\xe2\x81\xa0]",
    b"[\x0c]",
    b"\xe5",
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
            assert!(!taken(raw(1)) || reward(raw(1)) == Reward::NotANumber, "{}", record.escape_ascii());
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
