//! Objects as Python's `json.dumps` writes what its `json.loads` reads.
//!
//! That is ASCII alone, `", "` and `": "` between tokens, floats by `repr`, and each key once, at its first place with its
//! last value. Most lines of a store have that form already, for `json.dumps` wrote them: a text is validated as it is
//! read, and only the bytes that differ are written anew.
//!
//! Buys most of the speed of a backfill, which spent its time in Python's `json` before (`benches/record/reward.json`, store).

mod float;
mod members;
mod number;
mod string;
mod walk;

pub(crate) use float::push_float;
pub(crate) use walk::Refused;

use walk::{DumpsResult, ObjectMember, Walk};

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
        let (from, end) = Walk::new(text, out, members).whole()?;
        let text = if self.out.is_empty() { &text.as_bytes()[from..end] } else { &self.out };
        Ok(Dumped { text, members: &self.members })
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
}
