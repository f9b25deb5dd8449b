//! Texts of JSON: whether a text is one, as the reader of logs accepts it, and what its strings say.
//!
//! Secrets are replaced inside the strings of JSON, so the structure must be certain. Nothing is built, and no text
//! can exhaust the stack: an open container is one bit of a word.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// Nesting limit of `serde_json`, which reads what is written.
const DEPTH_MAX: u32 = 127;

/// Beginning of the keys that `serde_json` reserves for numbers and raw text: it would not read them as keys.
const RESERVED: &str = "$serde_json::private::";

/// Words for values. Python's `json.dumps` writes the last three.
const WORDS: [&str; 6] = ["true", "false", "null", "NaN", "Infinity", "-Infinity"];

/// Return whether a text is one value of JSON, nested up to 127 levels; `NaN`, `Infinity` and `-Infinity` are values
/// too. Half of a surrogate pair is refused, and so is a key that `serde_json` reserves.
#[must_use]
pub fn is_json(text: &str) -> bool {
    strings(text).is_some()
}

/// Return the strings of a text, keys included, in order; `None` if the text is not JSON.
pub(super) fn strings(text: &str) -> Option<Vec<Literal<'_>>> {
    // Without an early end this is vector code.
    let has_controls = text.bytes().fold(false, |is_any, byte| is_any | (byte < 0x20));
    let mut reader = Reader { text, at: 0, has_controls, strings: Vec::new() };
    reader.document()?;
    Some(reader.strings)
}

/// String of a JSON text.
#[derive(Clone, Copy, Default)]
pub(super) struct Literal<'a> {
    /// Start of its content.
    pub(super) from: usize,
    /// Its content as it is written.
    pub(super) raw: &'a str,
    pub(super) has_escapes: bool,
    /// True if it has an escape of a printed letter other than a quote or a backslash: a sign may be hidden in it.
    pub(super) has_rare_escapes: bool,
    pub(super) is_key: bool,
}

/// Position in a text. Every step returns `None` if the text is not JSON.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// True if the text has a control character, which may only stand between strings.
    has_controls: bool,
    strings: Vec<Literal<'a>>,
}

impl<'a> Reader<'a> {
    fn document(&mut self) -> Option<()> {
        // One bit for each open container, the innermost lowest: 1 for an object.
        let (mut objects, mut depth) = (0_u128, 0);
        loop {
            self.skip_space();
            match self.peek()? {
                open @ (b'{' | b'[') => {
                    let is_object = open == b'{';
                    self.at += 1;
                    objects = objects << 1 | u128::from(is_object);
                    depth += 1;
                    if depth > DEPTH_MAX {
                        return None;
                    }
                    self.skip_space();
                    let is_empty = self.peek()? == if is_object { b'}' } else { b']' };
                    if !is_empty {
                        if is_object {
                            self.key()?;
                        }
                        continue;
                    }
                }
                b'"' => {
                    self.string(false)?;
                }
                _ => self.word_or_number()?,
            }
            // A value has ended, or an empty container is about to.
            loop {
                self.skip_space();
                if depth == 0 {
                    return (self.at == self.text.len()).then_some(());
                }
                let is_object = objects & 1 == 1;
                let next = self.peek()?;
                self.at += 1;
                match next {
                    b',' => {
                        if is_object {
                            self.key()?;
                        }
                        break;
                    }
                    b'}' | b']' if is_object == (next == b'}') => {}
                    _ => return None,
                }
                objects >>= 1;
                depth -= 1;
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Pass a key and its colon.
    fn key(&mut self) -> Option<()> {
        self.skip_space();
        let key = self.string(true)?.raw;
        if key.starts_with(['$', '\\']) && decode(key).starts_with(RESERVED) {
            return None;
        }
        self.skip_space();
        (self.peek()? == b':').then(|| self.at += 1)
    }

    /// Pass a string, and keep it.
    fn string(&mut self, is_key: bool) -> Option<Literal<'a>> {
        if self.peek()? != b'"' {
            return None;
        }
        self.at += 1;
        let from = self.at;
        let (mut has_escapes, mut has_rare_escapes) = (false, false);
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let plain = memchr2(b'"', b'\\', rest)?;
            if self.has_controls && rest[..plain].iter().any(|&byte| byte < 0x20) {
                return None;
            }
            self.at += plain + 1;
            if rest[plain] == b'"' {
                let raw = &self.text[from..self.at - 1];
                let literal = Literal { from, raw, has_escapes, has_rare_escapes, is_key };
                self.strings.push(literal);
                return Some(literal);
            }
            has_escapes = true;
            has_rare_escapes |= self.escape()?;
        }
    }

    /// Pass what follows a backslash; return whether that is a rare escape of a printed letter. Half of a surrogate pair is not a
    /// character.
    fn escape(&mut self) -> Option<bool> {
        let letter = self.peek()?;
        self.at += 1;
        match letter {
            b'"' | b'\\' | b'n' | b'r' | b't' => Some(false),
            // The letters of the last two would be those of a word.
            b'/' | b'b' | b'f' => Some(true),
            b'u' => match self.unit()? {
                0xd800..=0xdbff => {
                    self.text.as_bytes()[self.at..].starts_with(b"\\u").then(|| self.at += 2)?;
                    matches!(self.unit()?, 0xdc00..=0xdfff).then_some(false)
                }
                0xdc00..=0xdfff => None,
                unit => Some((0x20..0x80).contains(&unit)),
            },
            _ => None,
        }
    }

    /// Pass four hexadecimal digits, and return their number.
    fn unit(&mut self) -> Option<u16> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        // from_str_radix alone would accept a sign.
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
    }

