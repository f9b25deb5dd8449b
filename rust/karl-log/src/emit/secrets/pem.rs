//! Private keys between their marks, `-----BEGIN ... PRIVATE KEY-----`: only what looks like a key is one.

use std::sync::LazyLock;

use regex::Regex;

use super::search::{Secret, floor};

/// What a key begins with, as encodings spell it.
pub(super) const SIGNS: [&str; 3] = ["-----BEGIN ", "-----BEGIN+", "-----BEGIN%20"];

const FAMILY: &str = "private-key";

/// A key is told by its form from everything that has a name only.
const RANK: usize = 0;

/// How long a key is, at most.
const LONGEST: usize = 1 << 16;

/// How many characters of base64 a key between both marks has, at least.
const FEWEST: usize = 16;

/// How many in one line tell a key whose end is missing, and in how many lines, unless one is much longer.
const LINE: usize = 40;

#[expect(clippy::expect_used, reason = "without its patterns nothing may be written")]
static MARKS: LazyLock<[Regex; 2]> = LazyLock::new(|| {
    let name = |word: &str| {
        let text = format!(
            r"\A-----{word}(?:[ +]|%20)(?:[A-Z0-9]+(?:[ +]|%20)){{0,4}}PRIVATE(?:[ +]|%20)KEY(?:(?:[ +]|%20)BLOCK)?-----"
        );
        Regex::new(&text).expect("a valid pattern")
    };
    [name("BEGIN"), name("END")]
});

/// Finds the key whose first mark stands at a place; where the search for the next may go on.
pub(super) fn key(text: &str, from: usize, found: &mut Vec<Secret>) -> usize {
    let Some(begin) = MARKS[0].find(window(text, from)) else { return from };
    let body = Body::read(text, from + begin.end());
    let size: usize = body.runs.iter().map(|run| run.1 - run.0).sum();
    match body.end {
        Some(end) if size >= FEWEST && !body.quoted => found.push(Secret::new(from, end, FAMILY, RANK)),
        Some(_) if size >= FEWEST => parts(&body.runs, found),
        None if body.is_key(text) && !body.quoted => {
            let (first, last) = (body.runs[0].0, body.runs[body.runs.len() - 1].1);
            found.push(Secret::new(first, last, FAMILY, RANK));
        }
        None if body.is_key(text) => parts(&body.runs, found),
        _ => {}
    }
    body.at.max(from)
}

/// One secret in several quoted lines: the first is replaced, the others removed, and the quotes stay.
fn parts(runs: &[(usize, usize)], found: &mut Vec<Secret>) {
    let secret = |(index, &(from, to)): (usize, &(usize, usize))| Secret {
        part: index > 0,
        ..Secret::new(from, to, FAMILY, RANK)
    };
    found.extend(runs.iter().enumerate().map(secret));
}

/// As much of a text as a mark takes.
fn window(text: &str, from: usize) -> &str {
    &text[from..floor(text, (from + 120).min(text.len()))]
}

/// What stands behind the first mark.
struct Body {
    /// Lines of base64.
    runs: Vec<(usize, usize)>,
    /// Whether quotes stand between them.
    quoted: bool,
    /// Where the last mark ends, if there is one.
    end: Option<usize>,
    /// How far it was read.
    at: usize,
}

impl Body {
    fn read(text: &str, from: usize) -> Self {
        let mut body = Self { runs: Vec::new(), quoted: false, end: None, at: from };
        let mut quotes = false;
        while body.at < text.len() && body.at - from < LONGEST {
            let rest = &text[body.at..];
            if rest.starts_with("-----END") {
                body.end = MARKS[1].find(window(text, body.at)).map(|mark| body.at + mark.end());
                body.quoted |= quotes;
                return body;
            }
            if let Some(length) = header(rest) {
                body.at += length;
                continue;
            }
            let base64 = run(rest);
            let decorated = between(rest);
            // Of what may be either, a number or a sign at the start of a line is no base64.
            if decorated > 0 && (base64 <= decorated || base64 < 8) {
                quotes |= rest[..decorated].contains(['"', '\'', ',']);
                body.at += decorated;
            } else if base64 > 0 {
                body.quoted |= quotes && !body.runs.is_empty();
                quotes = false;
                body.runs.push((body.at, body.at + base64));
                body.at += base64;
            } else {
                break;
            }
        }
        body.trim();
        body
    }

