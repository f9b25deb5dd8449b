//! Distinction of secrets from placeholders, names and code.

use super::base64_text::decode;
use super::looks_like_code::{is_path, is_program, is_type};
use super::randomness::{Mix, is_dull, is_jagged, is_random};
use super::secret::NAMES;

/// Words of placeholders, in lower case.
#[rustfmt::skip]
const PLACEHOLDERS: [&str; 27] = [
    "your", "example", "placeholder", "changeme", "change_me", "change-me", "change_this", "redacted", "xxxx", "****",
    "...", "dummy", "sample", "insert", "replace", "{{", "}}", "${", "$(", "environ", "getenv", "process.env",
    "undefined", "#{", "%{", "@{", "<%",
];

/// Placeholder passwords, also with a number at the end.
#[rustfmt::skip]
const STAND_INS: [&str; 20] = [
    "password", "passwd", "passphrase", "pass", "passw0rd", "p@ssw0rd", "pw", "secret", "token", "test", "testing",
    "user", "admin", "foo", "foobar", "value", "mypassword", "mypass", "userpass", "secretpassword",
];

/// Return whether a text is a placeholder for a secret.
pub(super) fn is_placeholder(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let word = lower.trim_end_matches(|letter: char| letter.is_ascii_digit());
    is_dull(text)
        || is_hole(text)
        || STAND_INS.contains(&word)
        || PLACEHOLDERS.iter().any(|word| lower.contains(word))
}

/// Return whether a text is a variable or a template parameter: `$TOKEN`, `%s`, `<token>`, `{token}`,
/// `@TOKEN@`, `%(token)s`.
fn is_hole(text: &str) -> bool {
    let inner = |open: char, close: char| text.starts_with(open) && text.ends_with(close);
    inner('<', '>')
        || inner('{', '}')
        || inner('%', '%')
        || inner('[', ']')
        || text.strip_prefix("%(").is_some_and(|name| is_word(name.trim_end_matches([')', 's'])))
        || text.starts_with(['$', '%']) && is_word(&text[1..])
        || text.starts_with([':', '@', '&', '*']) && is_word(&text[1..]) && has_name(text)
        || is_between_marks(text)
}

/// Return whether a text may be a name: letters, digits and few symbols, not random.
fn is_word(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_:@*.-[]".contains(&byte);
    text.bytes().all(fits) && !is_random(text)
}

/// Return whether a text has a word of the name of a secret.
fn has_name(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    NAMES.iter().any(|name| lower.contains(name))
}

/// Return whether a text is a name between two equal marks: `@PASSWORD@`, `__TOKEN__`.
fn is_between_marks(text: &str) -> bool {
    let Some(mark) = text.chars().next().filter(|mark| "@#%!~_&|^".contains(*mark)) else { return false };
    let name = text.trim_matches(mark);
    text.ends_with(mark) && name.len() > 2 && is_word(name)
}

/// Return whether a text may be the value of a key or token: long, random, and not a path, address or code.
pub(super) fn is_key(text: &str) -> bool {
    let bare = text.trim_end_matches('=');
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"+/_-.~:%=!@#$^&*()".contains(&byte);
    (16..=8192).contains(&text.len())
        && text.bytes().all(fits)
        && !is_placeholder(text)
        && !is_path(text)
        && !is_program(text)
        && !is_type(text)
        && bare.split(['_', '-', '.', '/', ':']).any(|part| part.len() >= 6 && is_mixed(part))
        && is_random(bare)
}

/// Return whether a text may be a key under a name that says little: one word of capitals, small letters and
/// digits, which no hash and few identifiers are.
pub(super) fn is_mixed_key(text: &str) -> bool {
    let mix = Mix::of(text);
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    let many = mix.lower.min(mix.upper) >= 4 && mix.digits >= 2 && mix.turns >= 4 && mix.cases >= 6;
    plain && text.len() >= 24 && many && is_key(text)
}

/// Return whether a part of a value is anything but a word followed by a number.
fn is_mixed(part: &str) -> bool {
    let mix = Mix::of(part);
    mix.turns >= 2 || mix.cases * 3 >= part.len()
}

/// Return whether a text may be a password: not a word, name, number, path or code.
pub(super) fn is_password(text: &str) -> bool {
    let mix = Mix::of(text);
    let plain = mix.marks == 0 && (mix.digits == 0 || mix.letters() == 0);
    let jagged = is_jagged(text, &mix) && mix.capitals >= 2 && text.len() >= 10 || is_shuffled(text, &mix);
    (6..=256).contains(&text.len())
        && (!plain || jagged)
        && mix.letters() + mix.digits >= 3
        && (mix.letters() > 0 || mix.marks > 0 && mix.digits > 0)
        && !is_placeholder(text)
        && !is_path(text)
        && !is_code(text, &mix)
}

/// Return whether a text is of capitals and small letters that change too often for words: `KvQmTzRxBw`.
fn is_shuffled(text: &str, mix: &Mix) -> bool {
    mix.letters() == text.len()
        && text.len() >= 8
        && mix.upper.min(mix.lower) >= 2
        && mix.cases * 3 >= text.len()
        && !is_type(text)
        && !has_name(text)
}

