//! Private keys between their marks, `-----BEGIN ... PRIVATE KEY-----`: only if the content looks like a key.

mod body;
mod frame;
mod marks;
mod quoted_lines;

use self::body::{Body, LINE, run};
use self::frame::LineFrame;
use self::marks::{END, End, begin, window};
pub(super) use self::quoted_lines::{QuotedKeyReader, is_mentioned};
use super::secret::Secret;

/// Begin and end marks of a key in all encodings.
pub(super) const SIGNS: [&str; 7] = [
    "-----BEGIN ",
    "-----BEGIN+",
    "-----BEGIN%20",
    "-----BEGIN%2520",
    "---- BEGIN SSH2",
    "Private-Lines:",
    "-----END ",
];

const FAMILY: &str = "private-key";

/// Rank of a key: its form takes precedence over a name.
const RANK: usize = 0;

/// Minimum characters of base64 in a key between both marks.
const FEWEST: usize = 16;

/// Find the key with its begin mark at a position; return the position at which to continue.
pub(super) fn key(text: &str, from: usize, found: &mut Vec<Secret>) -> usize {
    let Some((length, last)) = begin(text, from) else { return end_alone(text, from, found) };
    let frame = LineFrame::around(text, from, from + length);
    let mut body = Body::read(text, from + length, &frame, last);
    if body.end.is_none() {
        body.trim();
    }
    let span = |body: &Body| (body.runs[0].0, body.runs[body.runs.len() - 1].1);
    match (body.end, last) {
        (Some(end), End::Mark) if body.size() >= FEWEST && !body.quoted => {
            found.push(Secret::new(from, end, FAMILY, RANK));
        }
        (Some(_), End::Mark) if body.size() >= FEWEST => parts(&body.runs, found),
        (_, _) if (body.is_key(text) || is_short(&body, last)) && !body.quoted => {
            let (first, last) = span(&body);
            found.push(Secret::new(first, last, FAMILY, RANK));
        }
        (_, _) if body.is_key(text) || is_short(&body, last) => parts(&body.runs, found),
        _ => {}
    }
    body.end.unwrap_or(body.at).max(from)
}

/// Return whether the lines are those of a short key of `PuTTY`, one line of which may be all: its mark names the number.
fn is_short(body: &Body, last: End) -> bool {
    matches!(last, End::Putty) && body.size() >= if body.end.is_some() { FEWEST } else { LINE }
}

/// Find the lines of a key before its end mark, if the begin mark is missing.
fn end_alone(text: &str, from: usize, found: &mut Vec<Secret>) -> usize {
    if END.is_match(window(text, from)) {
        let frame = LineFrame::around(text, from, from);
        let mut body = Body { runs: Vec::new(), quoted: false, end: None, at: from };
        let mut at = text[..from].rfind('\n').unwrap_or(0);
        while at > 0 {
            let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
            let line = &text[start..at];
            let lead = frame
                .lead_of(line)
                .unwrap_or(line.len() - line.trim_start_matches([' ', '\t', '+', '-', '>']).len());
            let length = run(&line[lead..]);
            if !line[lead + length..].trim().is_empty()
                || length < if body.runs.is_empty() { 4 } else { LINE }
            {
                break;
            }
            body.runs.insert(0, (start + lead, start + lead + length));
            at = start.saturating_sub(1);
        }
        if body.is_key(text) {
            found.push(Secret::new(body.runs[0].0, body.runs[body.runs.len() - 1].1, FAMILY, RANK));
        }
    }
    from
}

/// Add one secret in several quoted lines: the first is replaced, the others removed, and the quotes stay.
fn parts(runs: &[(usize, usize)], found: &mut Vec<Secret>) {
    let secret = |(index, &(from, to)): (usize, &(usize, usize))| Secret {
        part: index > 0,
        ..Secret::new(from, to, FAMILY, RANK)
    };
    found.extend(runs.iter().enumerate().map(secret));
}
