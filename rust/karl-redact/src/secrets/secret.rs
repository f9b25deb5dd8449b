//! Secret in a text.

/// Part of a text to replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Secret {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) family: &'static str,
    /// Rank; lower is more specific, and selects the family among overlapping matches.
    pub(super) rank: usize,
    /// True for a further part of the previous secret, which is removed and not counted.
    pub(super) part: bool,
    /// Index among the secrets in keys of a JSON text, from 1; 0 for others.
    pub(super) key: usize,
}

impl Secret {
    pub(super) fn new(from: usize, to: usize, family: &'static str, rank: usize) -> Self {
        Self { from, to, family, rank, part: false, key: 0 }
    }
}

/// Words, one of which is in each name of a secret.
pub(super) const NAMES: [&str; 9] = ["pass", "pwd", "secret", "token", "key", "auth", "cred", "_pat", "-pat"];

/// Rank of secrets without a form of their own.
pub(super) const RANK: usize = 1000;

/// Start of the mark of a replaced secret.
pub(super) const MARK: &str = "[REDACTED:";

/// Return the last character boundary of a text, up to `at`.
pub(super) fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// Return secrets ordered and disjoint: overlapping ones are merged, and the most specific form names them.
pub(super) fn merged(mut found: Vec<Secret>) -> Vec<Secret> {
    if found.len() < 2 {
        return found;
    }
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
