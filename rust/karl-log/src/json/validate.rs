//! Fast validation: whether [`crate::json::reference_parser`] accepts a text, several times faster, because nothing
//! is built.
//!
//! A positive answer is certain and is given for standard JSON only. Any other text is left to the reference
//! parser.
//!
//! A text is processed in blocks of 64 bytes. Bit masks mark strings and escapes
//! ([`Strings`]), and the starts of tokens outside strings; only these are walked.
//!
//! Buys `--strict` at 0.30 s of processor time for 1.3 GB (`benches/README.md`, "What is promised, and what it costs");
//! `log::check` of `benches/record/instructions.json` guards it.

use super::scalar::is_scalar;
use super::simd::{self, BLOCK, Block, Lanes, Marks, SimdKernel, Strings, padded};
use super::unescape::unit;

/// Structural characters of JSON.
const SIGNS: [u8; 6] = *b"{}[]:,";

/// Characters that form an escape after a backslash, except `u`.
const ESCAPES: [u8; 8] = *b"\"\\/bfnrt";

/// Return whether a text is one value of standard JSON without a key that `serde_json` may reserve.
pub(crate) fn is_valid(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok() && simd::run(Document(text)).is_some()
}

struct Document<'a>(&'a [u8]);

impl SimdKernel for Document<'_> {
    type Output = Option<()>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Option<()> {
        let mut reader = Validator { text: self.0, ..Validator::default() };
        let (whole, rest) = self.0.as_chunks();
        for (number, block) in whole.iter().enumerate() {
            reader.block(number * BLOCK, block, lanes)?;
        }
        reader.block(whole.len() * BLOCK, &padded(rest), lanes)?;
        (reader.grammar.is_whole() && !reader.strings.is_open()).then_some(())
    }
}

/// Progress through a text. Every step returns `None` if the text is, or may be, invalid JSON.
#[derive(Default)]
struct Validator<'a> {
    text: &'a [u8],
    strings: Strings,
    grammar: Grammar,
    /// 1 if the previous block ended in a number or a word.
    scalar: u64,
    /// Position of the expected low half of a surrogate pair.
    low: Option<usize>,
}

impl Validator<'_> {
    #[inline(always)]
    fn block(&mut self, from: usize, block: &Block, lanes: impl Lanes) -> Option<()> {
        let (quote, backslash) = (lanes.any(block, [b'"']), lanes.any(block, [b'\\']));
        let marks = self.strings.feed(quote, backslash);
        let control = lanes.control(block);
        if control & marks.inside | backslash & !marks.inside != 0 {
            return None;
        }
        self.escapes(from, marks.escaped & !lanes.any(block, ESCAPES))?;
        if marks.inside == u64::MAX && marks.quotes == 0 {
            return Some(());
        }
        self.outside(from, block, &marks, control, lanes)
    }

    /// Walk the tokens outside strings, and the starts of strings.
    #[inline(always)]
    fn outside(
        &mut self,
        from: usize,
        block: &Block,
        marks: &Marks,
        control: u64,
        lanes: impl Lanes,
    ) -> Option<()> {
        let outside = !(marks.inside | marks.quotes);
        if control != 0 && control & !lanes.any(block, *b"\t\n\r") != 0 {
            return None;
        }
        let signs = outside & lanes.any(block, SIGNS);
        let scalars = outside & !signs & !control & !lanes.any(block, [b' ']);
        let begun = scalars << 1 | self.scalar;
        self.scalar = scalars >> 63;
        let mut tokens = signs | marks.quotes & marks.inside | scalars & !begun;
        while tokens != 0 {
            self.token(from + tokens.trailing_zeros() as usize)?;
            tokens &= tokens - 1;
        }
        Some(())
    }

    #[inline(always)]
    fn token(&mut self, at: usize) -> Option<()> {
        let rest = self.text.get(at..)?;
        match rest.first()? {
            b'"' => self.grammar.string(*rest.get(1)?),
            b'{' => self.grammar.open(true),
            b'[' => self.grammar.open(false),
            b'}' => self.grammar.close(true),
            b']' => self.grammar.close(false),
            b':' => self.grammar.colon(),
            b',' => self.grammar.comma(),
            _ => is_scalar(rest).then(|| self.grammar.value())?,
        }
    }

    /// Validate the escapes of more than one letter.
    #[inline(always)]
    fn escapes(&mut self, from: usize, mut escapes: u64) -> Option<()> {
        while escapes != 0 {
            self.escape(from + escapes.trailing_zeros() as usize)?;
            escapes &= escapes - 1;
        }
        Some(())
    }

    /// Validate the escape after a backslash; half a surrogate pair is invalid.
    #[inline(always)]
    fn escape(&mut self, at: usize) -> Option<()> {
        match unit(self.text, at)? {
            0xd800..=0xdbff => {
                let low = at + "uXXXX\\".len();
                let pair = self.text.get(low - 1) == Some(&b'\\')
                    && matches!(unit(self.text, low)?, 0xdc00..=0xdfff);
                self.low = Some(low);
                pair.then_some(())
            }
            0xdc00..=0xdfff => (self.low == Some(at)).then_some(()),
            _ => Some(()),
        }
    }
}

/// Nesting limit of `serde_json`; an open container is one bit of a word.
const DEEPEST: u32 = 127;

/// Token that may come next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expected {
    /// Value.
    #[default]
    Value,
    /// Value, or the end of an empty array.
    FirstValue,
    /// Key.
    Key,
    /// Key, or the end of an empty object.
    FirstKey,
    /// Colon after a key.
    Colon,
    /// End of a container, or the comma after a value in it; nothing at the top level.
    End,
}

