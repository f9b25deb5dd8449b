//! One secret in a text.

/// A part of a text that is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Secret {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) family: &'static str,
    /// The lower, the more its form says; it names what two families match.
    pub(super) rank: usize,
    /// Whether it is a further part of the secret before it, which is removed and not counted.
    pub(super) part: bool,
    /// Which of the secrets in keys of a JSON text it is, from 1; 0 for others.
    pub(super) key: usize,
}

impl Secret {
    pub(super) fn new(from: usize, to: usize, family: &'static str, rank: usize) -> Self {
        Self { from, to, family, rank, part: false, key: 0 }
    }
}

/// Words of which each name of a secret holds one.
pub(super) const NAMES: [&str; 7] = ["pass", "pwd", "secret", "token", "key", "auth", "cred"];

/// The rank of what has no form of its own.
pub(super) const RANK: usize = 1000;

/// What a replaced secret begins with.
pub(super) const MARK: &str = "[REDACTED:";

/// The last place in a text, up to `at`, where a character begins or the text ends.
pub(super) fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// Secrets in order and apart: those that overlap are one, and the most telling form names it.
pub(super) fn merged(mut found: Vec<Secret>) -> Vec<Secret> {
    found.sort_by_key(|secret| (secret.from, secret.to));
    let mut all: Vec<Secret> = Vec::with_capacity(found.len());
    for secret in found {
        match all.last_mut().filter(|last| secret.from < last.to) {
            None => all.push(secret),
            Some(last) => {
                last.to = last.to.max(secret.to);
                last.part &= secret.part;
                if secret.rank < last.rank {
                    (last.rank, last.family) = (secret.rank, secret.family);
                }
            }
        }
    }
    all
}
