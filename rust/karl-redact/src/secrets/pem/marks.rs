//! Begin and end marks of a private key.

use std::sync::LazyLock;

use regex::Regex;

use super::super::secret::floor;

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

pub(super) static END: LazyLock<Regex> = LazyLock::new(|| mark("END"));

static PUTTY: LazyLock<Regex> = LazyLock::new(|| compiled(r"\APrivate-Lines: ?[0-9]{1,4}"));

/// End of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Mark,
    Putty,
}

impl End {
    /// Return whether a text begins with the end of a key.
    pub(super) fn begins(self, rest: &str) -> bool {
        match self {
            Self::Mark => rest.starts_with("-----END") || rest.starts_with("---- END"),
            Self::Putty => rest.starts_with("Private-"),
        }
    }

    /// Return the length of the end mark at the start of a text.
    pub(super) fn find(self, near: &str) -> Option<usize> {
        match self {
            Self::Mark => {
                END.find(near).map(|mark| mark.end() + usize::from(near[mark.end()..].starts_with('-')))
            }
            Self::Putty => Some(0),
        }
    }
}

/// Return the length of the begin mark at a position, and the end of the key.
pub(super) fn begin(text: &str, from: usize) -> Option<(usize, End)> {
    let near = window(text, from);
    if let Some(mark) = PUTTY.find(near) {
        return Some((mark.end(), End::Putty));
    }
    let mark = BEGIN.find(near)?.end();
    Some((mark + usize::from(near[mark..].starts_with('-')), End::Mark))
}

/// Return the start of a text, up to the maximum length of a mark.
pub(super) fn window(text: &str, from: usize) -> &str {
    &text[from..floor(text, (from + 120).min(text.len()))]
}