/// State of the grammar of JSON: which token may follow which. Every step returns `None` if the text is, or may be, invalid JSON.
#[derive(Debug, Default)]
pub(crate) struct Grammar {
    next: Expected,
    /// One bit per open container, the innermost lowest: 1 for an object.
    objects: u128,
    depth: u32,
}

impl Grammar {
    /// Return whether one value was read in full.
    pub(crate) fn is_whole(&self) -> bool {
        self.depth == 0 && self.next == Expected::End
    }

    /// Return the number of open containers.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Accept a string value, or a key that does not begin like those that `serde_json` reserves.
    #[inline(always)]
    pub(crate) fn string(&mut self, first: u8) -> Option<()> {
        if !matches!(self.next, Expected::Key | Expected::FirstKey) {
            return self.value();
        }
        self.next = Expected::Colon;
        (!matches!(first, b'$' | b'\\')).then_some(())
    }

    /// Accept a value that is not a container.
    #[inline(always)]
    pub(crate) fn value(&mut self) -> Option<()> {
        let wanted = matches!(self.next, Expected::Value | Expected::FirstValue);
        self.next = Expected::End;
        wanted.then_some(())
    }

    #[inline(always)]
    pub(crate) fn open(&mut self, object: bool) -> Option<()> {
        self.value()?;
        self.next = if object { Expected::FirstKey } else { Expected::FirstValue };
        self.objects = self.objects << 1 | u128::from(object);
        self.depth += 1;
        (self.depth <= DEEPEST).then_some(())
    }

    #[inline(always)]
    pub(crate) fn close(&mut self, object: bool) -> Option<()> {
        let empty = if object { Expected::FirstKey } else { Expected::FirstValue };
        let may = self.depth > 0
            && self.in_object() == object
            && (self.next == Expected::End || self.next == empty);
        self.next = Expected::End;
        self.depth = self.depth.saturating_sub(1);
        self.objects >>= 1;
        may.then_some(())
    }

    #[inline(always)]
    pub(crate) fn comma(&mut self) -> Option<()> {
        let may = self.depth > 0 && self.next == Expected::End;
        self.next = if self.in_object() { Expected::Key } else { Expected::Value };
        may.then_some(())
    }

    #[inline(always)]
    pub(crate) fn colon(&mut self) -> Option<()> {
        let may = self.next == Expected::Colon;
        self.next = Expected::Value;
        may.then_some(())
    }

    const fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{Index, select};
    use serde_json::{Value, json};

    use crate::json::reference_parser::parse;
    use crate::json::validate::is_valid;

    /// Return a strategy for any standard JSON value; keys begin with a letter.
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
            prop_assert!(is_valid(text.as_bytes()), "{text}");
            let mut other = text.into_bytes();
            let at = at.index(other.len());
            other.splice(at..other.len().min(at + cut), put.bytes());
            prop_assert!(!is_valid(&other) || parse(&other).is_ok(), "{}", String::from_utf8_lossy(&other));
        }
    }

    #[test]
    fn a_string_is_judged_alike_wherever_its_escapes_stand_in_a_block() {
        let pieces =
            r#"\n \" \\ \\\ \u0041 \ud83d\ude00 \ud83d \u12 \x " é"#.split(' ').chain(["\n", "\u{1f}", ""]);
        for (piece, before) in pieces.flat_map(|piece| (0..140).map(move |before| (piece, before))) {
            for after in [0, 1, 62, 63, 64, 130] {
                let text = format!("\"{}{piece}{piece}{}\"", "a".repeat(before), "b".repeat(after));
                assert_eq!(is_valid(text.as_bytes()), parse(text.as_bytes()).is_ok(), "{text}");
            }
        }
    }

    #[test]
    fn nothing_is_said_of_what_is_no_json_wherever_it_stands_in_a_block() {
        let texts = [
            r#"{"a":1,}"#,
            r#"{"a":}"#,
            r#"{"a"}"#,
            r#"{"a" 1}"#,
            r#"{"a":1 "b":2}"#,
            "{,}",
            "{1:2}",
            r#"{"a":1]"#,
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1:2]",
            "[1}",
            "[1",
            "1]",
            "1,",
            ",",
            ":",
            "1 2",
            r#""a""b""#,
            r#""a"1"#,
            r#"1"a""#,
            "\u{c}1",
            "1\u{b}",
            "\u{a0}1",
            r#""abc"#,
            r#"abc""#,
            r#""\ud83dxude00""#,
            r#""\ude00\ud83d""#,
            r#""\ud83d\ud83d\ude00""#,
            r#""\u00g0""#,
            r#""\u00"#,
            r"\n",
            "tru",
            "truex",
            "nul",
            "-",
            "01",
            "1.",
            ".1",
            "1e",
            "+1",
            "1a",
            "",
            " ",
        ];
        for (text, before) in
            texts.into_iter().flat_map(|text| [0, 1, 58, 60, 62, 63, 64, 126].map(|at| (text, at)))
        {
            let text = format!("{}{text}", " ".repeat(before));
            assert!(!is_valid(text.as_bytes()), "{text:?}");
        }
    }

    #[test]
    fn nothing_is_said_of_what_only_the_trusted_path_can_tell() {
        for text in ["NaN", "[-Infinity]", r#"{"$serde_json::private::Number":"1"}"#, r#"{"\u0024":1}"#] {
            assert!(!is_valid(text.as_bytes()), "{text}");
        }
        let nested = |depth| [vec![b'['; depth], vec![b']'; depth]].concat();
        assert!(is_valid(&nested(127)) && !is_valid(&nested(128)));
    }
}
