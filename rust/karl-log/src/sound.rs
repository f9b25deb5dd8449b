//! A quick yes to whether [`crate::trusted`] reads a text: at twice its speed or more, for nothing is copied.
//!
//! The yes is sure, and is given to standard JSON alone. Of all else nothing is said: the trusted path judges it.

use crate::field::lanes::{self, BLOCK, Lanes, Work};

/// How deep `serde_json` reads; an open container is one bit of a word.
const DEEPEST: u32 = 127;

/// Whether a text is one value of standard JSON without a key that could be one of those that `serde_json` reserves.
pub(crate) fn sound(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok() && lanes::run(Document(text)).is_some()
}

struct Document<'a>(&'a [u8]);

impl Work for Document<'_> {
    type Output = Option<()>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Option<()> {
        Reader { rest: self.0, objects: 0, depth: 0, lanes }.document()
    }
}

/// What is left of a text, and what is open in front of it.
struct Reader<'a, L> {
    rest: &'a [u8],
    /// One bit an open container, the innermost the lowest: 1 for an object.
    objects: u128,
    depth: u32,
    lanes: L,
}

impl<L: Lanes> Reader<'_, L> {
    /// None where a text is no JSON, or may be none.
    #[inline(always)]
    fn document(mut self) -> Option<()> {
        loop {
            self.value()?;
            while self.closes()? {}
            if self.depth == 0 {
                return self.rest.is_empty().then_some(());
            }
        }
    }

    /// Moves over a scalar, or to the first value of a container.
    #[inline(always)]
    fn value(&mut self) -> Option<()> {
        loop {
            match self.token()? {
                b'"' => return self.string(),
                b'{' => self.open(true)?,
                b'[' => self.open(false)?,
                b't' => return self.word(b"rue"),
                b'f' => return self.word(b"alse"),
                b'n' => return self.word(b"ull"),
                first => return self.number(first),
            }
            if self.peek()? == self.bracket() {
                return Some(());
            }
            self.member()?;
        }
    }

    /// Moves over what follows a value: true where that is the end of its container, which is a value itself.
    #[inline(always)]
    fn closes(&mut self) -> Option<bool> {
        self.space();
        if self.depth == 0 {
            return Some(false);
        }
        let byte = self.next()?;
        if byte == self.bracket() {
            self.depth -= 1;
            self.objects >>= 1;
            return Some(true);
        }
        if byte != b',' {
            return None;
        }
        self.member().map(|()| false)
    }

    fn open(&mut self, object: bool) -> Option<()> {
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(object);
        (self.depth <= DEEPEST).then_some(())
    }

    /// What ends the innermost container.
    fn bracket(&self) -> u8 {
        if self.objects & 1 == 1 { b'}' } else { b']' }
    }

    /// Moves to the value of a member: over its key, in an object.
    #[inline(always)]
    fn member(&mut self) -> Option<()> {
        if self.objects & 1 == 0 {
            return Some(());
        }
        let quoted = self.token()? == b'"' && !matches!(self.rest.first(), Some(b'$' | b'\\'));
        quoted.then_some(())?;
        self.string()?;
        (self.token()? == b':').then_some(())
    }

    /// The rest of a string, after its quote.
    #[inline(always)]
    fn string(&mut self) -> Option<()> {
        loop {
            self.rest = self.rest.get(self.plain()..)?;
            match self.next()? {
                b'"' => return Some(()),
                b'\\' => self.escape()?,
                _ => return None,
            }
        }
    }

    /// How many bytes come before a quote, a control character, or a backslash with which no common escape begins.
    #[inline(always)]
    fn plain(&self) -> usize {
        let mut at = 0;
        while let Some(block) = self.rest.get(at..).and_then(<[u8]>::first_chunk::<BLOCK>) {
            let mut odd = self.lanes.odd(block);
            while odd != 0 {
                let place = odd.trailing_zeros() as usize;
                match block.get(place..place + 2) {
                    Some([b'\\', second]) if is_escape(*second) => odd &= !(0b11 << place),
                    _ => return at + place,
                }
            }
            at += BLOCK;
        }
        let odd = |byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20);
        self.rest[at..].iter().position(odd).map_or(self.rest.len(), |place| at + place)
    }

    /// The rest of an escape; half a surrogate pair is none.
    fn escape(&mut self) -> Option<()> {
        match self.next()? {
            byte if is_escape(byte) => Some(()),
            b'u' => match self.unit()? {
                0xd800..=0xdbff => {
                    self.word(b"\\u")?;
                    matches!(self.unit()?, 0xdc00..=0xdfff).then_some(())
                }
                0xdc00..=0xdfff => None,
                _ => Some(()),
            },
            _ => None,
        }
    }

    fn unit(&mut self) -> Option<u32> {
        (0..4).try_fold(0, |unit, _| Some(unit << 4 | char::from(self.next()?).to_digit(16)?))
    }

    /// The rest of a number that begins so.
    fn number(&mut self, first: u8) -> Option<()> {
        let first = if first == b'-' { self.next()? } else { first };
        match first {
            b'0' => {}
            b'1'..=b'9' => drop(self.digits()),
            _ => return None,
        }
        if self.takes(b".") {
            self.digits()?;
        }
        if self.takes(b"eE") {
            self.takes(b"+-");
            self.digits()?;
        }
        Some(())
    }

    /// One digit or more.
    fn digits(&mut self) -> Option<()> {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.rest = self.rest.get(count..)?;
        (count > 0).then_some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(word)?;
        Some(())
    }

    /// Moves over one of some bytes, if it comes next.
    fn takes(&mut self, some: &[u8]) -> bool {
        let found = self.rest.first().is_some_and(|byte| some.contains(byte));
        self.rest = self.rest.get(usize::from(found)..).unwrap_or_default();
        found
    }

    /// Moves over white space and the byte after it.
    fn token(&mut self) -> Option<u8> {
        self.space();
        self.next()
    }

    fn peek(&mut self) -> Option<u8> {
        self.space();
        self.rest.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    fn space(&mut self) {
        while let Some((b' ' | b'\t' | b'\n' | b'\r', rest)) = self.rest.split_first() {
            self.rest = rest;
        }
    }
}

