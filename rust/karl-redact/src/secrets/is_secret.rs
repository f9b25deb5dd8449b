//! Distinction of secrets from placeholders, names and code: what a text looks like, by its letters, digits and marks.

use super::base64_text::decode;
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

/// Return whether a text is filler: `xxxxxxxx`, `********`, `0000`, `YOUR_KEY`.
pub(super) fn is_dull(text: &str) -> bool {
    let bytes = text.as_bytes();
    let body = &bytes[bytes.len().saturating_sub(16)..];
    let mut kinds = [false; 256];
    for &byte in body {
        kinds[byte as usize] = true;
    }
    let runs = |byte: &u8| {
        let run = [*byte; 8];
        memchr::memmem::find(bytes, &run).is_some()
    };
    kinds.iter().filter(|&&kind| kind).count() < 3 || b"xX*".iter().any(runs) || text.contains("YOUR")
}

/// Counts of one text's letters, digits and changes between them.
#[derive(Default)]
pub(super) struct Mix {
    pub(super) lower: usize,
    pub(super) upper: usize,
    pub(super) digits: usize,
    /// ASCII other than letters, digits and `_-./`.
    pub(super) marks: usize,
    /// Digits beside letters.
    pub(super) turns: usize,
    /// Lower-case letters beside capitals.
    pub(super) cases: usize,
    /// Capitals after capitals.
    pub(super) capitals: usize,
}

impl Mix {
    pub(super) fn of(text: &str) -> Self {
        let mut mix = Self::default();
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' => mix.lower += 1,
                b'A'..=b'Z' => mix.upper += 1,
                b'0'..=b'9' => mix.digits += 1,
                // Letters of other scripts are not symbols: `Contraseña` is a word.
                b'_' | b'-' | b'.' | b'/' | 0x80.. => {}
                _ => mix.marks += 1,
            }
        }
        for pair in text.as_bytes().windows(2) {
            let [a, b] = [pair[0], pair[1]];
            if a.is_ascii_alphanumeric() && b.is_ascii_alphanumeric() {
                mix.turns += usize::from(a.is_ascii_digit() != b.is_ascii_digit());
                let letters = a.is_ascii_alphabetic() && b.is_ascii_alphabetic();
                mix.capitals += usize::from(a.is_ascii_uppercase() && b.is_ascii_uppercase());
                mix.cases += usize::from(letters && a.is_ascii_uppercase() != b.is_ascii_uppercase());
            }
        }
        mix
    }

    pub(super) fn letters(&self) -> usize {
        self.lower + self.upper
    }
}

/// Return whether a text looks random: it mixes letters and digits unlike a name.
pub(super) fn is_random(text: &str) -> bool {
    let mix = Mix::of(text);
    let enough = (text.len() / 7).max(3);
    let mixed = mix.turns >= 2 && mix.turns + mix.cases >= enough;
    text.len() >= 10 && !is_dull(text) && mix.letters() > 0 && (mixed || is_jagged(text, &mix))
}

/// Return whether capitals are distributed unlike in a name: many, and adjacent.
pub(super) fn is_jagged(text: &str, mix: &Mix) -> bool {
    mix.cases * 3 >= text.len() && (mix.turns >= 1 || text.len() >= 12 && mix.capitals >= 3)
}

/// Return whether a text names a file, an address or the place of a secret.
pub(super) fn is_path(text: &str) -> bool {
    let begins = ["/", "./", "../", "~/", "C:", "\\"].iter().any(|begin| text.starts_with(begin));
    let kept = ["vault:", "arn:", "ssm:", "secretsmanager:", "file:", "env:", "secret/", "keyring:"];
    text.contains("://")
        || kept.iter().any(|begin| text.starts_with(begin))
        || is_file(text)
        || (begins && !is_random(text))
        || (begins && text.matches('/').count() > 2)
}

/// Return whether a text names a file in a folder: `uploads/2024/x.png`.
fn is_file(text: &str) -> bool {
    let Some((folders, file)) = text.rsplit_once('/') else { return false };
    let Some((stem, ending)) = file.rsplit_once('.') else { return false };
    let name = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte));
    (2..=5).contains(&ending.len())
        && ending.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        && ending.starts_with(|letter: char| letter.is_ascii_lowercase())
        && !stem.is_empty()
        && name(folders)
        && name(stem)
}

/// Return whether a text is a call, an element of a collection or a regular expression.
pub(super) fn is_program(text: &str) -> bool {
    is_call(text) || is_element(text) || is_expression(text)
}

/// Return whether a text begins with an element of a collection: `sys.argv[1]`, `params[:password]`,
/// `form['pw1`.
fn is_element(text: &str) -> bool {
    let Some((name, index)) = text.split_once('[') else { return false };
    let named = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.$&!".contains(&byte));
    let closed = index.find(']').is_some_and(|at| {
        let behind = &index[at + 1..];
        behind.is_empty() || behind.starts_with(['.', '[', '(', ')', ']', '\'', '"'])
    });
    let cut = name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'.')
        && index.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-".contains(&byte));
    !name.is_empty() && named && (index.starts_with([':', '\'', '"']) || closed || cut && index.len() <= 8)
}

/// Return whether a text is a regular expression.
fn is_expression(text: &str) -> bool {
    const PARTS: [&str; 16] = [
        "[a-z", "[A-Z", "[0-9", "[^", "[\\", "(?:", "(?=", "(?!", "(?P", "(?i", "\\d", "\\w", "\\s", "\\S",
        ".*", ".+$",
    ];
    PARTS.iter().any(|part| text.contains(part))
}

/// Return whether a text begins with a function call.
fn is_call(text: &str) -> bool {
    let name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:&".contains(&byte);
    text.find('(').is_some_and(|at| text[..at].bytes().all(name))
}

/// Return whether a text is the name of a type: it has the ending of one, or consists mostly of words of a
/// capital and three lower-case letters or more.
pub(super) fn is_type(text: &str) -> bool {
    let ends =
        ["Key", "Token", "Secret", "Password", "Credential", "Credentials", "String", "Type", "Hasher"];
    let small = |letter: char| letter.is_ascii_lowercase();
    let words = text.split(|letter| !small(letter)).filter(|word| word.len() >= 3);
    let covered: usize = words.map(|word| word.len() + 1).sum();
    let letters = text.bytes().filter(u8::is_ascii_alphabetic).count();
    text.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && text.bytes().any(|byte| byte.is_ascii_uppercase())
        && (ends.iter().any(|end| text.ends_with(end)) || covered * 3 >= letters * 2)
}
