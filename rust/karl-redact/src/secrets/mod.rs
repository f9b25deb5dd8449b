//! Pattern-based detection of secrets in training rows.
//!
//! ```text
//! text ──► JSON? ──► its strings with a trace ──► signs ──► pattern of the family ──► placeholder? ──► one replacement
//!                                                     └─► name and value, address, private key ──┘
//! ```
//!
//! The patterns cover the keys of common services, and names of variables that hold secrets; this does not
//! replace a scanner. A text that is JSON stays JSON with all of its other bytes, at any depth of the secret.

mod assigned;
mod base64_text;
mod is_secret;
mod json;
mod json_text;
mod named;
mod outlines;
mod pem;
mod rare_bytes;
mod search;
mod secret;
mod service_tokens;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod sign_filter;
mod signs;
mod url;

use std::collections::BTreeMap;

pub use json_text::is_json;
use secret::{MARK, Secret};

/// Number of secrets by family.
pub type SecretCounts = BTreeMap<&'static str, u64>;

/// Maximum number of passes over a text: replacing a secret may reveal another beside it.
const ROUNDS: usize = 4;

/// Replace and count the secrets of a text; `None` if it has none. The result is a fixed point.
#[must_use]
pub fn redact(text: &str, found: &mut SecretCounts) -> Option<String> {
    let mut clean: Option<String> = None;
    for _ in 0..ROUNDS {
        let now = clean.as_deref().unwrap_or(text);
        let secrets = json::secrets(now, 0);
        if secrets.is_empty() {
            break;
        }
        tally(found, &secrets);
        clean = Some(replaced(now, &secrets));
    }
    clean
}

/// Return a text from a log without its secrets: for reports.
#[must_use]
pub fn redacted(text: &str) -> String {
    redact(text, &mut SecretCounts::new()).unwrap_or_else(|| text.to_owned())
}

/// Count the secrets of a text.
pub fn count(text: &str, found: &mut SecretCounts) {
    tally(found, &json::plain(text, 0));
}

/// Add the counts of another text.
pub fn add(found: &mut SecretCounts, others: SecretCounts) {
    for (family, count) in others {
        *found.entry(family).or_default() += count;
    }
}

fn tally(found: &mut SecretCounts, secrets: &[Secret]) {
    for secret in secrets.iter().filter(|secret| !secret.part) {
        *found.entry(secret.family).or_default() += 1;
    }
}

/// Replace each secret of a text by a mark.
fn replaced(text: &str, secrets: &[Secret]) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut at = 0;
    for secret in secrets {
        clean.push_str(&text[at..secret.from]);
        if !secret.part {
            clean.push_str(&mark(text, secret));
        }
        at = secret.to;
    }
    clean + &text[at..]
}

/// Return the mark that replaces a secret. Two keys of one object must not become equal: no value may be
/// lost.
fn mark(text: &str, secret: &Secret) -> String {
    let mut mark = format!("{}{}]", MARK, secret.family);
    if secret.key > 0 {
        mark.push_str(&"+".repeat(secret.key - 1));
        while text.contains(&format!("{mark}\"")) {
            mark.push('+');
        }
    }
    mark
}

/// Return whether a pattern may ask for a table of Unicode, which the `regex` of a wheel does not have.
#[cfg(test)]
fn needs_unicode_table(pattern: &str) -> bool {
    ["(?i)", "(?i:", r"\p", r"\P", r"\w", r"\W", r"\d", r"\D"].iter().any(|table| pattern.contains(table))
}
