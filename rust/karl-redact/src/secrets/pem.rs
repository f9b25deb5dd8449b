//! Private keys between their marks, `-----BEGIN ... PRIVATE KEY-----`: only if the content looks like a key.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use regex::Regex;

use super::secret::{Secret, floor};

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

/// Maximum length of the text around a line.
const LONGEST: usize = 240;

/// Text of a tool before and after each line of a file: `id_rsa:2:`, a time, `{"log":"...","stream":"stdout"}`. Its
/// numbers and spaces may differ between lines.
#[derive(Clone, Copy, Debug, Default)]
struct LineFrame<'a> {
    lead: &'a str,
    tail: &'a str,
}

impl<'a> LineFrame<'a> {
    /// Return the text around the part between two positions, in its line.
    fn around(text: &'a str, from: usize, to: usize) -> Self {
        let before = text[..from].bytes().rev().take(LONGEST + 1).take_while(|&byte| byte != b'\n').count();
        let lead = if before > LONGEST { "" } else { text.get(from - before..from).unwrap_or_default() };
        let lead = lead.rsplit("\\n").next().unwrap_or(lead);
        let behind = text[to..].bytes().take(LONGEST + 1).take_while(|&byte| byte != b'\n').count();
        let tail = if behind > LONGEST { "" } else { text[to..to + behind].trim_end_matches('\r') };
        // Numbers and words alone do not end a line: they may be part of the key.
        let marked = tail.bytes().any(|byte| b"\"'|>".contains(&byte)) && !tail.contains("--");
        let whole = marked && !tail.split(|letter: char| !is_base64(letter)).any(|word| word.len() >= 40);
        Self { lead, tail: if whole { tail } else { "" } }
    }

    /// Return the length of the text before the line at the start of a text.
    fn lead_of(&self, text: &str) -> Option<usize> {
        // The first line may have more before it: a prompt, or words.
        let word =
            self.lead.rsplit([' ', '\t']).next().filter(|word| word.ends_with([':', '|', '"', '\'', ']']));
        let mut forms = [Some(self.lead), word].into_iter().flatten().filter(|form| !form.trim().is_empty());
        forms.find_map(|form| matched(form, text))
    }

    /// Return the length of the text after a line, if a text begins with it.
    fn tail_of(&self, text: &str) -> Option<usize> {
        if self.tail.is_empty() { None } else { matched(self.tail, text) }
    }
}

fn is_base64(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "+/=".contains(letter)
}

/// Return the length of the start of a text that equals a form up to its numbers, its spaces, and `:` for
/// `-`.
fn matched(form: &str, text: &str) -> Option<usize> {
    let (form, text) = (form.as_bytes(), text.as_bytes());
    let (mut of, mut at) = (0, 0);
    let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let spaces = |bytes: &[u8]| bytes.iter().take_while(|byte| b" \t".contains(byte)).count();
    while of < form.len() {
        let (blank, gap) = (spaces(&form[of..]), spaces(&text[at..]));
        if blank > 0 || gap > 0 {
            (of, at) = (of + blank, at + gap);
            continue;
        }
        let (byte, other) = (form[of], *text.get(at)?);
        if byte.is_ascii_digit() && other.is_ascii_digit() {
            (of, at) = (of + digits(&form[of..]), at + digits(&text[at..]));
        } else if byte == other || b":-".contains(&byte) && b":-".contains(&other) {
            (of, at) = (of + 1, at + 1);
        } else {
            return None;
        }
    }
    Some(at)
}

#[expect(clippy::expect_used, reason = "without its patterns nothing may be written")]
fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a valid pattern")
}

fn mark(word: &str) -> Regex {
    let space = "(?:[ +]|%(?:25)*20)";
    compiled(&format!(
        r"\A-----?{space}?{word}{space}(?:[A-Z0-9]+{space}){{0,4}}PRIVATE{space}KEY(?:{space}BLOCK)?{space}?----"
    ))
}

static BEGIN: LazyLock<Regex> = LazyLock::new(|| mark("BEGIN"));

static END: LazyLock<Regex> = LazyLock::new(|| mark("END"));

static PUTTY: LazyLock<Regex> = LazyLock::new(|| compiled(r"\APrivate-Lines: ?[0-9]{1,4}"));

/// End of a key.
#[derive(Clone, Copy, Debug)]
enum End {
    Mark,
    Putty,
}

impl End {
    /// Return whether a text begins with the end of a key.
    fn begins(self, rest: &str) -> bool {
        match self {
            Self::Mark => rest.starts_with("-----END") || rest.starts_with("---- END"),
            Self::Putty => rest.starts_with("Private-"),
        }
    }

    /// Return the length of the end mark at the start of a text.
    fn find(self, near: &str) -> Option<usize> {
        match self {
            Self::Mark => {
                END.find(near).map(|mark| mark.end() + usize::from(near[mark.end()..].starts_with('-')))
            }
            Self::Putty => Some(0),
        }
    }
}

