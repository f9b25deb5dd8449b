//! A floor of patterns for secrets in training rows.
//!
//! ```text
//! text ──► JSON? ──► each of its strings ──► signs ──► pattern of the family ──► placeholder? ──► one replacement
//!                                                  └─► name and value, address, private key ──┘
//! ```
//!
//! It knows the forms that common services give their keys, and names of what holds one; it is no substitute for a
//! scanner. A text that is JSON stays JSON with all of its other bytes, however deep the secret lies in it.

mod assigned;
mod beside;
mod code;
mod cursor;
mod families;
mod json;
mod judge;
mod list;
mod named;
mod pem;
mod place;
mod randomness;
mod search;
mod secret;
mod shapes;
mod url;
mod value;

use std::collections::BTreeMap;

use secret::{MARK, Secret};
use serde_json::Value;

/// How many secrets of each family were found.
pub type SecretCounts = BTreeMap<&'static str, u64>;

/// How often a text is gone over: what stands beside a replaced secret may show another.
const ROUNDS: usize = 4;

/// A text without its secrets, which are counted; `None` where it has none. Doing it twice changes nothing more.
#[must_use]
pub fn redact(text: &str, found: &mut SecretCounts) -> Option<String> {
    let mut clean: Option<String> = None;
    for _ in 0..ROUNDS {
        let now = clean.as_deref().unwrap_or(text);
        let secrets = json::secrets(now, 0);
        if secrets.is_empty() {
            break;
        }
        add(found, &secrets);
        clean = Some(replaced(now, &secrets));
    }
    clean
}

/// A text that comes from a log without its secrets: for reports.
#[must_use]
pub fn redacted(text: &str) -> String {
    redact(text, &mut SecretCounts::new()).unwrap_or_else(|| text.to_owned())
}

/// A value without the secrets in its strings, as a row that holds it is written.
pub(crate) fn cleaned(value: Value) -> Value {
    let clean = redact(&value.to_string(), &mut SecretCounts::new());
    clean.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(value)
}

/// Counts the secrets that stand in a text.
pub fn count(text: &str, found: &mut SecretCounts) {
    add(found, &search::search(text));
}

fn add(found: &mut SecretCounts, secrets: &[Secret]) {
    for secret in secrets.iter().filter(|secret| !secret.part) {
        *found.entry(secret.family).or_default() += 1;
    }
}

/// A text with one mark in the place of each secret.
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

/// What stands for a secret. Two keys of one object may not become one: neither value may go.
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
