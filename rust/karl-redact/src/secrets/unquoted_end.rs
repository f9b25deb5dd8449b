//! Ends of values without a closing quote.

use super::secret::floor;

/// Maximum length of a value.
const LONGEST: usize = 4096;

/// Escapes that also end a value after a percent-encoded sign.
const ENCODED_ENDS: [&str; 14] = [
    "%26", "%20", "%0A", "%0a", "%0D", "%22", "%27", "%7D", "%2C", "%5C", "%2526", "%2520", "%2522", "%250A",
];

/// Words that may precede an assignment that fills a line.
const BEFORE: [&str; 12] =
    ["export", "ENV", "ARG", "env", "set", "setenv", "declare", "-x", "local", "readonly", "SET", "-e"];

/// Syntax around a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Syntax {
    /// Sign between name and value.
    pub(super) sign: &'static str,
    /// True if name, sign and value fill a line.
    pub(super) line: bool,
    /// True if the pair is in the query of a URL or in a form.
    pub(super) query: bool,
}

impl Syntax {
    /// Return the syntax of a value by the text before its name.
    pub(super) fn of(text: &str, name: usize, sign: &'static str) -> Self {
        let query = sign == "=" && text[..name].ends_with(['?', '&']);
        Self { sign, line: !query && is_line_start(text, name), query }
    }

    /// Return the length of the value at the start of a text.
    pub(super) fn length(self, rest: &str) -> usize {
        let rest = &rest[..floor(rest, LONGEST.min(rest.len()))];
        let length = self.plain_length(rest);
        let encoded = || ENCODED_ENDS.iter().filter_map(|end| rest[..length].find(end)).min();
        self.sign.starts_with('%').then(encoded).flatten().unwrap_or(length)
    }

    fn plain_length(self, rest: &str) -> usize {
        let bytes = rest.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let ends = match byte {
                b'`' | 0x1b => true,
                b'\\' => match escape(&rest[at..]) {
                    Some(width) => {
                        at += width;
                        continue;
                    }
                    None => true,
                },
                b'<' if self.sign == ">" => true,
                _ if self.sign == ">" => byte == b'\n',
                b'&' => self.query || ends_pair(&rest[at + 1..]),
                b'<' => is_tag(&rest[at + 1..]),
                b',' | b';' | b'|' | b')' | b'}' | b']' | b'>' => self.closes(&rest[at..]),
                b'"' | b'\'' => !self.line || !bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric),
                _ => byte.is_ascii_whitespace(),
            };
            if ends {
                return at;
            }
            at += 1;
        }
        at
    }

    /// Return whether the delimiter at the start of a text ends the value before it.
    fn closes(self, rest: &str) -> bool {
        let behind = rest.trim_start_matches([',', ';', '|', ')', '}', ']', '>', '"', '\'', '&']);
        let marks = &rest[..rest.len() - behind.len()];
        let over =
            behind.is_empty() || behind.starts_with(|letter: char| letter.is_whitespace() || letter == '\\');
        if over && self.line && self.sign == "=" && !marks.contains(['"', '\'']) {
            return false;
        }
        over || marks.contains(['"', '\''])
            || behind.starts_with(['.', '`', '<', '[', '{'])
            || is_pair(behind)
    }
}

/// Return the length of an escaped character of a value, or `None` if the escape ends it.
fn escape(rest: &str) -> Option<usize> {
    let slashes = rest.bytes().take_while(|&byte| byte == b'\\').count();
    let next = *rest.as_bytes().get(slashes)?;
    let symbol = next.is_ascii_punctuation() && !b"\"'`".contains(&next);
    symbol.then_some(slashes + 1)
}

/// Return whether the text after `&` shows that the value before it has ended.
fn ends_pair(rest: &str) -> bool {
    let rest = match rest.strip_prefix("amp;") {
        Some(rest) => return is_pair(rest),
        None => rest,
    };
    let entity = ["quot;", "apos;", "lt;", "gt;", "nbsp;", "#34;", "#39;", "#x27;", "#x22;", "#10;"];
    rest.is_empty()
        || rest.starts_with(|letter: char| letter == '&' || letter.is_whitespace())
        || entity.iter().any(|name| rest.starts_with(name))
        || is_pair(rest)
}

/// Return whether a text begins with a name and a sign.
fn is_pair(rest: &str) -> bool {
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.[] ".contains(byte);
    let name = rest.bytes().take(40).take_while(part).count();
    rest.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && rest[name..].starts_with(['=', ':'])
}

/// Return whether the text after `<` is the rest of a tag, or empty.
fn is_tag(rest: &str) -> bool {
    let name = rest.bytes().take(40).take_while(u8::is_ascii_alphanumeric).count();
    rest.is_empty()
        || rest.starts_with(|letter: char| "/!<".contains(letter) || letter.is_whitespace())
        || rest.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && rest[name..].starts_with(['>', '/', ' '])
}

/// Return whether a name at a position begins its line, apart from words like `export`, a diff mark and a
/// number.
fn is_line_start(text: &str, name: usize) -> bool {
    let near = &text[floor(text, name.saturating_sub(64))..name];
    let start = near.rfind('\n').map(|at| at + 1).max(near.rfind("\\n").map(|at| at + 2));
    let lead = match start {
        Some(start) => &near[start..],
        None if near.len() == name => near,
        None => return false,
    };
    let lead = lead.trim_start_matches(['+', '-', '>', '#', ' ', '\t', '@']);
    let digits = lead.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let lead = digits.trim_start_matches(['\u{2192}', ':', '|', '\t', ' ', '+', '-']);
    lead.split_ascii_whitespace().all(|word| BEFORE.contains(&word))
}

/// Return a value without the escapes of its encodings, for the checks.
pub(super) fn plain(value: &str) -> String {
    value
        .replace("%3D", "=")
        .replace("%2B", "+")
        .replace("%2F", "/")
        .replace("%2b", "+")
        .replace("%2f", "/")
        .replace("\\u003d", "=")
        .replace("\\u0026", "&")
        .replace("&amp;", "&")
        .replace('\\', "")
}
