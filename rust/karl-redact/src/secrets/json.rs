//! Detection of secrets inside the strings of a JSON text; all other bytes stay.

use std::borrow::Cow;

use super::json_text::{Literal, decode, escape, strings};
use super::pem::{QuotedKeyReader, is_mentioned};
use super::search::{Traces, beside_ids, search, search_at};
use super::secret::{MARK, RANK, Secret, merged};
use super::{base64_text, named};

/// Maximum nesting of texts in texts.
const DEEPEST: usize = 8;

/// Return the secrets of a text, ordered and disjoint.
pub(super) fn secrets(text: &str, depth: usize) -> Vec<Secret> {
    let strings = if depth < DEEPEST && is_enclosed(text) { strings(text) } else { None };
    strings.map_or_else(|| plain(text, depth), |strings| inside(text, &strings, depth))
}

/// Return whether a text begins and ends like a container or string of JSON.
fn is_enclosed(text: &str) -> bool {
    let text = text.trim_ascii().as_bytes();
    matches!(
        (text.first(), text.last()),
        (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']')) | (Some(b'"'), Some(b'"'))
    )
}

/// Return the secrets of a text that is not JSON, and the texts in base64 that have some.
pub(super) fn plain(text: &str, depth: usize) -> Vec<Secret> {
    let traces = Traces::of(text);
    let mut found = search_at(text, &traces);
    if depth < DEEPEST {
        base64_text::add(text, &traces.runs, &|inner| secrets(inner, depth + 1), &mut found);
    }
    merged(found)
}

/// Return the secrets of a text that is JSON, with these strings.
///
/// The whole text is searched once for hints. Most strings have none, and are neither decoded nor searched.
fn inside<'a>(text: &'a str, strings: &[Literal<'a>], depth: usize) -> Vec<Secret> {
    let (mut all, mut place) = (Vec::new(), StringPlace::default());
    let mut key_lines = is_mentioned(text).then(QuotedKeyReader::default);
    let (mut hints, mut names) =
        (Hints { positions: Traces::of(text).positions(text), at: 0 }, NameCache::default());
    let mut masked = 0;
    for literal in strings {
        place.enter(text, literal);
        let is_searched = hints.is_near(literal);
        if literal.is_key {
            let mut of_key = if is_searched { of(literal, "", "", depth) } else { Vec::new() };
            for secret in &mut of_key {
                secret.key = masked + 1;
            }
            masked += of_key.len();
            all.append(&mut of_key);
            place.pass_key(*literal);
            continue;
        }
        let (name, words) = (place.name(text, literal), place.words(literal));
        let name = if names.may_name(name) { name } else { "" };
        if is_searched || !name.is_empty() || !words.is_empty() {
            all.append(&mut of(literal, name, &words, depth));
        }
        if let Some(lines) = &mut key_lines {
            lines.read(text, literal.from, literal.from + literal.raw.len(), &mut all);
        }
        place.pass(*literal);
    }
    if let Some(mut lines) = key_lines {
        lines.close(text, &mut all);
    }
    if !all.is_empty() {
        beside_ids(text, &mut all);
    }
    merged(all)
}

/// Hints of a text, passed in the order of its strings.
struct Hints {
    positions: Vec<usize>,
    at: usize,
}

impl Hints {
    /// Return whether a string may have a secret that is not one by its name: it has a hint, is JSON itself, or has an
    /// escape in which a sign may be hidden.
    fn is_near(&mut self, literal: &Literal<'_>) -> bool {
        let rest = &self.positions[self.at..];
        self.at += rest.iter().take_while(|&&position| position < literal.from).count();
        let end = literal.from + literal.raw.len();
        let is_hinted = self.positions.get(self.at).is_some_and(|&position| position < end);
        literal.raw.len() >= SHORTEST && (is_hinted || literal.has_rare_escapes || may_enclose(literal.raw))
    }
}

/// Return whether a string, as it is written, may begin like a container or string of JSON.
fn may_enclose(raw: &str) -> bool {
    let mut rest = raw.trim_ascii_start();
    while let Some(shorter) = ["\\n", "\\t", "\\r"].iter().find_map(|escape| rest.strip_prefix(escape)) {
        rest = shorter.trim_ascii_start();
    }
    rest.starts_with(['{', '[']) || rest.starts_with("\\\"") || rest.starts_with("\\u00")
}

