//! Form of a family of secrets.
//!
//! A pattern is tried at each of its signs, and matches from the sign on, or from `back` bytes before it.
//! `\b` at its start requires the start of a word. The group `secret`, or else the whole match, is replaced.
//! If two families match one text, the earlier one names it.
//!
//! Abbreviations denote a character in any encoding: `<eq>`, `<slash>`, `<b64>`, `<pad>`, `<dollar>` and `<ws>`.
//!
//! A wheel links `regex` with no Unicode tables but that of `\s`: `(?i-u:...)` may be used, `(?i)` and `\w`
//! may not.

use super::randomness::is_random;

/// Form of secrets.
#[derive(Clone, Copy)]
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) pattern: &'static str,
    pub(super) signs: &'static [&'static str],
    /// Bytes of a match before its sign.
    pub(super) back: usize,
    /// Further check of the secret.
    pub(super) check: fn(&str) -> bool,
    /// Check of the text before a match.
    pub(super) before: fn(&str) -> bool,
    /// True if the form is so short that base64 may match it by chance: then matches inside base64 are
    /// rejected.
    pub(super) alone: bool,
}

const fn any(_: &str) -> bool {
    true
}

pub(super) type PatternRow = (&'static str, &'static str, &'static [&'static str]);

pub(super) const fn family((name, pattern, signs): PatternRow) -> Family {
    Family { name, pattern, signs, back: 0, check: any, before: any, alone: false }
}

pub(super) const fn checked(row: PatternRow, check: fn(&str) -> bool) -> Family {
    Family { check, ..family(row) }
}

pub(super) const fn alone(row: PatternRow) -> Family {
    Family { alone: true, ..checked(row, is_random) }
}

pub(super) const fn behind(back: usize, row: PatternRow) -> Family {
    Family { back, ..family(row) }
}