/// Return whether a text is an expression or identifier of a program rather than a value.
fn is_code(text: &str, mix: &Mix) -> bool {
    // `user_password2`, `db.pass1`, `sha256-hash`: words, each with or without a number.
    let word = |part: &str| {
        let letters = part.trim_end_matches(|letter: char| letter.is_ascii_digit());
        letters.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    let words = text.split(['_', '-', '.', '/', ':']);
    let named = mix.marks == 0 && words.clone().count() > 1 && words.clone().all(word);
    let symbols = mix.letters() > 0 && mix.digits == 0 && mix.upper * mix.lower == 0 && mix.marks < 2;
    let union =
        text.contains('|') && text.split('|').all(|part| part.bytes().all(|b| b.is_ascii_alphabetic()));
    let signs = ["::", "=>", "->", "?."];
    is_program(text) || named || symbols || union || signs.iter().any(|sign| text.contains(sign))
}

/// Words that may occur in place of a password, in code, types, schemas and messages.
#[rustfmt::skip]
const WORDS: [&str; 63] = [
    "required", "optional", "string", "boolean", "integer", "number", "hidden", "nullable", "default", "missing",
    "invalid", "incorrect", "stdin", "prompt", "input", "field", "empty", "unset", "disabled", "enabled", "encrypted",
    "plaintext", "plain", "hashed", "current", "confirm", "unknown", "private", "public", "varchar", "object", "option",
    "options", "username", "database", "postgres", "server", "client", "request", "config", "settings", "params",
    "bytes", "buffer", "result", "response", "return", "correct", "changed", "expired", "kwargs", "getpass", "ignore",
    "requires", "repository", "unreserved", "reserved", "length", "wrong", "forgot", "reset", "update", "verify",
];

/// Return whether a text may be a password of letters or of digits alone, after an unambiguous name.
pub(super) fn is_weak(text: &str) -> bool {
    let letters = text.bytes().all(|byte| byte.is_ascii_lowercase());
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    (6..=32).contains(&text.len())
        && (digits || letters && !has_name(text) && !WORDS.contains(&text))
        && !is_placeholder(text)
}

/// Return whether a text may be a password of words, with capitals too, after the name of an environment variable:
/// there words like `CorrectHorse` or `correct-Horse` are not names of types.
pub(super) fn is_weak_value(text: &str) -> bool {
    is_weak(text) || is_cased(text) && !has_name(text)
}

/// Return whether a text consists of words with capitals and small letters: `HorseBattery`, `horse-Battery`.
pub(super) fn is_cased(text: &str) -> bool {
    let mix = Mix::of(text);
    let lower = text.to_ascii_lowercase();
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    mix.upper > 0
        && mix.lower > 0
        && (6..=64).contains(&text.len())
        && text.split(['-', '_']).all(is_word)
        && !WORDS.contains(&lower.as_str())
        && !is_placeholder(text)
}

/// Return whether a text may be the password in a field that holds nothing else: there `MyPassWord` is one, too.
pub(super) fn is_field(text: &str) -> bool {
    let letters = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-' || byte == b'_');
    let word = letters && (6..=64).contains(&text.len()) && !WORDS.contains(&text) && !is_placeholder(text);
    is_typed(text) || !text.starts_with(['-', '_']) && (word || is_cased(text))
}

/// Words of prose that no list of seed phrases has.
const PROSE: [&str; 24] = [
    "the", "and", "for", "are", "your", "from", "with", "was", "not", "but", "has", "its", "their", "will",
    "would", "words", "which", "been", "these", "our", "must", "should", "using", "them",
];

/// Numbers of words in a seed phrase.
const SEEDS: [usize; 5] = [12, 15, 18, 21, 24];

/// Return whether a text is a seed phrase of a wallet: so many short words, and none of prose.
pub(super) fn is_seed(text: &str) -> bool {
    let words = || text.split(|letter: char| !letter.is_ascii_lowercase()).filter(|word| word.len() > 1);
    let plain = |letter: char| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || " \t\n,.)\\\"'".contains(letter)
    };
    text.chars().all(plain)
        && SEEDS.contains(&words().count())
        && words().all(|word| (3..=8).contains(&word.len()) && !PROSE.contains(&word))
}

/// Return whether a text may be a password typed into a command.
pub(super) fn is_typed(text: &str) -> bool {
    !text.starts_with(['-', '$', '<', '/', '`']) && (is_password(text) || is_key(text) || is_weak(text))
}

/// Return whether a text may be a password typed into a command that takes one there, of words with capitals too.
pub(super) fn is_typed_word(text: &str) -> bool {
    is_typed(text) || !text.starts_with('-') && is_weak_value(text)
}

/// Return whether the part of a `Bearer` header after a user and a colon is a password.
pub(super) fn is_bearer_password(text: &str) -> bool {
    is_password(text) || is_key(text)
}

/// Return whether a word by itself is a strong password.
pub(super) fn is_strong(text: &str) -> bool {
    let mix = Mix::of(text);
    text.len() >= 8 && mix.lower > 0 && mix.upper > 0 && mix.turns >= 2 && is_password(text)
}

/// Return whether the value of a `Bearer` header is a token.
pub(super) fn is_bearer(text: &str) -> bool {
    !is_placeholder(text) && (is_random(text) || text.len() >= 40 && Mix::of(text).digits > 0)
}

/// Return whether a text is the base64 of a user name and a password.
pub(super) fn is_basic(text: &str) -> bool {
    let text = text.replace("%3D", "=").replace("%3d", "=").replace("\\u003d", "=");
    let decoded = decode(text.trim_end_matches('=').as_bytes());
    let printed = |bytes: Vec<u8>| {
        let colon = bytes.contains(&b':') && bytes.len() >= 5;
        colon && bytes.iter().all(|byte| (b' '..=b'~').contains(byte))
    };
    decoded.is_some_and(printed)
}
