//! What no secret can do without: a search at the speed of memory in front of the patterns.

use std::collections::BTreeSet;

use aho_corasick::{AhoCorasick, Input, MatchKind};

/// What else holds where a sign stands in a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A word may start there.
    Word,
    /// An `@` follows before the end of a name and a password.
    Password,
    /// Nothing.
    Any,
}

/// The signs of all patterns.
pub(super) struct Signs {
    search: AhoCorasick,
    /// By the number of the sign.
    places: Vec<Place>,
}

impl Signs {
    /// Of patterns, each with the signs of which its matches hold one. A sign of a pattern that begins with `\b` is what
    /// stands after it; that of one that ignores case is told in small letters.
    pub(super) fn new<'a>(
        patterns: impl Iterator<Item = (&'a str, &'a [&'a str])>,
    ) -> Result<Self, aho_corasick::BuildError> {
        let all: Vec<(String, Place)> = patterns
            .flat_map(|(pattern, signs)| signs.iter().flat_map(move |sign| spellings(pattern, sign)))
            .collect();
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .build(all.iter().map(|(sign, _)| sign))?;
        Ok(Self { search, places: all.into_iter().map(|(_, place)| place).collect() })
    }

    /// Whether a text may hold a secret; if not, no pattern matches.
    pub(super) fn stand_in(&self, text: &str) -> bool {
        let mut from = 0;
        while let Some(hit) = self.search.find(Input::new(text).range(from..)) {
            let (before, after) = (&text.as_bytes()[..hit.start()], &text.as_bytes()[hit.end()..]);
            let fits = match self.places[hit.pattern().as_usize()] {
                Place::Word => may_start(before),
                Place::Password => is_password(after),
                Place::Any => true,
            };
            if fits {
                return true;
            }
            from = hit.start() + 1;
        }
        false
    }
}

/// A sign as a text may spell it.
fn spellings(pattern: &str, sign: &str) -> Vec<(String, Place)> {
    if !pattern.starts_with("(?i") {
        let place = match pattern {
            _ if sign == "://" => Place::Password,
            _ if pattern.starts_with(r"\b") => Place::Word,
            _ => Place::Any,
        };
        return vec![(sign.to_owned(), place)];
    }
    let letter = |mask: u32, (at, letter): (usize, char)| {
        if mask >> at & 1 == 1 { letter.to_ascii_uppercase() } else { letter }
    };
    let spelling = |mask| (sign.chars().enumerate().map(|one| letter(mask, one)).collect(), Place::Any);
    let all: BTreeSet<(String, Place)> = (0..1 << sign.len()).map(spelling).collect();
    all.into_iter().collect()
}

/// Whether a word may start after these bytes; true too after some that only look like an escape.
fn may_start(before: &[u8]) -> bool {
    let back = |by: usize| before.len().checked_sub(by).and_then(|at| before.get(at)).copied();
    let inside = back(1).is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    !inside || back(1) == Some(b'm') || back(2) == Some(b'\\') || back(6) == Some(b'\\')
}

/// Whether an `@` stands before whatever ends a user's name and password in a URL, or nothing ends them.
fn is_password(after: &[u8]) -> bool {
    let end = |&&byte: &&u8| matches!(byte, b'@' | b'/' | b'\'' | b'"' | b'\\') || byte.is_ascii_whitespace();
    after.iter().find(end).is_none_or(|&byte| byte == b'@')
}
