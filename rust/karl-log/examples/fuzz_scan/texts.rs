//! Texts made from a seed, most of them slightly damaged JSON objects.

/// Corpus written for this project, one document per line: the shapes of logs, and corner cases of JSON.
const CORPUS: &str = include_str!("corpus.txt");

/// Tokens inserted by the generator or a mutation.
const TOKENS: [&[u8]; 48] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"\"",
    b"\\",
    b"\\\"",
    b"\\\\",
    b" ",
    b"\t",
    b"\r\n",
    b"\n",
    b"\x00",
    b"\x1f",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xc0\xaf",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"\\u0000",
    b"\\ud800",
    b"\\udc00",
    b"\\ud83d\\ude00",
    b"\\u00",
    b"\\x",
    b"null",
    b"true",
    b"false",
    b"nul",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"-",
    b"+",
    b".",
    b"e",
    b"0",
    b"1e400",
    b"\"id\":",
    b"\"reward\":1,",
    b"\"i\\u0064\":",
    b"\"meta\":{",
    b"/**/",
];

const KEYS: [&str; 14] = [
    "id",
    r"i\u0064",
    "group",
    r"\u0067roup",
    "reward",
    "meta",
    r"me\u0074a",
    "a.b",
    "ключ",
    r"\u043aлюч",
    "x",
    "",
    r#"q\"q"#,
    r"$serde_json::private::Number",
];

const LEAVES: [&str; 32] = [
    "0",
    "-0",
    "-0.0",
    "1e5",
    "1E+05",
    "12.50e-3",
    "9007199254740993",
    "1e400",
    "1e100",
    "1.0000000000000001e100",
    "4.9e-324",
    "2.2250738585072011e-308",
    "123456789012345678901234567890",
    "0.1",
    "true",
    "false",
    "null",
    "NaN",
    "Infinity",
    "-Infinity",
    r#""""#,
    r#""a\"}]{[,:""#,
    r#""\\""#,
    r#""\\\"""#,
    r#""\u00e9\ud83d\ude00""#,
    r#""{\"id\": 1}""#,
    "\"\u{2028}\u{1f600}\u{7f}\"",
    "[]",
    "{}",
    r#""\/\b\f\n\r\t""#,
    r#""\ud800""#,
    r#""0.5""#,
];

const SPACES: [&str; 8] = ["", "", "", "", " ", "\n", "\r\n\t", "  "];

/// Endless sequence of texts.
pub(crate) struct Texts {
    random: Random,
    corpus: Vec<&'static [u8]>,
}

impl Texts {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Random(seed), corpus: CORPUS.lines().map(str::as_bytes).collect() }
    }

    /// Return the next text.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        let mut text = self.document();
        for _ in 0..self.random.below(6) {
            self.mutate(&mut text);
        }
        text
    }

    fn document(&mut self) -> Vec<u8> {
        if self.random.below(4) == 0 {
            return self.random.pick(&self.corpus).to_vec();
        }
        let mut text = String::new();
        self.object(&mut text, 4);
        text.into_bytes()
    }

    fn object(&mut self, out: &mut String, depth: usize) {
        out.push('{');
        for member in 0..self.random.below(7) {
            out.push_str(if member > 0 { "," } else { "" });
            self.space(out);
            out.extend(["\"", self.random.pick(&KEYS), "\""]);
            self.space(out);
            out.push(':');
            self.space(out);
            self.value(out, depth);
            self.space(out);
        }
        out.push('}');
    }

    fn value(&mut self, out: &mut String, depth: usize) {
        match self.random.below(if depth > 0 { 8 } else { 1 }) {
            0..=4 => out.push_str(self.random.pick(&LEAVES)),
            5 => {
                out.push('[');
                for item in 0..self.random.below(4) {
                    out.push_str(if item > 0 { "," } else { "" });
                    self.value(out, depth - 1);
                }
                out.push(']');
            }
            _ => self.object(out, depth - 1),
        }
    }

    fn space(&mut self, out: &mut String) {
        out.push_str(self.random.pick(&SPACES));
    }

    /// Change one byte, a range, or the whole text.
    fn mutate(&mut self, text: &mut Vec<u8>) {
        let (start, end) = self.stretch(text);
        match self.random.below(9) {
            0 => text.iter_mut().skip(start).take(1).for_each(|byte| *byte ^= 1 << self.random.below(8)),
            1 => text.iter_mut().skip(start).take(1).for_each(|byte| *byte = self.random.byte()),
            2 => drop(text.drain(start..end)),
            3 => text.truncate(start),
            4 => drop(text.splice(start..start, self.random.pick(&TOKENS).iter().copied())),
            5 => drop(text.splice(start..end, self.random.pick(&TOKENS).iter().copied())),
            6 => text.extend_from_within(start..end),
            7 => {
                let twice = text[start..end].to_vec();
                text.splice(start..start, twice);
            }
            _ => {
                let other = self.document();
                let (from, to) = self.stretch(&other);
                text.splice(start..end, other[from..to].iter().copied());
            }
        }
    }

    /// Return a position in a text, and one at or after it, usually near.
    fn stretch(&mut self, text: &[u8]) -> (usize, usize) {
        let start = self.random.below(text.len() + 1);
        let most = if self.random.below(4) == 0 { text.len() } else { 8 };
        (start, text.len().min(start + self.random.below(most + 1)))
    }
}

/// `SplitMix64` (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn byte(&mut self) -> u8 {
        self.word().to_le_bytes()[7]
    }

    /// Return a number below `count`, or 0; the bias of the remainder does not matter here.
    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.word() % count.max(1) as u64).unwrap_or(0)
    }

    fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}
