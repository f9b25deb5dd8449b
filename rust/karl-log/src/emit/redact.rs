//! A floor of patterns for secrets in training rows.
//!
//! It knows the forms that common services give their keys; it is no substitute for a scanner. Text is searched
//! after unescaping, so that an escape beside a key hides nothing, and every string of a row is searched: contents,
//! arguments, names and keys.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex, RegexSet};
use serde_json::{Map, Value};

use super::sign::Signs;

/// Family, pattern, and signs of which each of its matches holds one; what the group `secret` matches, or else the
/// whole match, is replaced. A `\b` in front also stands after an escape that ends in a letter: [`START`].
///
/// Only what needs no Unicode table but that of `\s` may be used (so `(?i-u:...)`, never `(?i)`).
const FAMILIES: [(&str, &str, &[&str]); 20] = [
    ("anthropic", r"\bsk-ant-[A-Za-z0-9_-]{20,}", &["sk-ant-"]),
    ("aws-access-key", r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b", &["AKIA", "ASIA"]),
    (
        "aws-secret-key",
        r#"(?i-u:aws_?secret_?access_?key)\\*["']?\s*[=:]\s*\\*["']?(?P<secret>[A-Za-z0-9/+=]{40})"#,
        &["aws_", "awss"],
    ),
    ("azure-storage", r"\bAccountKey=(?P<secret>[A-Za-z0-9+/]{86}==)", &["AccountKey"]),
    ("databricks", r"\bdapi[0-9a-f]{32}\b", &["dapi"]),
    ("digitalocean", r"\bdo[opr]_v1_[0-9a-f]{64}\b", &["doo_v1_", "dop_v1_", "dor_v1_"]),
    (
        "github",
        r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
    ),
    ("gitlab", r"\bgl(?:pat|dt|rt|soat)-[A-Za-z0-9_-]{20,}", &["glpat-", "gldt-", "glrt-", "glsoat-"]),
    ("google", r"\bAIza[A-Za-z0-9_-]{35}", &["AIza"]),
    ("hugging-face", r"\bhf_[A-Za-z0-9]{30,}\b", &["hf_"]),
    ("jwt", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}", &["eyJ"]),
    ("npm", r"\bnpm_[A-Za-z0-9]{36}\b", &["npm_"]),
    ("openai", r"\bsk-(?:[A-Za-z0-9]{32,}|(?:proj|svcacct|admin)-[A-Za-z0-9_-]{32,})", &["sk-"]),
    (
        "private-key",
        r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
        &["PRIVATE KEY"],
    ),
    ("pypi", r"\bpypi-AgE[A-Za-z0-9_-]{50,}", &["pypi-AgE"]),
    ("sendgrid", r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}", &["SG."]),
    ("slack", r"\b(?:xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{20,})", &["xox", "xapp-"]),
    (
        "slack-webhook",
        r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,}",
        &["hooks.slack.com"],
    ),
    ("stripe", r"\b[srp]k_live_[A-Za-z0-9]{16,}", &["sk_live_", "rk_live_", "pk_live_"]),
    ("url-password", r"\b[a-z][a-z0-9+.-]*://[^\s/:@'\x22\\]+:(?P<secret>[^\s/@'\x22\\]{6,})@", &["://"]),
];

/// Where a word may start: at the border of an ASCII word (a letter of another script beside a key hides nothing),
/// after an escape inside a JSON text that is itself a string, or after a colour of the terminal.
const START: &str = r"(?:\\(?:[bfnrt]|u[0-9a-fA-F]{4})|\x1b\[[0-9;]*m|(?-u:\b))";

struct Patterns {
    any: RegexSet,
    each: Vec<(&'static str, Regex)>,
}

impl Patterns {
    fn new() -> Result<Self, regex::Error> {
        let patterns = FAMILIES.map(|(_, pattern, _)| whole(pattern));
        let each = FAMILIES.iter().zip(&patterns);
        Ok(Self {
            any: RegexSet::new(&patterns)?,
            each: each
                .map(|((family, ..), pattern)| Ok((*family, Regex::new(pattern)?)))
                .collect::<Result<_, _>>()?,
        })
    }
}

/// A pattern with its borders spelt out.
fn whole(pattern: &str) -> String {
    let border = |text: &str| text.replace(r"\b", r"(?-u:\b)");
    match pattern.strip_prefix(r"\b") {
        None => border(pattern),
        Some(rest) if rest.contains("(?P<secret>") => format!("{START}{}", border(rest)),
        Some(rest) => format!("{START}(?P<secret>{})", border(rest)),
    }
}

#[expect(
    clippy::expect_used,
    reason = "without its patterns nothing may be written: better no row than a secret"
)]
static SIGNS: LazyLock<Signs> = LazyLock::new(|| {
    Signs::new(FAMILIES.iter().map(|&(_, pattern, signs)| (pattern, signs)))
        .expect("signs can be searched for")
});

/// Compiled where a sign stands: that takes as long as a small log.
#[expect(clippy::expect_used, reason = "as above")]
static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| Patterns::new().expect("every pattern is valid"));

/// How many secrets of each family were replaced.
pub type Found = BTreeMap<&'static str, u64>;

