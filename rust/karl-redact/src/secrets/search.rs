//! Search for secrets in a text: first for signs, then with the pattern of each sign's
//! family.
//!
//! Record: `log::redact` of `benches/record/instructions.json`.

use std::sync::{LazyLock, OnceLock};

use regex::Regex;

use super::base64_text::{Run, RunFinder};
use super::is_secret::{is_dull, is_random};
use super::named::is_aws;
use super::outlines::{self, Outline};
use super::secret::{MARK, NAMES, RANK, Secret, floor, merged};
use super::service_tokens::{COUNT, FAMILIES, Family};
use super::signs::{Hit, OnMarks, SignFinder};
use super::{assigned, pem, url};

/// Meaning of a sign.
#[derive(Clone, Copy)]
enum Sign {
    Family(usize),
    Name,
    Url,
    Key,
    /// Sign as it is written in a string of JSON: a hint there, and nothing elsewhere.
    Escaped,
}

/// Maximum bytes that a pattern examines. A match up to this limit extends to the end of the word.
const REACH: usize = 2048;

struct Signs {
    finder: SignFinder,
    means: Vec<Sign>,
}

static SIGNS: LazyLock<Signs> = LazyLock::new(Signs::new);

/// Patterns, compiled at the first occurrence of their sign: compiling all takes as long as reading a small
/// log.
static PATTERNS: [OnceLock<Regex>; COUNT] = [const { OnceLock::new() }; COUNT];

impl Signs {
    fn new() -> Self {
        let own = FAMILIES.iter().enumerate().flat_map(|(at, family)| {
            family.signs.iter().map(move |sign| ((*sign).to_owned(), Sign::Family(at)))
        });
        let names = NAMES.iter().flat_map(|name| {
            let capital = name[..1].to_ascii_uppercase() + &name[1..];
            [(*name).to_owned(), capital, name.to_ascii_uppercase()].map(|name| (name, Sign::Name))
        });
        let urls = url::SIGNS.iter().map(|sign| ((*sign).to_owned(), Sign::Url));
        let keys = pem::SIGNS.iter().map(|sign| ((*sign).to_owned(), Sign::Key));
        let mut all: Vec<(String, Sign)> = own.chain(names).chain(urls).chain(keys).collect();
        // A quote or backslash at the start or the end of a sign is also there, behind or before another backslash.
        let escaped = |(sign, _): &(String, Sign)| {
            let inner = sign.trim_matches(['\\', '"']);
            let start = sign.find(inner).unwrap_or_default();
            let escaped = inner.replace('\\', "\\\\").replace('"', "\\\"");
            let whole = [&sign[..start], &escaped, &sign[start + inner.len()..]].concat();
            (escaped != inner).then_some((whole, Sign::Escaped))
        };
        let escaped: Vec<_> = all.iter().filter_map(escaped).collect();
        all.extend(escaped);
        let (signs, means): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        Self { finder: SignFinder::new(signs), means }
    }
}

/// Traces of secrets in a text.
pub(super) struct Traces {
    hits: Vec<Hit>,
    outlines: Vec<Outline>,
    pub(super) runs: Vec<Run>,
}

impl Traces {
    /// Find the traces of a text.
    pub(super) fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut marks = Marks { bytes, outlines: Vec::new(), runs: RunFinder::new(bytes) };
        let hits = SIGNS.finder.find(bytes, &mut marks);
        Self { hits, outlines: marks.outlines, runs: marks.runs.finish() }
    }

    /// Return positions of a text of JSON, in order, one of which is in each of its strings that has a secret by itself.
    /// They hold for strings that are not decoded, but for those with rare escapes: what makes a secret has no other
    /// escape but in [`Sign::Escaped`], and of a sign in such a string only what is asked before any escape can count.
    pub(super) fn positions(&self, text: &str) -> Vec<usize> {
        let runs = self.runs.iter().filter(|run| run.may_have_text(text.as_bytes())).map(|run| run.from);
        let outlines = self.outlines.iter().map(|outline| outline.from);
        let hits = self.hits.iter().filter(|hit| hit.may_be_of_secret(text)).map(|hit| hit.from);
        let mut positions: Vec<usize> = hits.chain(outlines).chain(runs).collect();
        positions.sort_unstable();
        positions
    }
}

impl Hit {
    /// Return whether a sign in a string of JSON, as it is written, may be that of a secret.
    fn may_be_of_secret(&self, text: &str) -> bool {
        match SIGNS.means[self.sign] {
            Sign::Family(at) => {
                let family = &FAMILIES[at];
                let is_at_start = family.back == 0 && family.pattern.starts_with(r"\b");
                !is_at_start || starts(text.as_bytes(), self.from)
            }
            Sign::Name => assigned::may_have_value(text, self.from, self.to),
            Sign::Url => url::may_have_user(text, self.to),
            Sign::Key | Sign::Escaped => true,
        }
    }
}

