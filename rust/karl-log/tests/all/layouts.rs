//! How a file may hold its records, and what happens to what is not where it should be.

use karl_log::detect::FileLayout;
use karl_log::{Error, Log};
use serde_json::{Value, json};

use crate::logs::{self, bad, balanced, log, settings, try_read};

const ROWS: [&str; 3] = [
    r#"{"id":"a","group":"g","reward":0.5,"messages":[{"role":"user","content":"]}"}]}"#,
    r#"{"id":"b","group":"g","reward":1}"#,
    r#"{"id":"c","group":"h","reward":null}"#,
];

fn values() -> Vec<Value> {
    ROWS.iter().map(|row| serde_json::from_str(row).unwrap()).collect()
}

fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

/// The three rows, read from any layout: ids, groups and rewards, without the bytes.
fn same_rows(text: &str, layout: &FileLayout) -> Log {
    let (lines, log) = (log(ROWS.join("\n")), log(text));
    assert_eq!(&log.inputs[0].layout, layout, "{text}");
    assert_eq!((&log.keys, log.group.codes()), (&lines.keys, lines.group.codes()), "{text}");
    assert!(
        log.components[0]
            .iter()
            .map(|value| value.to_bits())
            .eq(lines.components[0].iter().map(|value| value.to_bits()))
    );
    assert!(balanced(&log));
    log
}

fn layout_error(text: &str) -> String {
    match try_read(&[text], &settings()) {
        Err(Error::Layout { problem, .. }) => problem,
        other => format!("no error: {other:?}"),
    }
}

fn member() -> FileLayout {
    FileLayout::Member("results".to_owned())
}

#[test]
fn an_array_on_one_line_or_many_holds_its_elements() {
    for text in
        [format!("[{}]", ROWS.join(",")), pretty(&values()), format!("\n [\n{}\n]\n", ROWS.join(" ,\r\n"))]
    {
        assert_eq!(bad(&same_rows(&text, &FileLayout::Array)), []);
    }
}

#[test]
fn an_object_may_hold_its_records_under_any_of_its_keys() {
    let inner = values();
    for document in [
        json!({"results": inner}),
        json!({"results": inner, "version": 2, "tags": ["x", "]"], "nested": {"results": [1]}}),
        json!({"version": "1", "empty": [], "numbers": [1, 2], "objects": [{"a": 1}], "results": inner}),
    ] {
        assert_eq!(bad(&same_rows(&pretty(&document), &member())), []);
        assert_eq!(bad(&same_rows(&document.to_string(), &member())), []);
    }
}

#[test]
fn an_object_with_two_such_arrays_is_refused_by_naming_both() {
    let problem = layout_error(&pretty(&json!({"train": values(), "n": 1, "test": values()})));
    assert!(problem.contains("train") && problem.contains("test"), "{problem}");
}

#[test]
fn a_document_of_many_lines_that_holds_no_records_is_refused() {
    for (document, held) in [
        (json!({"name": "x", "scripts": {"a": 1}}), &["name", "scripts"][..]),
        (json!({"list": [1, 2]}), &["list"]),
    ] {
        let refused = try_read(&[pretty(&document)], &settings()).unwrap_err();
        assert!(refused.to_string().contains("neither"), "{refused}");
        assert!(matches!(refused, Error::Document { keys, .. } if keys == held));
    }
}

#[test]
fn one_record_over_many_lines_is_one_record() {
    let log = log(pretty(&values()[0]));
    assert_eq!((log.len(), &log.inputs[0].layout, log.group.name(0)), (1, &FileLayout::Values, Some("g")));
}

#[test]
fn records_over_many_lines_may_follow_each_other() {
    let text: String = values().iter().map(pretty).collect::<Vec<_>>().join("\n");
    assert_eq!(bad(&same_rows(&text, &FileLayout::Values)), []);
}

#[test]
fn one_record_on_one_line_is_a_file_of_lines_even_if_it_is_a_poor_one() {
    for text in [ROWS[0], r#"{"id":"a"}"#, "{}", r#"{"id":"a","tags":["x"]}"#] {
        for end in ["", "\n", "\n\n"] {
            let log = log(format!("{text}{end}"));
            assert_eq!((log.len(), &log.inputs[0].layout), (1, &FileLayout::Lines), "{text}");
        }
    }
}

#[test]
fn what_holds_nothing_has_no_rows_and_one_component() {
    for text in ["", "\n", " \r\n\t\n", "\u{feff}", "[]", " [ ] \n"] {
        let log = log(text);
        assert_eq!((log.len(), logs::bad_count(&log), log.components.len()), (0, 0, 1), "{text:?}");
    }
    assert_eq!(try_read(&[""; 0], &settings()).unwrap().components.len(), 1);
}

#[test]
fn lines_whose_first_is_torn_are_lines() {
    let torn = [
        r#"{"id":"z","x":"abc"#,
        r#"{"id":"z","x":"#,
        r#"{"id":"z","x":[{"y":"#,
        "{",
        r#"{"id"#,
        r#"{"id":"z","x":tr"#,
    ];
    for first in torn {
        let log = same_rows(&format!("{first}\n{}\n", ROWS.join("\n")), &FileLayout::Lines);
        assert_eq!(bad(&log), [("malformed", 1)], "{first}");
    }
}

#[test]
fn talk_before_the_first_record_hides_none() {
    for (talk, words) in [("[INFO] started", 1), ("[1, 2]", 1), ("[]", 0), ("# log", 1), ("null", 1)] {
        let log = log(format!("{talk}\n{}\n", ROWS.join("\n")));
        assert_eq!((log.len(), logs::bad_count(&log)), (3, words), "{talk}");
        assert!(balanced(&log));
    }
}

#[test]
fn what_follows_an_array_is_counted_or_read() {
    let array = format!("[{},{}]", ROWS[0], ROWS[1]);
    let log = log(format!("{array}\n{}\n{array} x", ROWS[2]));
    assert_eq!((log.len(), bad(&log)), (5, vec![("not_an_object", 6)]));
}

#[test]
fn a_directory_and_a_missing_file_are_errors() {
    let folder = logs::folder();
    let open = |path: &std::path::Path| karl_log::input::source::Source::open(path, "x");
    assert!(matches!(open(folder.path()), Err(Error::Layout { .. })));
    assert!(matches!(open(&folder.path().join("none")), Err(Error::Io { doing: "open", .. })));
}