/// Replaces every secret in a row by `[REDACTED:family]` and counts it. Doing it twice changes nothing more.
pub(crate) fn redact(row: &mut Map<String, Value>, found: &mut Found) {
    let mut keys = false;
    for (key, value) in row.iter_mut() {
        let sign = SIGNS.stand_in(key);
        keys |= sign;
        match value {
            // Most of a row: no sign holds the `=` between a key and its value, so together they are no secret either.
            Value::String(text) if !sign && !SIGNS.stand_in(text) => {}
            _ => {
                named(key, value, found);
                visit(value, found);
            }
        }
    }
    if keys && row.keys().any(|key| suspect(key)) {
        for (key, value) in std::mem::take(row) {
            let mut clean = replace(&key, found).unwrap_or(key);
            // Two keys may have become one: neither value may go.
            while row.contains_key(&clean) {
                clean.push('+');
            }
            row.insert(clean, value);
        }
    }
}

/// A text that comes from a log without its secrets: for reports.
#[must_use]
pub fn redacted(text: &str) -> String {
    replace(text, &mut Found::new()).unwrap_or_else(|| text.to_owned())
}

/// A value that is a secret by the name of its key: together they read as an assignment.
fn named(key: &str, value: &mut Value, found: &mut Found) {
    let Value::String(text) = value else { return };
    let head = format!("{key}=");
    let clean = replace(&(head.clone() + text), found);
    if let Some(clean) = clean.as_deref().and_then(|clean| clean.strip_prefix(&head)) {
        clean.clone_into(text);
    }
}

fn visit(value: &mut Value, found: &mut Found) {
    match value {
        Value::String(text) => {
            if let Some(clean) = replace(text, found) {
                *text = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, found)),
        Value::Object(object) => redact(object, found),
        _ => {}
    }
}

/// Whether some pattern matches, perhaps on what is replaced already.
pub(super) fn suspect(text: &str) -> bool {
    SIGNS.stand_in(text) && PATTERNS.any.is_match(text)
}

/// The text without its secrets; `None` where it has none.
fn replace(text: &str, found: &mut Found) -> Option<String> {
    if !SIGNS.stand_in(text) {
        return None;
    }
    let hits = PATTERNS.any.matches(text);
    let mut clean: Option<String> = None;
    for (family, pattern) in hits.iter().map(|hit| &PATTERNS.each[hit]) {
        let from = clean.as_deref().unwrap_or(text);
        let next = pattern.replace_all(from, |hit: &Captures<'_>| mask(hit, family, found)).into_owned();
        clean = Some(next);
    }
    clean.filter(|clean| clean != text)
}

fn mask(hit: &Captures<'_>, family: &'static str, found: &mut Found) -> String {
    let all = hit.get_match();
    let secret = hit.name("secret").unwrap_or(all);
    let text = all.as_str();
    if secret.as_str().starts_with("[REDACTED:") {
        return text.to_owned();
    }
    *found.entry(family).or_default() += 1;
    let (before, after) = (secret.start() - all.start(), secret.end() - all.start());
    format!("{}[REDACTED:{family}]{}", &text[..before], &text[after..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(PATTERNS.each.len(), FAMILIES.len());
    }

    /// The tests link a `regex` with all tables, a wheel one without: there such a pattern would not compile.
    #[test]
    fn no_pattern_asks_for_a_unicode_table_that_a_wheel_lacks() {
        for (family, pattern, _) in FAMILIES {
            let asks =
                ["(?i)", "(?i:", r"\p", r"\P", r"\w", r"\W"].iter().any(|table| pattern.contains(table));
            assert!(!asks, "{family}");
        }
    }

    /// What a match of a pattern looks like, without its borders.
    fn matched() -> impl proptest::strategy::Strategy<Value = String> {
        use proptest::strategy::{Strategy, Union};
        let plain = FAMILIES.map(|(_, pattern, _)| pattern.replace(r"\b", "").replace(r"|\z", ""));
        Union::new(plain.map(|pattern| proptest::string::string_regex(&pattern).unwrap().boxed()))
    }

    proptest::proptest! {
        /// Cut anywhere and put together anew, so that signs stand beside what they need and beside what they do not.
        #[test]
        fn no_secret_stands_where_no_sign_does(
            secret in matched(),
            other in matched(),
            cut in proptest::prelude::any::<proptest::sample::Index>(),
            before in "[ a-z_\\\\=@/]{0,3}|\\\\u00e9|\\\\n|\x1b\\[0;1m|é|.{0,8}",
        ) {
            let half = other.char_indices().map(|(at, _)| at).nth(cut.index(other.chars().count()));
            for text in [format!("{before}{secret}"), format!("{}{before}{secret}", &other[..half.unwrap_or(0)])] {
                assert!(SIGNS.stand_in(&text) || !PATTERNS.any.is_match(&text), "{text:?}");
            }
        }
    }

    #[test]
    fn words_that_only_look_like_a_secret_are_passed_over() {
        for text in ["task-sk-", "https://example.org/a@b", "awssome", "laws", "thf_x", "a PRIVATE key"] {
            let stands = SIGNS.stand_in(text);
            assert_eq!(stands, text.contains("-sk-") || text.contains("awss"), "{text}");
        }
    }
}
