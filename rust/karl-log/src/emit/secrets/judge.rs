//! What tells a secret from a placeholder, a name or a piece of code.

/// Words of which a placeholder holds one, in small letters.
#[rustfmt::skip]
const PLACEHOLDERS: [&str; 23] = [
    "your", "example", "placeholder", "changeme", "change_me", "change-me", "change_this", "redacted", "xxxx", "****",
    "...", "dummy", "sample", "insert", "replace", "{{", "}}", "${", "$(", "environ", "getenv", "process.env",
    "undefined",
];

/// Passwords that stand for a password, perhaps with a number behind.
#[rustfmt::skip]
const STAND_INS: [&str; 20] = [
    "password", "passwd", "passphrase", "pass", "passw0rd", "p@ssw0rd", "pw", "secret", "token", "test", "testing",
    "user", "admin", "foo", "foobar", "value", "mypassword", "mypass", "userpass", "secretpassword",
];

/// Whether a text stands where a secret will.
pub(super) fn is_placeholder(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let word = lower.trim_end_matches(|letter: char| letter.is_ascii_digit());
    is_dull(text)
        || is_hole(text)
        || STAND_INS.contains(&word)
        || PLACEHOLDERS.iter().any(|word| lower.contains(word))
}

/// Whether a text is a variable or a hole in a template: `$TOKEN`, `%s`, `<token>`, `{token}`.
fn is_hole(text: &str) -> bool {
    let inner = |open: char, close: char| text.starts_with(open) && text.ends_with(close);
    let name = |text: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_:@*.-[]".contains(&byte);
        text.bytes().all(fits) && !is_random(text)
    };
    inner('<', '>')
        || inner('{', '}')
        || inner('%', '%')
        || inner('[', ']')
        || text.starts_with(['$', '%']) && name(&text[1..])
}

/// Whether a text is filler: `xxxxxxxx`, `********`, `0000`, `YOUR_KEY`.
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
struct Mix {
    lower: usize,
    upper: usize,
    digits: usize,
    /// ASCII that is neither a letter, a digit nor one of `_-./`.
    marks: usize,
    /// A digit beside a letter.
    turns: usize,
    /// A small letter before a capital or behind one.
    cases: usize,
    /// A capital behind a capital.
    capitals: usize,
}

