//! Objects as Python's `json.dumps` writes what its `json.loads` reads.
//!
//! That is ASCII alone, `", "` and `": "` between tokens, floats by `repr`, and each key once, at its first place with its
//! last value. Most lines of a store have that form already, for `json.dumps` wrote them: a text is validated as it is
//! read, and only the bytes that differ are written anew.
//!
//! Buys most of the speed of a backfill, which spent its time in Python's `json` before (`benches/record/reward.json`, store).

use std::io::Write;

use super::project::skip_space;
use super::unescape::unit;

/// Object in Python's form.
#[derive(Debug)]
pub(crate) struct Dumped<'a> {
    pub(crate) text: &'a [u8],
    members: &'a [ObjectMember],
}

impl<'a> Dumped<'a> {
    /// Return the value of a key, which is given with its quotes.
    pub(crate) fn value(&self, quoted: &[u8]) -> Option<&'a [u8]> {
        self.place(quoted).map(|(start, end)| &self.text[start..end])
    }

    /// Return where the value of a key begins and ends.
    pub(crate) fn place(&self, quoted: &[u8]) -> Option<(usize, usize)> {
        let member = self.members.iter().find(|member| &self.text[member.key..member.key_end] == quoted)?;
        Some((member.value, member.end))
    }

    /// Return whether it has no key.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// Memory for one object after the other.
#[derive(Debug, Default)]
pub(crate) struct Dumper {
    out: Vec<u8>,
    members: Vec<ObjectMember>,
}

impl Dumper {
    /// Return the object of a text, which white space may surround.
    pub(crate) fn object<'a>(&'a mut self, text: &'a [u8]) -> DumpsResult<Dumped<'a>> {
        let text = std::str::from_utf8(text).map_err(|_| Refused::Invalid)?;
        self.out.clear();
        self.members.clear();
        let (out, members) = (&mut self.out, &mut self.members);
        let mut walk = Walk { text, bytes: text.as_bytes(), at: 0, copied: 0, depth: 0, out, members };
        let (from, end) = walk.whole()?;
        let text = if self.out.is_empty() { &text.as_bytes()[from..end] } else { &self.out };
        Ok(Dumped { text, members: &self.members })
    }
}

/// Nesting that is left to Python: its limit depends on the interpreter and on the depth of the call.
const DEEPEST: usize = 128;

/// Reason why a text has no such form here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Python refuses it: no JSON, or no object.
    Invalid,
    /// A limit of the interpreter decides: on nesting, or on the digits of an integer.
    Python,
}

/// Result of a step.
type DumpsResult<T = ()> = Result<T, Refused>;

/// Member of an object, by its places in what the text becomes.
#[derive(Clone, Copy, Debug)]
struct ObjectMember {
    key: usize,
    key_end: usize,
    value: usize,
    end: usize,
    /// The last eight bytes of the key: keys that differ mostly differ there, and a word is compared faster than a text.
    tail: u64,
}

/// Progress through a text. What it becomes is `out`, and after that the bytes from `copied` to `at` as they are.
struct Walk<'a, 's> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    copied: usize,
    depth: usize,
    out: &'s mut Vec<u8>,
    /// Members of the open objects, the innermost last.
    members: &'s mut Vec<ObjectMember>,
}

impl Walk<'_, '_> {
    /// Walk over an object and what surrounds it; return the bytes that are its form if nothing was written anew.
    fn whole(&mut self) -> DumpsResult<(usize, usize)> {
        self.tight();
        if self.peek() != Some(b'{') {
            return Err(Refused::Invalid);
        }
        self.object()?;
        let end = self.at;
        if skip_space(self.bytes, end) < self.bytes.len() {
            return Err(Refused::Invalid);
        }
        if !self.out.is_empty() {
            self.flush();
        }
        Ok((self.copied, end))
    }

