//! Records in lines, in arrays and over many lines, all in one file: every one is read, however the file is cut.

use karl_log::Log;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::logs::{
    bad, bad_count, balanced, columns, fixed, gzip, log, log_in_ranges, log_with, settings, zstd,
};

/// How some records stand in a file.
#[derive(Clone, Copy, Debug)]
enum Form {
    Lines,
    Array,
    LineAnElement,
    PrettyArray,
    PrettyObjects,
    Arrays,
    Nested,
    Commas,
    Lf,
}

const FORMS: [Form; 9] = [
    Form::Lines,
    Form::Array,
    Form::LineAnElement,
    Form::PrettyArray,
    Form::PrettyObjects,
    Form::Arrays,
    Form::Nested,
    Form::Commas,
    Form::Lf,
];

/// What stands between two parts; one that ends without a line end must not end in a number or a word.
const BETWEEN: [&str; 6] = ["\n", "\r\n", "\n\n", "\n \t\n", "", " "];

fn record(at: usize) -> Value {
    let text = "né\"]},{[ ".repeat(at % 7);
    json!({"id": format!("r{at}"), "group": at % 3, "reward": 0.25 * (at % 5) as f64,
        "messages": [{"role": "user", "content": text}, {"role": "assistant", "content": [], "n": {}}]})
}

fn write(form: Form, records: &[Value]) -> String {
    let lines: Vec<String> = records.iter().map(Value::to_string).collect();
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap();
    match form {
        Form::Lines => lines.join("\n"),
        Form::Array => format!("[{}]", lines.join(", ")),
        Form::LineAnElement => format!("[\n{}\n]", lines.join(",\n")),
        Form::PrettyArray => pretty(&records.into()),
        Form::PrettyObjects => records.iter().map(pretty).collect::<Vec<_>>().join("\n"),
        Form::Arrays => format!("[{}]", lines.join("][")),
        Form::Nested => format!("[[{}], [], [{}]]", lines[0], lines[1..].join(",")),
        Form::Commas => lines.join(",\n"),
        Form::Lf => pretty(&records.into()).replace('\n', "\r\n"),
    }
}

/// Parts, each with what comes before it, and all their records as lines.
fn file(parts: &[(Form, usize, usize, bool)]) -> (String, String) {
    let (mut text, mut rows) = (String::new(), Vec::new());
    for &(form, count, between, mark) in parts {
        let records: Vec<Value> = (rows.len()..rows.len() + count).map(record).collect();
        text += if text.is_empty() { "" } else { BETWEEN[between] };
        text += if mark { "\u{feff}" } else { "" };
        text += &write(form, &records);
        rows.extend(records);
    }
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    (text, lines.join("\n"))
}

/// The names and rewards of all rows.
fn names(log: &Log) -> impl PartialEq + std::fmt::Debug + use<> {
    let rewards: Vec<u64> = log.components[0].iter().map(|value| value.to_bits()).collect();
    (log.keys.clone(), rewards, log.group.codes().to_vec(), log.group.names().clone())
}

proptest! {
    #![proptest_config(fixed(300))]

    #[test]
    fn every_record_of_a_mixture_is_read_wherever_it_is_cut(
        parts in prop::collection::vec(
            (prop::sample::select(FORMS.to_vec()), 1_usize..5, 0..BETWEEN.len(), any::<bool>()), 1..6,
        ),
        range in 1_u64..400, threads in 1_usize..5,
    ) {
        let (text, lines) = file(&parts);
        let whole = log(&text);
        prop_assert_eq!(names(&whole), names(&log(&lines)), "{}", text);
        prop_assert_eq!(bad(&whole), vec![], "{}", text);
        for cut in [log_in_ranges(&text, range, threads), log(gzip(text.as_bytes())), log(zstd(text.as_bytes()))] {
            prop_assert_eq!(columns(&cut), columns(&whole), "{}", text);
            prop_assert_eq!((bad_count(&cut), balanced(&cut)), (0, true));
        }
    }

    #[test]
    fn damage_to_a_mixture_is_counted_and_the_same_wherever_it_is_cut(
        parts in prop::collection::vec(
            (prop::sample::select(FORMS.to_vec()), 1_usize..5, 0..BETWEEN.len(), any::<bool>()), 1..6,
        ),
        at in any::<prop::sample::Index>(), cut in 0_usize..40,
        put in prop::sample::select(vec!["", "\"", "\\", "{", "}", "[", "]", ",", "\n", "x", "[INFO] a [b] c\n", "null"]),
        range in 1_u64..400, threads in 1_usize..5,
    ) {
        let mut text = file(&parts).0.into_bytes();
        let at = at.index(text.len());
        text.splice(at..text.len().min(at + cut), put.bytes());
        let whole = log(&text);
        for other in [log_in_ranges(&text, range, threads), log(gzip(&text))] {
            prop_assert_eq!(columns(&other), columns(&whole), "{}", String::from_utf8_lossy(&text));
            prop_assert_eq!(bad(&other), bad(&whole), "{}", String::from_utf8_lossy(&text));
            prop_assert!(balanced(&other));
        }
    }
}

