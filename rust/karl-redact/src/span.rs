//! Parts of a row of JSON that are replaced.

use memchr::{memchr, memchr2};

/// Part of a text, and the name that replaces it.
pub(crate) struct Span {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) name: String,
}

/// Return the text with each span replaced, the first of those that overlap.
pub(crate) fn joined(text: &str, spans: &[Span]) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut at = 0;
    for span in spans {
        if span.from >= at {
            clean.push_str(&text[at..span.from]);
            clean.push_str(&span.name);
            at = span.to;
        }
    }
    clean + &text[at..]
}

/// Leave out the spans, which are in order, that are outside of the strings of a row, or a key as a whole.
pub(crate) fn keep_structure(row: &str, spans: &mut Vec<Span>) {
    let mut string = (0, 0);
    spans.retain(|span| {
        while string.1 < span.to {
            match string_after(row.as_bytes(), string.1) {
                Some(next) => string = next,
                None => return false,
            }
        }
        let is_whole = (span.from, span.to) == string;
        span.from >= string.0 && !(is_whole && row[string.1 + 1..].trim_start().starts_with(':'))
    });
}

/// Return the first and last byte of the content of the next string after the end of another.
fn string_after(row: &[u8], end: usize) -> Option<(usize, usize)> {
    let begin = if end == 0 { 0 } else { end + 1 };
    let from = begin + memchr(b'"', &row[begin..])? + 1;
    let mut at = from;
    loop {
        at += memchr2(b'"', b'\\', &row[at..])?;
        if row[at] == b'"' {
            return Some((from, at));
        }
        at += 2; // an escape
    }
}