    fn value(&mut self) -> DumpsResult {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{') => {
                let first = self.members.len();
                self.object()?;
                self.members.truncate(first);
                Ok(())
            }
            Some(b'[') => self.array(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(b'N') => self.word(b"NaN"),
            Some(b'I') => self.word(b"Infinity"),
            Some(b'-') if self.bytes.get(self.at + 1) == Some(&b'I') => self.word(b"-Infinity"),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &[u8]) -> DumpsResult {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(Refused::Invalid);
        }
        self.at += word.len();
        Ok(())
    }

    /// Walk over an array; what follows a word or a number is checked here too.
    fn array(&mut self) -> DumpsResult {
        self.open()?;
        if self.peek() == Some(b']') {
            return self.close();
        }
        loop {
            self.value()?;
            if self.ends(b']')? {
                return self.close();
            }
        }
    }

    /// Move past the bracket that opens a container.
    fn open(&mut self) -> DumpsResult {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Refused::Python);
        }
        self.at += 1;
        self.tight();
        Ok(())
    }

    #[allow(clippy::unnecessary_wraps, reason = "it is the last step of a container")]
    fn close(&mut self) -> DumpsResult {
        self.depth -= 1;
        self.at += 1;
        Ok(())
    }

    /// Return whether the container ends after a value; move past the comma if it does not.
    #[inline]
    fn ends(&mut self, close: u8) -> DumpsResult<bool> {
        self.tight();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.spaced();
                Ok(false)
            }
            Some(byte) if byte == close => Ok(true),
            _ => Err(Refused::Invalid),
        }
    }

    /// Move past white space where Python writes none.
    #[inline(always)]
    fn tight(&mut self) {
        if !matches!(self.peek(), Some(b'!'..)) {
            self.space(b"");
        }
    }

    /// Move past white space where Python writes one space.
    #[inline(always)]
    fn spaced(&mut self) {
        if matches!(self.bytes.get(self.at..self.at + 2), Some([b' ', next]) if *next > b' ') {
            self.at += 1;
        } else {
            self.space(b" ");
        }
    }

    /// Move past white space, which becomes `wanted`; apart, for it is rare.
    #[cold]
    fn space(&mut self, wanted: &[u8]) {
        let end = skip_space(self.bytes, self.at);
        self.put(end, wanted);
    }

    /// Move to `end`; what lies between becomes `wanted`.
    #[inline]
    fn put(&mut self, end: usize, wanted: &[u8]) {
        if self.bytes[self.at..end] != *wanted {
            self.flush();
            self.out.extend_from_slice(wanted);
            self.copied = end;
        }
        self.at = end;
    }

    /// Copy the bytes that stay as they are.
    fn flush(&mut self) {
        self.out.extend_from_slice(&self.bytes[self.copied..self.at]);
        self.copied = self.at;
    }

    /// Return the position of the next byte in what the text becomes.
    #[inline]
    fn here(&self) -> usize {
        self.out.len() + self.at - self.copied
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }
}

/// Objects of up to so many keys are compared pair by pair, which needs no memory; larger ones are sorted.
const FEW: usize = 32;

impl Walk<'_, '_> {
    /// Walk over an object; its members are the last of `members`, each key once.
    fn object(&mut self) -> DumpsResult {
        let first = self.members.len();
        self.open()?;
        if self.peek() == Some(b'}') {
            return self.close();
        }
        loop {
            self.member()?;
            if self.ends(b'}')? {
                self.close()?;
                break;
            }
        }
        if self.repeats(first) {
            self.merge(first);
        }
        Ok(())
    }

    fn member(&mut self) -> DumpsResult {
        let key = self.key()?;
        self.tight();
        if self.peek() != Some(b':') {
            return Err(Refused::Invalid);
        }
        self.at += 1;
        self.spaced();
        let value = self.here();
        self.value()?;
        self.members.push(ObjectMember { value, end: self.here(), ..key });
        Ok(())
    }

    fn key(&mut self) -> DumpsResult<ObjectMember> {
        if self.peek() != Some(b'"') {
            return Err(Refused::Invalid);
        }
        let key = self.here();
        self.string()?;
        // A key that was written anew in part is written whole, so that it is one slice.
        if key < self.out.len() {
            self.flush();
        }
        let key_end = self.here();
        Ok(ObjectMember { key, key_end, value: 0, end: 0, tail: tail(self.output(key, key_end)) })
    }