/// Traces other than signs, while a text is searched.
struct Marks<'a> {
    bytes: &'a [u8],
    outlines: Vec<Outline>,
    runs: RunFinder<'a>,
}

impl OnMarks for Marks<'_> {
    #[inline]
    fn on_separator(&mut self, at: usize) {
        outlines::add(self.bytes, at, &mut self.outlines);
    }

    #[inline]
    fn on_letters(&mut self, from: usize, letters: u64) {
        self.runs.on_letters(from, letters);
    }
}

/// Return the secrets of a text, without parsing it as JSON, ordered and disjoint.
pub(super) fn search(text: &str) -> Vec<Secret> {
    search_at(text, &Traces::of(text))
}

/// Return the same from the traces of the text.
pub(super) fn search_at(text: &str, traces: &Traces) -> Vec<Secret> {
    let mut secrets = Vec::new();
    let mut done = Done::default();
    for &Hit { from, to, sign } in &traces.hits {
        match SIGNS.means[sign] {
            Sign::Family(at) => secrets.extend(done.family(text, at, from)),
            Sign::Name => done.name(text, from, to, &mut secrets),
            Sign::Url => secrets.extend(url::password(text, from, to)),
            Sign::Key => done.key(text, from, &mut secrets),
            Sign::Escaped => {}
        }
    }
    for &Outline { family, from } in &traces.outlines {
        let at = FAMILIES.iter().position(|other| other.name == family && other.signs.is_empty());
        secrets.extend(at.and_then(|at| matched(text, at, from)));
    }
    if !secrets.is_empty() {
        beside_ids(text, &mut secrets);
        let marks: Vec<_> =
            text.match_indices(MARK).filter_map(|(at, _)| Some((at, mark_end(text, at)?))).collect();
        secrets.retain(|secret| marks.iter().all(|&(from, to)| secret.to <= from || to < secret.from));
    }
    merged(secrets)
}

/// Add the secret access keys beside the access key ids found.
pub(super) fn beside_ids(text: &str, found: &mut Vec<Secret>) {
    let ids: Vec<_> =
        found.iter().filter(|one| one.family == "aws-access-key" && one.key == 0).cloned().collect();
    for id in ids {
        secret_keys(text, id.from, id.to, found);
    }
}

/// Return the end of the mark of a replaced secret at a position; `None` if the mark is incomplete.
fn mark_end(text: &str, from: usize) -> Option<usize> {
    let family = text[from + MARK.len()..].bytes();
    let length = family
        .take_while(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-+".contains(byte))
        .count();
    let end = from + MARK.len() + length;
    (length > 0 && text.as_bytes().get(end) == Some(&b']')).then_some(end)
}

/// Progress of each kind of search, so that no text is scanned again for every sign in it.
#[derive(Default)]
struct Done {
    /// Families of secrets, and where the last one of each ends.
    families: Vec<(usize, usize)>,
    name: usize,
    key: usize,
}

impl Done {
    fn family(&mut self, text: &str, at: usize, sign: usize) -> Option<Secret> {
        let is_done = |from| self.families.iter().any(|&(family, to)| family == at && from < to);
        let from = sign.checked_sub(FAMILIES[at].back).filter(|&from| !is_done(from))?;
        let secret = matched(text, at, from)?;
        self.families.retain(|&(family, _)| family != at);
        self.families.push((at, secret.to));
        Some(secret)
    }

    fn name(&mut self, text: &str, from: usize, to: usize, found: &mut Vec<Secret>) {
        if from >= self.name {
            self.name = assigned::secrets(text, from, to, found);
        }
    }

    fn key(&mut self, text: &str, from: usize, found: &mut Vec<Secret>) {
        if from >= self.key {
            self.key = pem::key(text, from, found);
        }
    }
}

/// Return the secret of a family with a match at a position.
fn matched(text: &str, at: usize, from: usize) -> Option<Secret> {
    let family = &FAMILIES[at];
    if family.pattern.starts_with(r"\b") && !starts(text.as_bytes(), from)
        || !text.is_char_boundary(from)
        || !(family.before)(&text[..from])
    {
        return None;
    }
    let to = floor(text, (from + REACH).min(text.len()));
    if !(family.ahead)(&text[from..to]) {
        return None;
    }
    let hit = pattern(at).captures(&text[from..to])?;
    let secret = hit.name("secret").unwrap_or_else(|| hit.get_match());
    let end = if from + secret.end() == to { word_end(text, to) } else { from + secret.end() };
    let secret = Secret::new(from + secret.start(), end, family.name, at);
    if family.alone && !is_alone(text.as_bytes(), secret.from, secret.to) {
        return None;
    }
    let body = &text[secret.from..secret.to];
    (!is_dull(body) && (family.check)(body)).then_some(secret)
}

#[expect(
    clippy::expect_used,
    reason = "without its patterns nothing may be written: better no row than a secret"
)]
fn pattern(at: usize) -> &'static Regex {
    PATTERNS[at].get_or_init(|| Regex::new(&whole(&FAMILIES[at])).expect("every pattern is valid"))
}