/// Whether a byte makes an escape with the backslash before it.
#[inline(always)]
fn is_escape(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{Index, select};
    use serde_json::{Value, json};

    use super::sound;
    use crate::trusted::parse;

    /// Any standard JSON; a key begins with a letter.
    fn value() -> impl Strategy<Value = Value> {
        let text = "[ -~é😀\\n\\t\"\\\\/\u{0}-\u{1f}]{0,40}";
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(|number| json!(number)),
            text.prop_map(Value::from),
        ];
        scalar.prop_recursive(6, 60, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec(("[a-z]{1,3}[\"\\\\é]?", inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn standard_json_is_sound_and_what_is_sound_is_parsed(
            value in value(),
            pretty in any::<bool>(),
            at in any::<Index>(),
            cut in 0_usize..3,
            put in select(vec![
                "", "\"", "\\", "{", "}", "[", "]", ",", ":", "0", "-", ".", "e", "+", " ", "\n", "\u{1}", "a", "$",
                "null", "\\u", "\\ud83d", "\\ude00", "\\uD83D\\uDE00", "é",
            ]),
        ) {
            let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
            prop_assert!(sound(text.as_bytes()), "{text}");
            let mut other = text.into_bytes();
            let at = at.index(other.len());
            other.splice(at..other.len().min(at + cut), put.bytes());
            prop_assert!(!sound(&other) || parse(&other).is_ok(), "{}", String::from_utf8_lossy(&other));
        }
    }

    #[test]
    fn a_string_is_judged_alike_wherever_its_escapes_stand_in_a_block() {
        let pieces =
            r#"\n \" \\ \\\ \u0041 \ud83d\ude00 \ud83d \u12 \x " é"#.split(' ').chain(["\n", "\u{1f}", ""]);
        for (piece, before) in pieces.flat_map(|piece| (0..140).map(move |before| (piece, before))) {
            for after in [0, 1, 62, 63, 64, 130] {
                let text = format!("\"{}{piece}{piece}{}\"", "a".repeat(before), "b".repeat(after));
                assert_eq!(sound(text.as_bytes()), parse(text.as_bytes()).is_ok(), "{text}");
            }
        }
    }

    #[test]
    fn nothing_is_said_of_what_only_the_trusted_path_can_tell() {
        for text in ["NaN", "[-Infinity]", r#"{"$serde_json::private::Number":"1"}"#, r#"{"\u0024":1}"#] {
            assert!(!sound(text.as_bytes()), "{text}");
        }
        let nested = |depth| [vec![b'['; depth], vec![b']'; depth]].concat();
        assert!(sound(&nested(127)) && !sound(&nested(128)));
    }
}
