//! Secrets by the name of what they are assigned to: `DB_PASSWORD=...`, `"apiKey": "..."`, `--token ...`.

use super::judge::is_key;
use super::named::{LONGEST, family, is_passworded, kind};
use super::search::{RANK, Secret, floor};

/// How long a value is, at most.
const LONGEST_VALUE: usize = 4096;

/// The secret that stands behind a name with one of its words at a place, and where the name ends.
pub(super) fn secret(text: &str, from: usize, to: usize) -> (usize, Option<Secret>) {
    let bytes = text.as_bytes();
    let part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
    let begin = from
        - bytes[..from].iter().rev().take(LONGEST).take_while(|byte| part(byte) || **byte == b'.').count();
    let end = to + bytes[to..].iter().take(LONGEST).take_while(part).count();
    let name = &text[begin..end];
    // Most words that stand here are those of sentences and code.
    let follows = bytes.get(end).is_some_and(|byte| b"\"'`\\=:(,>%]?& \t\n\x1b".contains(byte));
    // `Pass::run`, `arn:aws:...:secret:name`.
    let path =
        bytes[end..].starts_with(b"::") || bytes[end..].starts_with(b":") && bytes[..begin].ends_with(b":");
    if !follows || path || kind(name).is_none() {
        return (end, None);
    }
    let secret = Cursor { text, at: end }.value(name);
    // Names inside of a long value are none, and looking at each would take a time that grows with its square.
    let inside = |byte: &&u8| !byte.is_ascii_whitespace() && !b"\"'`\\<>,;&|()".contains(byte);
    let run = bytes[end..].iter().take(LONGEST_VALUE).take_while(inside).count();
    (if run > 256 { end + run } else { end }, secret)
}

/// Reads what stands between a name and its value, in any encoding.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

/// How a value begins.
enum Opening<'a> {
    /// With a quote, spelt so.
    Quote(&'a str),
    Bare,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The secret that is the value of a name that ends here.
    fn value(mut self, name: &str) -> Option<Secret> {
        let quoted = self.quote().is_some();
        self.skip_any(&["]", ")", "?"]);
        let spaces = self.space();
        let sign = self.sign(quoted, spaces)?;
        // `pass` alone is a verb, too.
        let verb = name.rsplit('.').next().is_some_and(|word| word.eq_ignore_ascii_case("pass"));
        if verb && !matches!(sign, "=" | ":" | "=>" | "%3D" | "%3A") {
            return None;
        }
        self.space();
        let opening = self.quote().map_or(Opening::Bare, Opening::Quote);
        match opening {
            Opening::Quote(quote) => self
                .inside(name, quote)
                .filter(|secret| sign != " " || self.is_sure(name, &self.text[secret.from..secret.to])),
            Opening::Bare if quoted || sign == "(" || sign == "," => self.typed(name),
            Opening::Bare => self.bare(name, sign).or_else(|| self.typed(name)),
        }
    }

    /// The value up to the quote that closes it.
    fn inside(&self, name: &str, quote: &str) -> Option<Secret> {
        let length = closing(self.rest(), quote)?;
        let value = &self.rest()[..length];
        let broken = value.contains([' ', '\n', '\t'])
            && !value.starts_with("Bearer ")
            && !value.starts_with("Basic ");
        if broken {
            return None;
        }
        let family = family(name, &plain(value))?;
        Some(Secret::new(self.at, self.at + length, family, RANK))
    }

    /// A value without quotes: up to a space, or to what ends one in code.
    fn bare(&self, name: &str, sign: &str) -> Option<Secret> {
        let environment = sign == "=" && !name.bytes().any(|byte| byte.is_ascii_lowercase());
        let ends = |byte: u8| {
            byte.is_ascii_whitespace()
                || b"\"'`\\<>".contains(&byte)
                || byte == 0x1b
                || (!environment && b",;|)}]".contains(&byte))
                || byte == b'&'
        };
        let mut length = self.rest().bytes().take(LONGEST_VALUE).take_while(|&byte| !ends(byte)).count();
        length = floor(self.rest(), length);
        let escapes = ["%26", "%20", "%0A", "%0a", "%0D", "%22", "%27", "%7D", "%2C", "%5C"];
        let encoded = sign
            .starts_with('%')
            .then(|| escapes.iter().filter_map(|end| self.rest()[..length].find(end)).min());
        length = encoded.flatten().unwrap_or(length);
        let value = self.rest()[..length].trim_end_matches([',', ';', '.', ':']);
        let family = family(name, value)?;
        let sure = environment || sign != " " || self.is_sure(name, value);
        // `PASS: TestOfIt` is what runs of tests say, and `key: Type = 3` declares.
        let told = sign == ":" && matches!(name, "pass" | "Pass" | "PASS");
        let declared = self.rest()[length..].trim_start_matches(' ').starts_with('=');
        let strong = |value: &str| value.len() >= 10 && is_key(value) || is_passworded(value);
        let code =
            !environment && !name.starts_with('-') && value.contains(['(', '[', '{']) && !strong(value);
        (sure && !code && !told && !declared)
            .then(|| Secret::new(self.at, self.at + value.len(), family, RANK))
    }

    /// Whether a value that follows a name without a sign is assigned to it.
    fn is_sure(&self, name: &str, value: &str) -> bool {
        is_key(value) || name.starts_with('-') || is_set(self.text, self.at, name)
    }

    /// The value behind the type of a variable: `password: str = "..."`, `const apiKey string = "..."`.
    fn typed(&mut self, name: &str) -> Option<Secret> {
        let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_&<>?[]|. *':".contains(byte);
        let length = self.rest().bytes().take(40).take_while(part).count();
        if length == 0 || !self.rest()[length..].starts_with('=') {
            return None;
        }
        self.at += length + 1;
        self.space();
        let quote = self.quote()?;
        self.inside(name, quote)
    }

    /// Passes over spaces and colours of the terminal; whether there were any.
    fn space(&mut self) -> bool {
        let from = self.at;
        loop {
            let rest = self.rest();
            let spaces = rest.len() - rest.trim_start_matches([' ', '\t']).len();
            let colour =
                ["\u{1b}[", "\\u001b[", "\\x1b[", "\\033["].iter().find(|begin| rest.starts_with(**begin));
            match colour {
                _ if spaces > 0 => self.at += spaces,
                _ if rest.starts_with("%20") => self.at += 3,
                Some(begin) => {
                    let number = rest
                        .bytes()
                        .skip(begin.len())
                        .take_while(|byte| !byte.is_ascii_alphabetic())
                        .take(12)
                        .count();
                    self.at = floor(self.text, self.at + begin.len() + number + 1);
                }
                None => return self.at > from,
            }
        }
    }

    /// Passes over one of some texts.
    fn skip_any(&mut self, wanted: &[&str]) {
        if let Some(one) = wanted.iter().find(|one| self.rest().starts_with(**one)) {
            self.at += one.len();
        }
    }

    /// What assigns: a sign, or a space between a name and a value.
    fn sign(&mut self, quoted: bool, spaces: bool) -> Option<&'static str> {
        const SIGNS: [&str; 16] = [
            "=>",
            ":=",
            "==",
            "=",
            ":",
            "%3D%3D",
            "%3D",
            "%3d",
            "%3A",
            "%3a",
            "%253D",
            "%253A",
            "\\u003d",
            "\\u003a",
            "\\\\u003d",
            "=3D",
        ];
        let rest = self.rest();
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            self.at += sign.len();
            return Some(if sign.starts_with('\\') { "=" } else { sign });
        }
        if spaces && rest.starts_with("is: ") {
            self.at += "is:".len();
            return Some(":");
        }
        if let Some(length) = paired(rest, spaces) {
            self.at += length;
            return Some(":");
        }
        match rest.as_bytes().first() {
            Some(b'(') if !quoted => Some(self.take("(")),
            Some(b',') if quoted => Some(self.take(",")),
            Some(b'>') if !quoted => Some(self.take(">")),
            _ if spaces && !quoted => Some(" "),
            _ => None,
        }
    }

    fn take(&mut self, sign: &'static str) -> &'static str {
        self.at += sign.len();
        sign
    }

    /// A quote as some encoding spells it.
    fn quote(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        let slashes = rest.bytes().take_while(|&byte| byte == b'\\').count();
        let length = match rest.as_bytes().get(slashes) {
            Some(b'"' | b'\'' | b'`') => Some(slashes + 1),
            Some(b'u') if slashes > 0 => ["u0022", "u0027"]
                .iter()
                .find(|quote| rest[slashes..].starts_with(**quote))
                .map(|quote| slashes + quote.len()),
            _ => ["%22", "%27", "%2522", "&quot;", "&#34;", "&#39;", "&#x27;", "&apos;"]
                .iter()
                .find(|quote| rest.starts_with(**quote))
                .map(|quote| quote.len()),
        }?;
        self.at += length;
        Some(&rest[..length])
    }
}