/// `{"id": "a"}`, and so on.
fn rows(ids: &str) -> Vec<String> {
    ids.chars().map(|id| format!(r#"{{"id": "{id}", "reward": 1, "text": "x"}}"#)).collect()
}

#[test]
fn an_array_that_is_cut_off_loses_none_of_the_lines_after_it() {
    let row = rows("abcdef");
    for torn in [
        format!("[{},{}", row[0], row[1]),
        format!("[{},{},{{\"id\": \"z\", \"x\": \"to", row[0], row[1]),
        format!("[\n  {},\n  {},\n  {{\n    \"id\": \"z\",\n    \"x\": {{\"y", row[0], row[1]),
        format!("[\n  {},\n  {},\n  {{\n    \"id\": \"z\",\n    \"x\": [1,", row[0], row[1]),
    ] {
        for before in ["", &format!("{}\n", row[2])] {
            let text = format!("{before}{torn}\n{}\n{}\n[{}]\n", row[3], row[4], row[5]);
            for range in [1, 7, 50, 1 << 20] {
                let log = log_in_ranges(&text, range, 3);
                let read = 5 + usize::from(!before.is_empty());
                assert_eq!(log.len(), read, "{text}: {:?}", bad(&log));
                assert!((1..3).contains(&bad_count(&log)), "{text}: {:?}", bad(&log));
            }
        }
    }
}

#[test]
fn lines_of_bad_rows_are_those_of_the_file() {
    let row = rows("abcdef");
    let text = format!(
        "{}\n[{},\n{},\n 7,\n{}]\nnull\n\n{{\n}}\n[0]\n{}\nx\n",
        row[0], row[1], row[2], row[3], row[4]
    );
    for range in [1, 40, 1 << 20] {
        let log = log_in_ranges(&text, range, 2);
        assert_eq!(
            bad(&log),
            [("not_an_object", 4), ("not_an_object", 6), ("not_an_object", 10), ("not_an_object", 12)]
        );
        assert_eq!(log.len(), 6);
    }
}

#[test]
fn an_array_may_be_longer_than_a_line_may() {
    let rows: Vec<String> = (0..400).map(|at| record(at).to_string()).collect();
    let mut limited = settings();
    limited.wishes.max_line_bytes = 1000;
    for text in [
        format!("{}\n[{}]\n{}", rows[0], rows[1..].join(","), rows[0]),
        format!("\n[{}]\n[{}]", rows[0], rows[1..].join(",")),
        format!("[1, 2]\n\u{feff}[{}]", rows.join(",")),
    ] {
        for text in [text.as_bytes().to_vec(), gzip(text.as_bytes())] {
            let log = log_with(&[text], &limited);
            assert!(log.len() >= 400 && bad_count(&log) < 2, "{} {:?}", log.len(), bad(&log));
        }
    }
}

#[test]
fn parts_of_a_damaged_record_are_no_records() {
    let pretty = "{\n  \"id\": \"a\",\n  \"messages\": [\n    {\n      \"id\": \"inner\"\n    }\n  ],,\n}";
    for (text, count) in
        [(format!("{}\n{pretty}\n{}", rows("b")[0], rows("c")[0]), 2), (format!("[{pretty}]"), 0)]
    {
        let log = log_in_ranges(&text, 30, 2);
        assert_eq!(log.len(), count, "{text}");
        assert!(bad_count(&log) > 0);
    }
}

#[test]
fn words_in_brackets_at_the_start_of_a_line_are_no_array() {
    let row = rows("ab");
    for words in
        ["[INFO] started {\"id\": 1}", "[1, 2, \"x\"]", "[2026-01-01 12:00:00] run", "[x", "[null, 3"]
    {
        let text = format!("{}\n{words}\n{}\n", row[0], row[1]);
        let log = log_in_ranges(&text, 8, 2);
        assert_eq!((log.len(), bad(&log)[0]), (2, ("not_an_object", 2)), "{words}");
    }
}