    /// Return what the text becomes between two places; all of it is written, or nothing.
    fn output(&self, start: usize, end: usize) -> &[u8] {
        match start.checked_sub(self.out.len()) {
            Some(ahead) => &self.bytes[self.copied + ahead..self.copied + ahead + end - start],
            None => &self.out[start..end],
        }
    }

    fn key_of(&self, member: &ObjectMember) -> &[u8] {
        self.output(member.key, member.key_end)
    }

    /// Return whether a key of the innermost object occurs twice.
    fn repeats(&self, first: usize) -> bool {
        let members = &self.members[first..];
        let same = |one: &ObjectMember, two: &ObjectMember| {
            one.tail == two.tail && self.key_of(one) == self.key_of(two)
        };
        if members.len() <= FEW {
            return (1..members.len()).any(|at| members[..at].iter().any(|one| same(one, &members[at])));
        }
        let mut sorted: Vec<&ObjectMember> = members.iter().collect();
        sorted.sort_unstable_by_key(|member| self.key_of(member));
        sorted.windows(2).any(|pair| same(pair[0], pair[1]))
    }

    /// Write the innermost object anew: each key at its first place, with its last value.
    fn merge(&mut self, first: usize) {
        self.flush();
        let start = self.members[first].key - 1;
        let old = self.out.split_off(start);
        let of = |from: usize, to: usize| &old[from - start..to - start];
        let members = self.members.split_off(first);
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|&at| of(members[at].key, members[at].key_end));
        // The sort is stable: of equal keys the first comes first and the last last.
        let groups = order.chunk_by(|&one, &two| {
            of(members[one].key, members[one].key_end) == of(members[two].key, members[two].key_end)
        });
        let mut kept: Vec<(usize, usize)> =
            groups.filter_map(|group| Some((*group.first()?, *group.last()?))).collect();
        kept.sort_unstable();
        self.out.push(b'{');
        for (number, (one, last)) in kept.into_iter().enumerate() {
            if number > 0 {
                self.out.extend_from_slice(b", ");
            }
            let (one, last) = (members[one], members[last]);
            let key = self.out.len();
            self.out.extend_from_slice(of(one.key, one.key_end));
            let key_end = self.out.len();
            self.out.extend_from_slice(b": ");
            let value = self.out.len();
            self.out.extend_from_slice(of(last.value, last.end));
            self.members.push(ObjectMember { key, key_end, value, end: self.out.len(), tail: one.tail });
        }
        self.out.push(b'}');
    }
}

/// Return the last eight bytes of a text, or all of them.
fn tail(text: &[u8]) -> u64 {
    text.last_chunk().map_or_else(
        || text.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        |last| u64::from_le_bytes(*last),
    )
}

impl Walk<'_, '_> {
    /// Walk over a string.
    fn string(&mut self) -> DumpsResult {
        self.at += 1;
        loop {
            self.at += plain(&self.bytes[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(0x7f..) => self.escape_char(),
                _ => return Err(Refused::Invalid),
            }
        }
    }

    fn escape(&mut self) -> DumpsResult {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'/') => self.put(self.at + 2, b"/"),
            Some(b'u') => self.unit()?,
            _ => return Err(Refused::Invalid),
        }
        Ok(())
    }

    /// Walk over `\uXXXX`. The second half of a pair is the next one, and is written alike.
    fn unit(&mut self) -> DumpsResult {
        let unit = unit(self.bytes, self.at + 1).ok_or(Refused::Invalid)?;
        let (bytes, length) = escape_unit(unit);
        self.put(self.at + 6, &bytes[..length]);
        Ok(())
    }

    /// Walk over a character that is not ASCII, or is the delete character.
    fn escape_char(&mut self) {
        let Some(char) = self.text.get(self.at..).and_then(|rest| rest.chars().next()) else { return };
        let end = self.at + char.len_utf8();
        let mut escaped = [0; 12];
        let mut length = 0;
        for unit in char.encode_utf16(&mut [0; 2]) {
            escaped[length..length + 6].copy_from_slice(&hexadecimal((*unit).into()));
            length += 6;
        }
        self.put(end, &escaped[..length]);
    }
}

