//! Private keys: whole, cut off, quoted and only mentioned.

use serde_json::json;

use super::{counts, hex, many, raw};
use crate::logs;

/// Lines of base64 as a key has them.
fn lines(count: usize, end: &str) -> String {
    (0..count).map(|line| many(63) + &line.to_string() + end).collect()
}

#[test]
fn a_mention_of_a_private_key_takes_nothing_with_it() {
    let begin = ["-----BEGIN RSA ", "PRIVATE KEY-----"].concat();
    let end = ["-----END RSA ", "PRIVATE KEY-----"].concat();
    for text in [
        format!("look for `{begin}` in the files, then answer"),
        format!("grep -l '{begin}' *\nid_rsa\nthe rest of it"),
        format!("{begin}\n...\n{end} is how it looks"),
        format!("if text.startswith(\"{begin}\"):\n    return load(text)\n"),
        format!("{begin} and much later\n{end}"),
    ] {
        let record = json!({"text": text});
        assert_eq!(logs::first(&raw(&record)), record.to_string(), "{text}");
    }
}

#[test]
fn a_private_key_is_replaced_however_its_lines_are_written() {
    let begin = ["-----BEGIN RSA ", "PRIVATE KEY-----"].concat();
    let end = ["-----END RSA ", "PRIVATE KEY-----"].concat();
    for line in [
        "\n",
        "\r\n",
        "\\n",
        "\\\\n",
        "\\r\\n",
        "\n+",
        "\n-",
        "\n    ",
        "\n   12\u{2192}",
        "\n12: ",
        "\n> ",
        "%0A",
    ] {
        let key = format!("{begin}{line}{}{end}", lines(6, line));
        let draft = raw(&json!({"text": format!("a {key} b")}));
        assert_eq!(
            logs::first(&draft),
            json!({"text": "a [REDACTED:private-key] b"}).to_string(),
            "{line:?}"
        );
        assert_eq!(counts(&draft), [("private-key", 1)], "{line:?}");
    }
    let header = format!(
        "{begin}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{}\n\n{}{end}",
        hex(32),
        lines(6, "\n")
    );
    assert_eq!(counts(&raw(&json!({"text": header}))), [("private-key", 1)]);
}

#[test]
fn of_a_private_key_without_an_end_only_its_body_is_replaced() {
    let begin = ["-----BEGIN RSA ", "PRIVATE KEY-----"].concat();
    let text = format!("{begin}\n{}\nthe output was cut here", lines(5, "\n"));
    let draft = raw(&json!({"text": text}));
    let clean = format!("{begin}\n[REDACTED:private-key]\n\nthe output was cut here");
    assert_eq!(logs::first(&draft), json!({"text": clean}).to_string());
}

#[test]
fn a_private_key_in_quoted_lines_keeps_its_quotes() {
    let begin = ["-----BEGIN RSA ", "PRIVATE KEY-----"].concat();
    let end = ["-----END RSA ", "PRIVATE KEY-----"].concat();
    let lines: Vec<String> = (0..3).map(|line| format!("{}{line}", many(63))).collect();
    let text = json!([begin, lines[0], lines[1], lines[2], end, "next"]).to_string();
    let draft = raw(&json!({"text": format!("see {text}")}));
    let clean = json!([begin, "[REDACTED:private-key]", "", "", end, "next"]).to_string();
    assert_eq!(logs::first(&draft), json!({"text": format!("see {clean}")}).to_string());
    assert_eq!(counts(&draft), [("private-key", 1)]);
}