    fn word_or_number(&mut self) -> Option<()> {
        let rest = &self.text[self.at..];
        if let Some(word) = WORDS.iter().find(|word| rest.starts_with(**word)) {
            self.at += word.len();
            return Some(());
        }
        self.pass(b'-');
        if !self.pass(b'0') {
            self.digits()?;
        }
        if self.pass(b'.') {
            self.digits()?;
        }
        if self.pass(b'e') || self.pass(b'E') {
            let _ = self.pass(b'+') || self.pass(b'-');
            self.digits()?;
        }
        Some(())
    }

    /// Pass a byte if it is next.
    fn pass(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Pass one digit or more.
    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > from).then_some(())
    }
}

/// Return the decoded text of a string. A lone surrogate becomes the replacement character.
pub(super) fn decode(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    let mut text = String::with_capacity(raw.len());
    let mut at = 0;
    while at < raw.len() {
        let plain = memchr(b'\\', &raw.as_bytes()[at..]).map_or(raw.len(), |next| at + next);
        text.push_str(&raw[at..plain]);
        at = plain;
        if at < raw.len() {
            // The most frequent ones first.
            let (letter, width) = match raw.as_bytes().get(at + 1) {
                Some(b'n') => ('\n', 2),
                Some(b'"') => ('"', 2),
                _ => escape(&raw[at..]),
            };
            text.push(letter);
            at += width;
        }
    }
    Cow::Owned(text)
}

/// Return the character of an escape, and the length of the escape.
pub(super) fn escape(raw: &str) -> (char, usize) {
    let unit = |at: usize| {
        raw.get(at + 2..at + 6)
            .filter(|_| raw[at..].starts_with("\\u"))
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
    };
    let letter = match raw.as_bytes().get(1) {
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => {
            let high = unit(0).unwrap_or(0xfffd);
            let low = if (0xd800..0xdc00).contains(&high) { unit(6) } else { None };
            return match low.filter(|low| (0xdc00..0xe000).contains(low)) {
                Some(low) => (
                    char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)).unwrap_or('\u{fffd}'),
                    12,
                ),
                None => (char::from_u32(high).unwrap_or('\u{fffd}'), 6),
            };
        }
        Some(&byte) => char::from(byte),
        None => '\u{fffd}',
    };
    (letter, 2)
}