/// How long a value is in front of the quote that closes it.
fn closing(rest: &str, quote: &str) -> Option<usize> {
    let slashes = quote.bytes().take_while(|&byte| byte == b'\\').count();
    let (mark, all) = (&quote[slashes..], rest.as_bytes());
    let mut from = 0;
    loop {
        let at = from + rest.get(from..floor(rest, (from + 8192).min(rest.len())))?.find(mark)?;
        let before = all[..at].iter().rev().take_while(|&&byte| byte == b'\\').count();
        if before % (2 * (slashes + 1)) == slashes || before < slashes {
            return Some(at - before.min(slashes));
        }
        from = at + mark.len();
    }
}

/// A value without the escapes of its encodings, to be judged.
fn plain(value: &str) -> String {
    value
        .replace("%3D", "=")
        .replace("%2B", "+")
        .replace("%2F", "/")
        .replace("%2b", "+")
        .replace("%2f", "/")
        .replace("\\u003d", "=")
        .replace("\\u0026", "&")
        .replace('\\', "")
}

/// How long the rest of a pair is whose first half is a name: `name: DB_PASSWORD, value: `.
fn paired(rest: &str, spaces: bool) -> Option<usize> {
    let between =
        |byte: &u8| byte.is_ascii_whitespace() || b",\\\"'".contains(byte) || *byte == b'n' || *byte == b'-';
    let gap = rest.bytes().take(48).take_while(between).count();
    let behind = rest[gap..].strip_prefix("value").or_else(|| rest[gap..].strip_prefix("Value"))?;
    let sign = behind.trim_start_matches(['\\', '"', '\'', ' ']);
    let found = (gap > 0 || spaces) && sign.starts_with([':', '=']);
    found.then(|| rest.len() - sign.len() + 1)
}

/// Whether a name without a sign is set by the word in front of it: `ENV NAME value`, `configure set name value`.
fn is_set(text: &str, at: usize, name: &str) -> bool {
    let before = text[..at].trim_end_matches(['"', '\'', '\\', ' ']);
    let before = before.strip_suffix(name).unwrap_or(before).trim_end();
    let tail = before[floor(before, before.len().saturating_sub(12))..].to_ascii_lowercase();
    ["set", "env", "arg", "export", "-x", "setx", "identified", "with"]
        .iter()
        .any(|word| tail.ends_with(word))
}