/// Names of the strings of a text that have been judged. Most rows repeat a few.
#[derive(Default)]
struct NameCache<'a> {
    names: Vec<(&'a str, bool)>,
}

impl<'a> NameCache<'a> {
    /// Maximum number of names.
    const MOST: usize = 16;

    /// Return whether a secret may be detected by this name.
    fn may_name(&mut self, name: &'a str) -> bool {
        if let Some(&(_, may_name)) = self.names.iter().find(|(other, _)| *other == name) {
            return may_name;
        }
        let may_name = named::may_name(name);
        if self.names.len() < Self::MOST {
            self.names.push((name, may_name));
        }
        may_name
    }
}

/// Minimum length of a string that is searched.
const SHORTEST: usize = 5;

/// Return the secrets of one string, which may have the name of a secret or follow other words of a command.
fn of(literal: &Literal<'_>, name: &str, words: &str, depth: usize) -> Vec<Secret> {
    if literal.raw.len() < SHORTEST {
        return Vec::new();
    }
    let plain = if literal.has_escapes { decode(literal.raw) } else { Cow::Borrowed(literal.raw) };
    let mut found = secrets(&plain, depth + 1);
    let is_named = !name.is_empty();
    if (is_named || !words.is_empty()) && !plain.contains(MARK) && plain.len() <= 8192 {
        // Of several words, those around a detected secret are not secrets.
        if is_named && (found.is_empty() || !plain.contains(' ')) {
            let named = named::literal(name, &plain);
            found.extend(named.map(|family| Secret::new(0, plain.len(), family, RANK)));
        }
        found.extend(argument(words, &plain));
        found = merged(found);
    }
    if found.is_empty() {
        return found;
    }
    if let Cow::Owned(_) = plain {
        spread(literal.raw, &mut found);
    }
    for secret in &mut found {
        secret.from += literal.from;
        secret.to += literal.from;
    }
    found
}

/// Return the secrets of a command's word that can be detected only after the words before it.
fn argument(words: &str, plain: &str) -> Vec<Secret> {
    if words.is_empty() {
        return Vec::new();
    }
    let mut found = search(&format!("{words}{plain}"));
    found.retain(|secret| secret.from >= words.len());
    for secret in &mut found {
        secret.from -= words.len();
        secret.to -= words.len();
    }
    found
}

/// Convert positions in the decoded text to positions in the string itself.
fn spread(raw: &str, found: &mut [Secret]) {
    let (mut at, mut plain) = (0, 0);
    let mut reach = |wanted: usize| {
        while plain < wanted && at < raw.len() {
            if raw.as_bytes()[at] == b'\\' {
                let (letter, width) = escape(&raw[at..]);
                plain += letter.len_utf8();
                at += width;
            } else {
                plain += 1;
                at += 1;
            }
        }
        at
    };
    for secret in found {
        secret.from = reach(secret.from);
        secret.to = reach(secret.to);
    }
}

/// Context of a string: its name, and the words of a command before it.
#[derive(Default)]
struct StringPlace<'a> {
    key: Literal<'a>,
    label: Literal<'a>,
    /// End of the previous string.
    end: usize,
    /// Name of the array that contains the string.
    list: Option<&'a str>,
    /// First and last string of that array so far.
    first: &'a str,
    last: &'a str,
}

impl<'a> StringPlace<'a> {
    /// Advance to a string: into an array, or out of one.
    fn enter(&mut self, text: &'a str, literal: &Literal<'a>) {
        let gap = &text[self.end..literal.from - 1];
        match gap.bytes().rev().find(|byte| b"[]{}".contains(byte)) {
            Some(b'[') => {
                self.list = Some(if gap.starts_with("\":") { self.key.raw } else { "" });
                (self.first, self.last) = ("", "");
            }
            Some(_) => self.list = None,
            None => {}
        }
    }

    /// Pass a key of an object.
    fn pass_key(&mut self, key: Literal<'a>) {
        self.end = key.from + key.raw.len();
        self.list = None;
        self.key = key;
    }

