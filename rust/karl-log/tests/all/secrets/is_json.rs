//! What redaction takes for JSON is what the reader of logs accepts.

use karl_log::json::reference_parser::check;
use karl_redact::secrets::is_json;
use proptest::prelude::*;
use proptest::sample::{Index, select};

fn is_equal(text: &str) {
    assert_eq!(is_json(text), check(text.as_bytes()).is_ok(), "{text:?}");
}

#[test]
fn texts_by_hand_are_judged_as_the_reader_judges_them() {
    let accepted = [
        "{}",
        " [ ] ",
        "\t{\"a\" : [1, -0.5e+7, 1E400, true, false, null, \"\"] ,\r\n\"b\":{}}",
        "NaN",
        "[NaN, -Infinity,Infinity]",
        r#"{"a":NaN,"a":1}"#,
        r#""\ud83d\ude00 \" \\ \/ \b\f\n\r\t \u00Ff é""#,
        r#"{"$serde_json":1,"\u0024":2,"x":"$serde_json::private::Number"}"#,
        "123456789012345678901234567890",
        "-0",
    ];
    for text in accepted {
        assert!(is_json(text), "{text}");
        is_equal(text);
    }
    let refused = [
        "",
        " ",
        "{",
        "[1,]",
        "[,1]",
        "{,}",
        r#"{"a":1,}"#,
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a" 1}"#,
        "{1:2}",
        "{NaN:1}",
        "[1}",
        "[1 2]",
        "1,",
        "1 2",
        "01",
        "1.",
        ".1",
        "1e",
        "+1",
        "-",
        "-NaN",
        "NaNa",
        "NaNNaN",
        "nan",
        "Inf",
        "tru",
        "truex",
        "\u{feff}1",
        "\u{a0}1",
        "\u{b}1",
        "\"a\nb\"",
        "\"\u{1f}\"",
        r#""abc"#,
        r#""a""b""#,
        r#""\x""#,
        r#""\u00g0""#,
        r#""\u+123""#,
        r#""\u12é""#,
        r#""\ud83d""#,
        r#""\ud83dxude00""#,
        r#""\ude00""#,
        r#""\ud83d\u0041""#,
        r#"{"$serde_json::private::Number":"1"}"#,
        r#"{"a":[{"\u0024serde_json::private::RawValue":"1"}]}"#,
    ];
    for text in refused {
        assert!(!is_json(text), "{text}");
        is_equal(text);
    }
}

#[test]
fn nesting_ends_where_the_reader_ends() {
    for depth in [1, 126, 127, 128, 129, 100_000] {
        let arrays = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let objects = format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        for text in [&arrays, &objects, &arrays.replacen("[]", "[{}]", 1)] {
            assert_eq!(is_json(text), check(text.as_bytes()).is_ok(), "{depth}");
        }
        assert_eq!(is_json(&arrays), depth <= 127, "{depth}");
    }
}

proptest! {
    #[test]
    fn pieces_of_json_in_any_order_are_judged_as_the_reader_judges_them(
        pieces in prop::collection::vec(
            select(vec![
                "{", "}", "[", "]", ",", ":", "\"", "\"a\"", "\"a\":", "\\", "\\u", "d83d", "1", "0", "-", ".", "e", "+", " ",
                "\n", "NaN", "Infinity", "null", "é", "\u{1}", "$serde_json::private::",
            ]),
            0..12,
        ),
    ) {
        is_equal(&pieces.concat());
    }

    #[test]
    fn a_changed_row_is_judged_as_the_reader_judges_it(
        at in any::<Index>(),
        cut in 0_usize..3,
        put in select(vec!["", "\"", "\\", "{", "}", "[", "]", ",", ":", "0", "-", ".", "e", " ", "\n", "a", "NaN", "\\ude00"]),
    ) {
        let row = r#"{"a":[1,-2.5e3,{"b":"x\n\ud83d\ude00"},[]],"c":NaN,"d":{},"e":"","f":[true,null,"y"]}"#;
        let mut other = row.to_owned();
        let at = at.index(row.len());
        other.replace_range(at..row.len().min(at + cut), put);
        is_equal(&other);
    }
}