/// Return the bytes of a code unit in a string, and their number.
#[allow(clippy::cast_possible_truncation, reason = "the unit is ASCII")]
fn escape_unit(unit: u32) -> ([u8; 6], usize) {
    let short = |letter| ([b'\\', letter, 0, 0, 0, 0], 2);
    match unit {
        0x08 => short(b'b'),
        0x09 => short(b't'),
        0x0a => short(b'n'),
        0x0c => short(b'f'),
        0x0d => short(b'r'),
        0x22 | 0x5c => short(unit as u8),
        0x20..=0x7e => ([unit as u8, 0, 0, 0, 0, 0], 1),
        _ => (hexadecimal(unit), 6),
    }
}

/// Return `\uXXXX`.
fn hexadecimal(unit: u32) -> [u8; 6] {
    let digit = |shift: u32| b"0123456789abcdef"[(unit >> shift & 15) as usize];
    [b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]
}

/// Return the number of bytes before a quote, a backslash, or a character that is written as an escape: eight at a time.
#[inline]
fn plain(bytes: &[u8]) -> usize {
    const EACH: u64 = u64::MAX / 0xff;
    // The high bit of each byte that ends the run. A carry can only set bits after the first one, which alone counts.
    let ends = |word: u64| {
        let is = |byte: u64| {
            let other = word ^ (EACH * byte);
            other.wrapping_sub(EACH) & !other
        };
        let control = word.wrapping_sub(EACH * 0x20) & !word;
        let beyond = word | word.wrapping_add(EACH);
        (is(0x22) | is(0x5c) | control | beyond) & (EACH * 0x80)
    };
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let found = ends(u64::from_le_bytes(*word));
        if found != 0 {
            return number * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let is_plain = |byte: &&u8| matches!(byte, 0x20..=0x7e) && !matches!(byte, b'"' | b'\\');
    words.len() * 8 + rest.iter().take_while(is_plain).count()
}

/// Digits of an integer that Python always reads; it may be set to refuse more.
const DIGITS: usize = 640;

impl Walk<'_, '_> {
    /// Walk over a number.
    fn number(&mut self) -> DumpsResult {
        let start = self.at + usize::from(self.peek() == Some(b'-'));
        let point = self.digits(start);
        if point == start || (point > start + 1 && self.bytes[start] == b'0') {
            return Err(Refused::Invalid);
        }
        let fraction = self.after(point, b'.')?;
        let power = self.power(fraction)?;
        if power > point {
            return self.float(start, point, fraction, power);
        }
        if point - start > DIGITS {
            return Err(Refused::Python);
        }
        if self.bytes[self.at..point] == *b"-0" {
            self.put(point, b"0");
        } else {
            self.at = point;
        }
        Ok(())
    }

    /// Return the end of the digits from a position on.
    #[inline]
    fn digits(&self, from: usize) -> usize {
        let rest = self.bytes.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    }

    /// Return the end of the digits after a sign, if it is there.
    #[inline]
    fn after(&self, at: usize, sign: u8) -> DumpsResult<usize> {
        if self.bytes.get(at) != Some(&sign) {
            return Ok(at);
        }
        let end = self.digits(at + 1);
        if end > at + 1 { Ok(end) } else { Err(Refused::Invalid) }
    }

    #[inline]
    fn power(&self, at: usize) -> DumpsResult<usize> {
        if !matches!(self.bytes.get(at), Some(b'e' | b'E')) {
            return Ok(at);
        }
        let from = at + 1 + usize::from(matches!(self.bytes.get(at + 1), Some(b'+' | b'-')));
        let end = self.digits(from);
        if end > from { Ok(end) } else { Err(Refused::Invalid) }
    }

    fn float(&mut self, start: usize, point: usize, fraction: usize, end: usize) -> DumpsResult {
        let bytes = self.bytes;
        if fraction == end && is_repr(&bytes[start..point], &bytes[point + 1..end]) {
            self.at = end;
            return Ok(());
        }
        let value: f64 =
            self.text.get(self.at..end).and_then(|text| text.parse().ok()).ok_or(Refused::Invalid)?;
        let mut text = Vec::with_capacity(24);
        push_float(&mut text, value);
        self.put(end, &text);
        Ok(())
    }
}

/// Return whether a decimal number is its own `repr`. Up to fifteen significant digits no two decimals share a float, so
/// none is shorter; a last zero and an exponent have to be ruled out.
fn is_repr(whole: &[u8], fraction: &[u8]) -> bool {
    let significant = if whole == b"0" { fraction.len() } else { whole.len() + fraction.len() };
    let last = fraction == b"0" || fraction.last() != Some(&b'0');
    let tiny = whole == b"0" && fraction.len() > 4 && fraction.starts_with(b"0000");
    significant <= 15 && last && !tiny
}

/// Append the `repr` of a float; of what is not finite, the words of Python's JSON.
pub(crate) fn push_float(out: &mut Vec<u8>, value: f64) {
    if short(out, value).is_some() {
        return;
    }
    // A Vec takes whatever is written.
    let _ = match value {
        _ if value.is_nan() => out.write_all(b"NaN"),
        _ if value.is_infinite() => out.write_all(if value > 0.0 { b"Infinity" } else { b"-Infinity" }),
        _ => finite(out, value),
    };
}

/// Append a float of up to four decimals, as scores are. Whole numbers of 10^-4 below 10^15 have fifteen digits at most,
/// which no shorter decimal shares (see `is_repr`).
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "it is checked"
)]
fn short(out: &mut Vec<u8>, value: f64) -> Option<()> {
    let scaled = (value.abs() * 1e4).round();
    if !(scaled > 0.0 && scaled < 1e15 && scaled / 1e4 == value.abs()) {
        return None;
    }
    if value < 0.0 {
        out.push(b'-');
    }
    let scaled = scaled as u64;
    let (whole, mut decimals) = (scaled / 10_000, scaled % 10_000);
    if whole < 10 {
        out.push(b'0' + whole as u8);
    } else {
        out.extend_from_slice(whole.to_string().as_bytes());
    }
    out.push(b'.');
    loop {
        out.push(b'0' + (decimals / 1000) as u8);
        decimals = decimals % 1000 * 10;
        if decimals == 0 {
            return Some(());
        }
    }
}