    /// Leaves out the words behind a key without an end that only look like base64.
    fn trim(&mut self) {
        let long = self.runs.iter().rposition(|run| run.1 - run.0 >= LINE);
        let last = long.map_or(0, |at| at + 1);
        // The last line of a key is shorter than the others, and ends in padding or is not a word.
        let keep = self.runs.get(last).is_some_and(|run| run.1 - run.0 >= 16);
        self.runs.truncate(last + usize::from(keep));
    }

    /// Whether lines without a last mark are those of a key.
    fn is_key(&self, text: &str) -> bool {
        let long = |least: usize| self.runs.iter().filter(|run| run.1 - run.0 >= least).count();
        let digits = self.runs.iter().any(|run| text[run.0..run.1].bytes().any(|byte| byte.is_ascii_digit()));
        digits && (long(LINE) >= 2 || long(100) >= 1)
    }
}

/// How many bytes of base64 a text begins with; `/`, `+` and `=` in any encoding.
fn run(text: &str) -> usize {
    let (bytes, mut at) = (text.as_bytes(), 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let coded = ["%2B", "%2F", "%3D", "%2b", "%2f", "%3d", "\\/", "\\u002b", "\\u003d", "\\u002f"];
        at += match rest[0] {
            byte if byte.is_ascii_alphanumeric() || b"+/=".contains(&byte) => 1,
            b'%' | b'\\' => match coded.iter().find(|code| rest.starts_with(code.as_bytes())) {
                Some(code) => code.len(),
                None => break,
            },
            _ => break,
        };
    }
    at
}

/// How many bytes a text begins with of what stands between lines: their ends in any encoding, the marks of diffs,
/// numbers, quotes and colours.
fn between(text: &str) -> usize {
    let slashes = text.bytes().take_while(|&byte| byte == b'\\').count();
    let escaped = &text[slashes..];
    if slashes > 0 {
        if escaped.starts_with(['n', 'r', 't']) {
            return slashes + 1;
        }
        if let Some(code) =
            ["u000a", "u000d", "u000A", "u000D", "u0009"].iter().find(|code| escaped.starts_with(**code))
        {
            return slashes + code.len();
        }
        return slashes + usize::from(escaped.starts_with(['"', '\'', '\n']));
    }
    if let Some(code) =
        ["%0A", "%0D", "%0a", "%0d", "%20", "\u{1b}[0m", "\u{1b}[32m", "\u{1b}[31m", "\u{1b}[m"]
            .iter()
            .find(|code| text.starts_with(**code))
    {
        return code.len();
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if (1..=6).contains(&digits) {
        let mark = text[digits..].trim_start_matches(' ');
        if let Some(letter) = mark.chars().next().filter(|letter| "→:|\t)".contains(*letter)) {
            return text.len() - mark.len() + letter.len_utf8();
        }
    }
    let plain = |letter: char| letter.is_whitespace() || "+-|>\"',#*`→│".contains(letter);
    text.chars().next().filter(|&letter| plain(letter)).map_or(0, char::len_utf8)
}

/// How long a line of the headers of a key is: `Proc-Type: 4,ENCRYPTED`, `Version: ...`.
fn header(text: &str) -> Option<usize> {
    const NAMES: [&str; 7] =
        ["Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Hash:", "Charset:", "MessageID:"];
    NAMES.iter().find(|name| text.starts_with(**name))?;
    let ends = |letter: char| letter == '\n' || letter == '\r' || letter == '\\' || letter == '"';
    let near = &text[..floor(text, 256.min(text.len()))];
    near.find(ends)
}