/// Return the length of the begin mark at a position, and the end of the key.
fn begin(text: &str, from: usize) -> Option<(usize, End)> {
    let near = window(text, from);
    if let Some(mark) = PUTTY.find(near) {
        return Some((mark.end(), End::Putty));
    }
    let mark = BEGIN.find(near)?.end();
    Some((mark + usize::from(near[mark..].starts_with('-')), End::Mark))
}

/// Return the start of a text, up to the maximum length of a mark.
fn window(text: &str, from: usize) -> &str {
    &text[from..floor(text, (from + 120).min(text.len()))]
}

/// Minimum characters in a line, and number of such lines, of a key without end mark, unless one is much
/// longer.
const LINE: usize = 40;

/// Maximum length of a key.
const BODY_LONGEST: usize = 1 << 16;

/// Text after the begin mark: lines in any encoding, with a tool's text around each.
struct Body {
    /// Lines of base64.
    runs: Vec<(usize, usize)>,
    /// True if there are quotes between them.
    quoted: bool,
    /// End of the end mark, if there is one.
    end: Option<usize>,
    /// Position up to which it was read.
    at: usize,
}

impl Body {
    /// Read the lines from a position on, up to the end mark or to a line that is not part of a key.
    fn read(text: &str, from: usize, frame: &LineFrame<'_>, last: End) -> Self {
        let mut body = Self { runs: Vec::new(), quoted: false, end: None, at: from };
        let mut quotes = body.skip_tail(text, frame);
        while body.at < text.len() && body.at - from < BODY_LONGEST {
            let rest = &text[body.at..];
            if last.begins(rest) {
                body.end = last.find(window(text, body.at)).map(|end| body.at + end);
                body.quoted |= quotes;
                return body;
            }
            if let Some(length) = header(rest) {
                body.at += length;
                continue;
            }
            let base64 = run(rest);
            let decorated = between(rest);
            // If ambiguous, a number or a sign at the start of a line is not base64.
            if decorated > 0 && (base64 <= decorated || base64 < 8) {
                quotes |= rest[..decorated].contains(['"', '\'', ',']);
                let ends = rest.starts_with(['\n', '\\']);
                body.at += decorated;
                quotes |= ends && body.skip_lead(text, frame);
            } else if base64 > 0 {
                body.quoted |= quotes && !body.runs.is_empty();
                body.runs.push((body.at, body.at + base64));
                body.at += base64;
                quotes = body.skip_tail(text, frame);
            } else {
                break;
            }
        }
        body
    }

    /// Skip the text before each line; return whether it has quotes.
    fn skip_lead(&mut self, text: &str, frame: &LineFrame<'_>) -> bool {
        let length = frame.lead_of(&text[self.at..]).unwrap_or(0);
        self.at += length;
        text[self.at - length..self.at].contains('"')
    }

    /// Skip the text after each line; return whether it has quotes.
    fn skip_tail(&mut self, text: &str, frame: &LineFrame<'_>) -> bool {
        let length = frame.tail_of(&text[self.at..]).unwrap_or(0);
        self.at += length;
        text[self.at - length..self.at].contains('"')
    }

    /// Return the number of bytes of base64.
    fn size(&self) -> usize {
        self.runs.iter().map(|run| run.1 - run.0).sum()
    }

    /// Remove the words after a key without end mark that only look like base64.
    fn trim(&mut self) {
        let long = self.runs.iter().rposition(|run| run.1 - run.0 >= LINE);
        let last = long.map_or(0, |at| at + 1);
        // The last line of a key is shorter than the others, and ends in padding or is not a word.
        let keep = self.runs.get(last).is_some_and(|run| run.1 - run.0 >= 16);
        self.runs.truncate(last + usize::from(keep));
    }

    /// Return whether lines without an end mark are those of a key.
    fn is_key(&self, text: &str) -> bool {
        let long = |least: usize| self.runs.iter().filter(|run| run.1 - run.0 >= least).count();
        let digits = self.runs.iter().any(|run| text[run.0..run.1].bytes().any(|byte| byte.is_ascii_digit()));
        digits && (long(LINE) >= 2 || long(100) >= 1)
    }
}

/// Return the number of leading bytes of base64; `/`, `+` and `=` in any encoding.
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

/// Return the number of leading bytes between lines: line ends in any encoding, diff marks, numbers, quotes
/// and colours.
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
    if let Some(code) = [
        "%0A",
        "%0D",
        "%0a",
        "%0d",
        "%20",
        "%250A",
        "%250D",
        "%2520",
        "&#10;",
        "&#13;",
        "&#xA;",
        "&#xa;",
        "&#xD;",
        "\u{1b}[0m",
        "\u{1b}[32m",
        "\u{1b}[31m",
        "\u{1b}[m",
    ]
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