    /// Pass a string that is not a key.
    fn pass(&mut self, literal: Literal<'a>) {
        self.end = literal.from + literal.raw.len() + 1;
        if matches!(self.key.raw, "name" | "Name" | "key" | "Key") {
            self.label = literal;
        }
        if self.first.is_empty() {
            self.first = literal.raw;
        }
        self.last = literal.raw;
    }

    /// Return the name of a string: its key or that of its array, or in `{"name": ..., "value": ...}` the
    /// name beside it.
    fn name(&self, text: &str, literal: &Literal<'a>) -> &'a str {
        if let Some(name) = self.list {
            return name;
        }
        let behind = self.key.from + self.key.raw.len() + 1;
        let own = text.get(behind..literal.from).is_some_and(|gap| {
            gap.len() < 64 && gap.trim_matches([':', '"', ' ', '\n', '\r', '\t']).is_empty()
        });
        let label = || !text[self.label.from..literal.from].contains(['{', '}']);
        match self.key.raw {
            _ if !own => "",
            "value" | "Value" if label() => self.label.raw,
            name => name,
        }
    }

    /// Return the words of a command before a string in an array that are needed to interpret it.
    fn words(&self, literal: &Literal<'a>) -> String {
        let option = |word: &str| word.starts_with('-') && word.len() < 64;
        if self.list.is_none() || self.last.is_empty() || !option(self.last) && !option(literal.raw) {
            return String::new();
        }
        let short = |word: &str| word.len() < 64;
        match self.first.len() {
            _ if !short(self.last) => String::new(),
            length if length == self.last.len() || !short(self.first) => format!(" {} ", self.last),
            _ => format!("{} {} ", self.first, self.last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of strings of JSON, as they are written: secrets, their signs, and what may stand around them.
    #[rustfmt::skip]
    const PIECES: [&str; 43] = [
        "gh\u{70}_Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3d", "AKI\u{41}Q3EXAMPL7K2V9WX", "password=", "hunter2Secret9!", "s3cr3tWord",
        "TOKEN", "token: ", "API key: ", "api_key=", "Zx8Kq2Lm9Pv4Rt7Wy1Bn", "Cookie\\\": \\\"sid=Ab3dEf6hIj9kLm2nOp5q\\\"",
        "https://bob:", "@example.com", "cGFzc3dvcmQ9aHVudGVyMlNlY3JldDkh", "Z2hwX0FiM2RFZjZoSWo5a0xtMm5PcDVxUnM4dFV2MXdYeTR6QWIzZA==",
        "Bearer ", "curl -u ", "0123456789abcdef0123456789abcdef", ".", "-", "$2a$10$", "\\\\$2a\\\\$", "1\\\\/", "sig\\\\", "-----BEGIN ",
        "\\n", "\\t", "\\\"", "\\\\", "\\/", "\\u00e9", "\\u5956", "\\u001b[32m", "\\u006b", "\\ud83d\\ude00", "\\b",
        " ", "a", "n", "{\\\"", "\\\": 1}", "[",
        "{\\\"seedwords\\\": \\\"legal winner thank year wave sausage worth useful legal winner thank yellow\\\"}",
    ];

    #[test]
    fn a_string_without_a_hint_has_no_secret_by_itself() {
        let mut number = 3_usize;
        let mut next = |below: usize| {
            number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (number >> 40) % below
        };
        let (mut with, mut without) = (0, 0);
        for _ in 0..20_000 {
            let raw: String = (0..=next(5)).map(|_| PIECES[next(PIECES.len())]).collect();
            let text = format!(r#"{{"a": "x", "b": "{raw}"}}"#);
            let all = strings(&text).unwrap();
            let mut hints = Hints { positions: Traces::of(&text).positions(&text), at: 0 };
            for literal in &all {
                let secrets = of(literal, "", "", 0);
                let is_near = hints.is_near(literal);
                assert!(is_near || secrets.is_empty(), "{raw}: {secrets:?}");
                (with, without) = (with + usize::from(!secrets.is_empty()), without + usize::from(!is_near));
            }
        }
        assert!(with > 2000 && without > 2000, "{with} {without}");
    }
}
