//! JSON text copied unchanged from a transcript to a trajectory, without parsing it into values.
//!
//! Buys, with the rest of `convert`, 385 MB/s on one thread (`benches/record/convert.json`).

use std::borrow::Cow;

use karl_log::json::duplicate_keys::find_duplicate_key;
use karl_log::json::reference_parser;

use super::report::Made;

/// Separator of joined texts.
const LINE_BREAK: &[u8] = b"\\n";

/// Return the content of a JSON string; empty if it is not a string.
pub(super) fn inside(raw: &[u8]) -> &[u8] {
    raw.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or_default()
}

/// Append the content of a JSON string to another on a new line; an empty one adds nothing.
pub(super) fn join(text: &mut Vec<u8>, more: &[u8]) {
    if !text.is_empty() && !more.is_empty() {
        text.extend_from_slice(LINE_BREAK);
    }
    text.extend_from_slice(more);
}

/// Return a text as the content of a JSON string.
pub(super) fn escaped(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    escape(text.as_bytes(), &mut out);
    out
}

/// Write a text as the content of a JSON string.
pub(super) fn escape(text: &[u8], out: &mut Vec<u8>) {
    let mut copied = 0;
    for (at, &byte) in text.iter().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&text[copied..at]);
        copied = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(LINE_BREAK),
            b'\t' => out.extend_from_slice(b"\\t"),
            other => out.extend_from_slice(format!("\\u{other:04x}").as_bytes()),
        }
    }
    out.extend_from_slice(&text[copied..]);
}

/// Return a value that the reference parser accepts, with `U+FFFD` for halves of surrogate pairs and for
/// invalid UTF-8: a tool that truncates its output leaves such bytes. None if it is damaged otherwise.
pub(super) fn sound(raw: &[u8]) -> Option<Cow<'_, [u8]>> {
    if reference_parser::check(raw).is_ok() {
        return Some(Cow::Borrowed(raw));
    }
    let mended = whole_pairs(&String::from_utf8_lossy(raw)).into_bytes();
    reference_parser::check(&mended).is_ok().then_some(Cow::Owned(mended))
}

/// Return a whole record like [`sound`]. Repairs and duplicate keys are noted; the last duplicate counts.
pub(super) fn mended<'r>(raw: &'r [u8], made: &mut Made) -> Option<Cow<'r, [u8]>> {
    let sound = sound(raw);
    if sound.as_deref().and_then(find_duplicate_key).is_some() {
        made.note("duplicate_keys");
    }
    if matches!(sound, Some(Cow::Owned(_))) {
        made.note("mended");
    }
    sound
}

/// Return the text with `\ufffd` for each escape that is half of a pair.
fn whole_pairs(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match (half(rest), half(rest.get(6..).unwrap_or_default())) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                out.push_str("\\ufffd");
                rest = &rest[6..];
                continue;
            }
            _ => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out + rest
}

/// Return the number of the escape `\uXXXX` at the start of a text.
fn half(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_a_string_reads_back() {
        let text = "a\"b\\c\nd\te\u{1}\u{7f}ü\u{2028}";
        let quoted = [b"\"", &escaped(text)[..], b"\""].concat();
        assert_eq!(serde_json::from_slice::<String>(&quoted).unwrap(), text);
    }

    #[test]
    fn halves_of_pairs_are_replaced_and_whole_pairs_stay() {
        for (raw, wanted) in [
            (r#""\ud83d\ude00""#, Some(r#""\ud83d\ude00""#)),
            (r#""a\ud83d""#, Some(r#""a\ufffd""#)),
            (r#""\ude00\ud83d\ude00\\ud83d\\""#, Some(r#""\ufffd\ud83d\ude00\\ud83d\\""#)),
            (r#""\ud83dü""#, Some(r#""\ufffdü""#)),
            (r#""\ud8"#, None),
            (r#"{"a":1"#, None),
        ] {
            assert_eq!(sound(raw.as_bytes()).as_deref(), wanted.map(str::as_bytes), "{raw}");
        }
        assert_eq!(sound(b"\"a\xff\"").unwrap(), "\"a\u{fffd}\"".as_bytes());
    }
}