impl Mix {
    fn of(text: &str) -> Self {
        let mut mix = Self::default();
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' => mix.lower += 1,
                b'A'..=b'Z' => mix.upper += 1,
                b'0'..=b'9' => mix.digits += 1,
                // Letters of other scripts are no marks: `Contraseña` is a word.
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

    fn letters(&self) -> usize {
        self.lower + self.upper
    }
}

/// Whether a text looks drawn at random: letters and digits mixed as no name mixes them.
pub(super) fn is_random(text: &str) -> bool {
    let mix = Mix::of(text);
    let enough = (text.len() / 7).max(3);
    let mixed = mix.turns >= 2 && mix.turns + mix.cases >= enough;
    text.len() >= 10 && !is_dull(text) && mix.letters() > 0 && (mixed || is_jagged(text, &mix))
}

/// Whether capitals stand in a text as in no name: often, and side by side.
fn is_jagged(text: &str, mix: &Mix) -> bool {
    mix.cases * 3 >= text.len() && (mix.turns >= 1 || text.len() >= 12 && mix.capitals >= 3)
}

/// Whether a text may be the value of a key or token: long, random, and no path, address or code.
pub(super) fn is_key(text: &str) -> bool {
    let bare = text.trim_end_matches('=');
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"+/_-.~:%=!@#$^&*()".contains(&byte);
    (16..=8192).contains(&text.len())
        && text.bytes().all(fits)
        && !is_placeholder(text)
        && !is_path(text)
        && !is_call(text)
        && !is_type(text)
        && bare.split(['_', '-', '.', '/', ':']).any(|part| part.len() >= 6 && is_mixed(part))
        && is_random(bare)
}

/// Whether a part of a value is no word with a number behind it.
fn is_mixed(part: &str) -> bool {
    let mix = Mix::of(part);
    mix.turns >= 2 || mix.cases * 3 >= part.len()
}

/// Whether a text may be a password: no word, name, number, path or code.
pub(super) fn is_password(text: &str) -> bool {
    let mix = Mix::of(text);
    let plain = mix.marks == 0 && (mix.digits == 0 || mix.letters() == 0);
    let jagged = is_jagged(text, &mix) && mix.capitals >= 2 && text.len() >= 10;
    (6..=256).contains(&text.len())
        && (!plain || jagged)
        && mix.letters() + mix.digits >= 3
        && (mix.letters() > 0 || mix.marks > 0 && mix.digits > 0)
        && !is_placeholder(text)
        && !is_path(text)
        && !is_code(text, &mix)
}

/// Whether a text names a file or an address.
fn is_path(text: &str) -> bool {
    let begins = ["/", "./", "../", "~/", "C:", "\\"].iter().any(|begin| text.starts_with(begin));
    text.contains("://") || (begins && !is_random(text)) || (begins && text.matches('/').count() > 2)
}

/// Whether a text is an expression or a name of a program rather than a value.
fn is_code(text: &str, mix: &Mix) -> bool {
    // `user_password2`, `db.pass1`, `sha256-hash`: words, each with a number behind it or none.
    let word = |part: &str| {
        let letters = part.trim_end_matches(|letter: char| letter.is_ascii_digit());
        letters.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    let words = text.split(['_', '-', '.', '/', ':']);
    let named = mix.marks == 0 && words.clone().count() > 1 && words.clone().all(word);
    let symbols = mix.letters() > 0 && mix.digits == 0 && mix.upper * mix.lower == 0 && mix.marks < 2;
    is_call(text) || named || symbols || text.contains("::") || text.contains("=>") || text.contains("->")
}

/// Whether a text begins with the call of a function.
fn is_call(text: &str) -> bool {
    let name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:&".contains(&byte);
    text.find('(').is_some_and(|at| text[..at].bytes().all(name))
}

/// Whether a text is the name of a type: it ends as one, or is mostly words of a capital and three small letters or more.
fn is_type(text: &str) -> bool {
    let ends =
        ["Key", "Token", "Secret", "Password", "Credential", "Credentials", "String", "Type", "Hasher"];
    let small = |letter: char| letter.is_ascii_lowercase();
    let words = text.split(|letter| !small(letter)).filter(|word| word.len() >= 3);
    let covered: usize = words.map(|word| word.len() + 1).sum();
    text.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && (ends.iter().any(|end| text.ends_with(end)) || covered * 3 >= Mix::of(text).letters() * 2)
}

/// Whether the value of a header `Bearer` is a token.
pub(super) fn is_bearer(text: &str) -> bool {
    !is_placeholder(text) && (is_random(text) || text.len() >= 40 && Mix::of(text).digits > 0)
}

/// Whether a text is the base64 of a name and a password.
pub(super) fn is_basic(text: &str) -> bool {
    let text = text.replace("%3D", "=").replace("%3d", "=").replace("\\u003d", "=");
    let decoded = base64(text.trim_end_matches('=').as_bytes());
    let printed = |bytes: Vec<u8>| {
        let colon = bytes.contains(&b':') && bytes.len() >= 5;
        colon && bytes.iter().all(|byte| (b' '..=b'~').contains(byte))
    };
    decoded.is_some_and(printed)
}

/// The bytes of a base64 text without its padding.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    };
    let (mut bits, mut held, mut out) = (0_u32, 0, Vec::with_capacity(text.len()));
    for &byte in text {
        bits = bits << 6 | u32::from(value(byte)?);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push(u8::try_from(bits >> held & 0xff).unwrap_or_default());
        }
    }
    Some(out)
}