/// Return a pattern with its abbreviations expanded.
fn whole(family: &Family) -> String {
    let begin = family.pattern.strip_prefix(r"\b").unwrap_or(family.pattern);
    let body = begin
        .replace("<eq>", r"(?:\s?=\s?|%(?:25)*3[Dd]|\\+u003[dD])")
        .replace("<b64>", r"(?:[A-Za-z0-9+/_-]|%(?:25)*2[BbFf]|\\+/|\\+u002[bBfF])")
        .replace("<pad>", r"(?:=|%(?:25)*3[Dd]|\\+u003[dD])")
        .replace("<dollar>", r"(?:\\*\$|\$\$|%(?:25)*24)")
        .replace("<slash>", r"(?:\\*/|%(?:25)*2[Ff]|\\+u002[fF])")
        .replace("<pw>", r#"['"\\]*(?P<secret>[^\s'"\\]{6,128})"#)
        .replace("<ws>", r"(?:[ \t+]|%20)")
        .replace(r"\b", r"(?-u:\b)");
    format!(r"\A(?:{body})")
}

/// Return whether a part of a text is outside base64.
fn is_alone(bytes: &[u8], from: usize, to: usize) -> bool {
    let base64 = |at: Option<usize>| {
        at.and_then(|at| bytes.get(at))
            .is_some_and(|&byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
    };
    let mark = |at: Option<usize>| at.is_some_and(|at| b"+/".contains(&bytes[at]));
    let inside = mark(from.checked_sub(1)) && base64(from.checked_sub(2));
    !inside && !base64(Some(to))
}

/// Return the end of the word that continues at a position.
fn word_end(text: &str, from: usize) -> usize {
    let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.+/=".contains(byte);
    from + text.as_bytes()[from..].iter().take_while(|byte| goes_on(byte)).count()
}

/// Return whether a word may start at a position: not after a letter or digit, except that of an escape, an
/// encoded byte or a terminal colour, and not inside base64.
fn starts(bytes: &[u8], at: usize) -> bool {
    let before = &bytes[..at];
    !before.last().is_some_and(u8::is_ascii_alphanumeric) || is_encoded(before) || colour(before)
}

/// Return whether a text ends in an encoded character: `\n`, `%3D`, `%253D`, `=3D`, `\x3d`, `\u003d`, `\075`.
fn is_encoded(before: &[u8]) -> bool {
    let back = |by: usize| before.len().checked_sub(by).map(|at| before[at]);
    let all = |count: usize, kind: fn(&u8) -> bool| {
        before.len() >= count && before[before.len() - count..].iter().all(kind)
    };
    let hex = |count| all(count, u8::is_ascii_hexdigit);
    let letter = back(2) == Some(b'\\') && back(1).is_some_and(|byte| b"abefnrtv0".contains(&byte));
    let percent = hex(2) && {
        let rest = &before[..before.len() - 2];
        let pairs = rest.rchunks_exact(2).take_while(|pair| *pair == b"25").count();
        rest[..rest.len() - 2 * pairs].last() == Some(&b'%')
    };
    let printable = matches!(back(2), Some(b'0' | b'2' | b'3' | b'5' | b'7'));
    let quoted = back(3) == Some(b'=') && hex(2) && printable;
    let short = back(4) == Some(b'\\') && back(3) == Some(b'x') && hex(2);
    let octal = back(4) == Some(b'\\') && all(3, |byte| (b'0'..b'8').contains(byte));
    let long = matches!(back(6), Some(b'\\' | b'%')) && back(5) == Some(b'u') && hex(4);
    letter || percent || quoted || short || octal || long
}

/// Return whether a text ends in a terminal colour, `ESC[0;32m`.
fn colour(before: &[u8]) -> bool {
    let Some((b'm' | b'K', rest)) = before.split_last() else { return false };
    let number = |byte: &&u8| byte.is_ascii_digit() || **byte == b';';
    let digits = rest.iter().rev().take(12).take_while(number).count();
    rest.len().checked_sub(digits + 1).is_some_and(|at| rest[at] == b'[')
}

/// Maximum distance of a secret access key from its id in bytes.
const PAIR_REACH: usize = 400;

/// Find text with the form of an AWS secret access key, which has no name, around the id between two positions: in tables,
/// dialogues and lists.
fn secret_keys(text: &str, from: usize, to: usize, found: &mut Vec<Secret>) {
    let bytes = text.as_bytes();
    let (mut at, end) = (from.saturating_sub(PAIR_REACH), (to + PAIR_REACH).min(bytes.len()));
    while at < end {
        let length = bytes[at..].iter().take(64).take_while(|&&byte| is_base64(byte)).count();
        let escape = usize::from(at > 0 && bytes[at - 1] == b'\\' && b"nrt".contains(&bytes[at]));
        let begin = at + escape;
        if length == 40 + escape && is_whole_word(bytes, at, begin + 40) {
            let key = &text[begin..begin + 40];
            let cased = key.bytes().any(|byte| byte.is_ascii_lowercase())
                && key.bytes().any(|byte| byte.is_ascii_uppercase());
            if cased && is_aws(key) && is_random(key) {
                found.push(Secret::new(begin, begin + 40, "aws-secret-key", RANK));
            }
        }
        at += length.max(1);
    }
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/".contains(&byte)
}

/// Return whether a part of a text is not a part of a longer word.
fn is_whole_word(bytes: &[u8], from: usize, to: usize) -> bool {
    let joins = |byte: &u8| is_base64(*byte) || b"_-".contains(byte);
    !from.checked_sub(1).is_some_and(|at| joins(&bytes[at])) && !bytes.get(to).is_some_and(joins)
}

/// Return the rarest bytes of each sign.
#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn signs_by_bytes() -> Vec<Vec<[u8; 3]>> {
    SIGNS.finder.signs().map(super::signs::keys).collect()
}

#[cfg(test)]
mod tests {
    use super::super::needs_unicode_table;
    use super::*;

    /// [`SignFinder`] finds a sign of two bytes only where a letter, a digit or one of `_-.~+` is behind it: each of these
    /// patterns goes on with one.
    #[test]
    fn signs_of_two_bytes_are_those_of_tokens_that_go_on() {
        let short = FAMILIES.iter().filter(|family| family.signs.iter().any(|sign| sign.len() < 3));
        let mut names: Vec<_> = short.map(|family| family.name).collect();
        names.dedup();
        assert_eq!(names, ["azure-ad", "vault", "yandex", "pagerduty", "telegram", "twilio", "recaptcha"]);
    }

    /// Pieces of texts in which a check of the text ahead says yes or no.
    #[rustfmt::skip]
    const PIECES: [&str; 43] = [
        "bearer", "Bearer", " ", "\t", "+", "%20", "abcdefgh", "A1b2C3d4/_", "bob:", "s3cretWord", "\"", "'",
        "\\", "\n", "|", "curl", "-u", "-sSfu", "--user", "--proxy-user", "=", "identified", "IDENTIFIED", "by",
        "BY", "with", "x'", "machine", "default", "login", "password", "zip ", "sqlcmd ", "-P", "-passin",
        "-pass", "pass:", "echo ", "printf ", "sudo", "passwd", "chpasswd", "é",
    ];

    /// What a check of the text ahead leaves out, no pattern matches.
    #[test]
    fn every_match_passes_the_check_of_the_text_ahead() {
        let mut number = 7_usize;
        let (mut tried, mut matches) = (0, 0);
        for _ in 0..60_000 {
            let mut text = String::new();
            for _ in 0..10 {
                number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                text.push_str(PIECES[(number >> 40) % PIECES.len()]);
            }
            for (at, family) in FAMILIES.iter().enumerate().filter(|(_, family)| !(family.ahead)("")) {
                for sign in family.signs {
                    for (from, _) in text.match_indices(sign) {
                        let is_match = pattern(at).is_match(&text[from..]);
                        assert!(!is_match || (family.ahead)(&text[from..]), "{} in {text:?}", family.name);
                        (tried, matches) = (tried + 1, matches + usize::from(is_match));
                    }
                }
            }
        }
        assert!(tried > 10_000 && matches > 500, "{tried} {matches}");
    }

    /// The tests link a `regex` with all tables, a wheel one without: there a pattern that needs one fails to
    /// compile.
    #[test]
    fn every_pattern_compiles_and_asks_for_no_unicode_table_that_a_wheel_lacks() {
        for (at, family) in FAMILIES.iter().enumerate() {
            assert!(pattern(at).as_str().starts_with(r"\A"), "{}", family.name);
            assert!(!needs_unicode_table(family.pattern), "{}", family.name);
        }
    }
}