/// Return the length of a header line of a key: `Proc-Type: 4,ENCRYPTED`, `Version: ...`.
fn header(text: &str) -> Option<usize> {
    const NAMES: [&str; 7] =
        ["Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Hash:", "Charset:", "MessageID:"];
    NAMES.iter().find(|name| text.starts_with(**name))?;
    let ends = |letter: char| letter == '\n' || letter == '\r' || letter == '\\' || letter == '"';
    let near = &text[..floor(text, 256.min(text.len()))];
    near.find(ends)
}

/// Maximum number of other strings between two lines of a key.
const MOST_BETWEEN: usize = 4;

static MENTIONS: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| [Finder::new(b"PRIVATE KEY"), Finder::new(b"Private-Lines:")]);

/// Return whether a text mentions a private key.
pub(super) fn is_mentioned(text: &str) -> bool {
    MENTIONS.iter().any(|word| word.find(text.as_bytes()).is_some())
}

/// Key before its end mark.
struct Open<'a> {
    frame: LineFrame<'a>,
    last: End,
    body: Body,
    between: usize,
}

/// Reader of keys with one JSON string per line; the strings of a text are given in order.
#[derive(Default)]
pub(super) struct QuotedKeyReader<'a> {
    open: Option<Open<'a>>,
}

impl<'a> QuotedKeyReader<'a> {
    /// Read the string between two positions of the text.
    pub(super) fn read(&mut self, text: &'a str, from: usize, to: usize, found: &mut Vec<Secret>) {
        let content = &text[..to];
        let marks = ["-----BEGIN", "---- BEGIN", "Private-Lines:"];
        if let Some(at) = marks.iter().find_map(|mark| content[from..].find(mark)) {
            self.close(text, found);
            self.open = Self::begun(content, from, from + at);
            return;
        }
        let Some(open) = &mut self.open else { return };
        let lead = open.frame.lead_of(&content[from..]).unwrap_or(0);
        let body = Body::read(content, from + lead, &open.frame, open.last);
        if body.end.is_some() {
            open.body.runs.extend(body.runs);
            open.body.end = body.end;
            self.close(text, found);
        } else if body.at == to && body.size() > 0 {
            open.body.runs.extend(body.runs);
            open.between = 0;
        } else {
            open.between += 1;
            if open.between > MOST_BETWEEN {
                self.close(text, found);
            }
        }
    }

    /// Begin a key with its begin mark in a string, unless it ends there too.
    fn begun(content: &'a str, from: usize, at: usize) -> Option<Open<'a>> {
        let (length, last) = begin(content, at)?;
        let around = LineFrame::around(&content[from..], at - from, at - from + length);
        let body = Body::read(content, at + length, &around, last);
        let unfinished = body.end.is_none() && body.at == content.len();
        unfinished.then_some(Open { frame: around, last, body, between: 0 })
    }

    /// End the open key, and add it if it is a key.
    pub(super) fn close(&mut self, text: &str, found: &mut Vec<Secret>) {
        let Some(Open { mut body, .. }) = self.open.take() else { return };
        if body.end.is_none() {
            body.trim();
        }
        // Strings between the lines may be words: of short ones only padded ones are lines.
        body.runs.retain(|&(from, to)| to - from >= FEWEST || text[from..to].ends_with('='));
        if body.end.is_some() && body.size() >= FEWEST || body.is_key(text) {
            parts(&body.runs, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::needs_unicode_table;
    use super::*;

    #[test]
    fn every_pattern_compiles_and_asks_for_no_unicode_table_that_a_wheel_lacks() {
        for (pattern, text, other) in [
            (&BEGIN, "-----BEGIN RSA PRIVATE KEY-----", "-----BEGIN PUBLIC KEY-----"),
            (&BEGIN, "---- BEGIN%20PGP PRIVATE KEY BLOCK ----", "---- END PGP PRIVATE KEY BLOCK ----"),
            (&END, "-----END PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----"),
            (&PUTTY, "Private-Lines: 14", "Private-MAC: 14"),
        ] {
            assert!(pattern.is_match(text) && !pattern.is_match(other), "{}", pattern.as_str());
            assert!(!needs_unicode_table(pattern.as_str()), "{}", pattern.as_str());
        }
    }

    #[test]
    fn a_key_of_putty_ends_with_its_mac_and_others_with_their_mark() {
        for (text, mark, end) in [
            ("Private-Lines: 2\nAAAA", "Private-Lines: 2", "Private-MAC: 6b1f"),
            ("-----BEGIN PRIVATE KEY-----\nAAAA", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"),
        ] {
            let (length, last) = begin(text, 0).unwrap();
            assert_eq!((length, last.begins(end)), (mark.len(), true), "{text}");
            assert!(last.find(end).is_some(), "{end}");
        }
    }
}