/// Append the shortest digits that give the float back, with an exponent below 10^-4 and from 10^16 on.
fn finite(out: &mut Vec<u8>, value: f64) -> std::io::Result<()> {
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.parse::<i32>() {
        Ok(power) if !(-4..16).contains(&power) => write!(out, "{digits}e{power:+03}"),
        _ => write!(out, "{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumped(text: &[u8]) -> DumpsResult<String> {
        let mut dumper = Dumper::default();
        dumper.object(text).map(|found| String::from_utf8(found.text.to_vec()).unwrap())
    }

    /// By `CPython` 3.11: `json.dumps(json.loads(text))`.
    #[test]
    fn texts_become_what_python_writes() {
        let cases = [
            (r#"{"a": [1, 2.5, "x"], "b": {}}"#, r#"{"a": [1, 2.5, "x"], "b": {}}"#),
            (" {\t\"a\" :1 ,\"b\":[ ] , \"c\": { } }\r\n", r#"{"a": 1, "b": [], "c": {}}"#),
            (r#"{"a": 1, "b": 2, "a": 3}"#, r#"{"a": 3, "b": 2}"#),
            (r#"{"x": {"a": 1, "\u0061": {"b":1,"b":2}}, "y": 0}"#, r#"{"x": {"a": {"b": 2}}, "y": 0}"#),
            (r#"{"a": "\/\u0041\u00E9\u000a\u007F"}"#, r#"{"a": "/A\u00e9\n\u007f"}"#),
            ("{\"a\": \"é😀\u{7f}\"}", r#"{"a": "\u00e9\ud83d\ude00\u007f"}"#),
            (r#"{"a": "\uD83D\uDE00 \ud83d \ude00\ud83d"}"#, r#"{"a": "\ud83d\ude00 \ud83d \ude00\ud83d"}"#),
            (
                r#"{"a": [-0, -0.0, 1e5, 1E400, 1.50, 0.00001, 1e16, 123456789012345678901]}"#,
                r#"{"a": [0, -0.0, 100000.0, Infinity, 1.5, 1e-05, 1e+16, 123456789012345678901]}"#,
            ),
            (
                r#"{"a": [NaN, -Infinity, true, false, null]}"#,
                r#"{"a": [NaN, -Infinity, true, false, null]}"#,
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(dumped(text.as_bytes()).as_deref(), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn a_key_is_found_again_among_many() {
        let member = |at: usize| format!("\"key_number_{at}\": {at}");
        let many: Vec<String> = (0..40).map(member).collect();
        let text = format!("{{{}}}", many.join(", "));
        assert_eq!(dumped(text.as_bytes()).as_deref(), Ok(&*text));
        let again = format!("{{{}, \"key_number_7\": \"é\"}}", many.join(", "));
        let wanted = text.replace("\"key_number_7\": 7", "\"key_number_7\": \"\\u00e9\"");
        assert_eq!(dumped(again.as_bytes()), Ok(wanted));
    }

    #[test]
    fn what_python_refuses_is_refused() {
        let texts: [&[u8]; 24] = [
            b"",
            b" ",
            b"[1]",
            b"1",
            b"{",
            b"{\"a\"}",
            b"{\"a\": }",
            b"{\"a\": 1,}",
            b"{\"a\": 1 \"b\": 2}",
            b"{\"a\": 01}",
            b"{\"a\": 1.}",
            b"{\"a\": .5}",
            b"{\"a\": +1}",
            b"{\"a\": -}",
            b"{\"a\": 1e}",
            b"{\"a\": \"\\x\"}",
            b"{\"a\": \"\\u12\"}",
            b"{\"a\": \"\n\"}",
            b"{\"a\": \"\xff\"}",
            b"{} {}",
            b"{\"a\": [1,]}",
            b"{\"a\": truex}",
            b"{1: 2}",
            b"\xef\xbb\xbf{}",
        ];
        for text in texts {
            assert_eq!(dumped(text), Err(Refused::Invalid), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn limits_of_the_interpreter_are_left_to_it() {
        let nested = |depth| format!("{{\"a\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(dumped(nested(127).as_bytes()).is_ok());
        assert_eq!(dumped(nested(128).as_bytes()), Err(Refused::Python));
        let long = |digits| format!("{{\"a\": {}}}", "1".repeat(digits));
        assert!(dumped(long(640).as_bytes()).is_ok());
        assert_eq!(dumped(long(641).as_bytes()), Err(Refused::Python));
    }

    #[test]
    fn a_run_ends_at_any_byte_that_is_not_plain_wherever_it_is() {
        for byte in 0..=u8::MAX {
            let ends = !(0x20..=0x7e).contains(&byte) || byte == b'"' || byte == b'\\';
            for (length, at) in (1..28).flat_map(|length| (0..length).map(move |at| (length, at))) {
                let mut bytes = vec![b'~'; length];
                bytes[at..].fill(byte);
                assert_eq!(plain(&bytes), if ends { at } else { length }, "{byte} at {at} of {length}");
            }
        }
    }

    /// By `CPython` 3.11's `repr`.
    #[test]
    fn floats_are_written_as_python_writes_them() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.5, "0.5"),
            (0.1234, "0.1234"),
            (-0.7001, "-0.7001"),
            (12.05, "12.05"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.000_123, "0.000123"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (9_007_199_254_740_993.0, "9007199254740992.0"),
            (1.5e300, "1.5e+300"),
            (5e-324, "5e-324"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1.0 / 3.0, "0.3333333333333333"),
            (1e22, "1e+22"),
            (2.5e-7, "2.5e-07"),
            (123_456.789, "123456.789"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ];
        for (value, wanted) in cases {
            let mut out = Vec::new();
            push_float(&mut out, value);
            assert_eq!(String::from_utf8_lossy(&out), wanted);
        }
    }
}
