//! Walk over the tokens of a text.

use crate::json::project::skip_space;

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
pub(super) type DumpsResult<T = ()> = Result<T, Refused>;

/// Member of an object, by its places in what the text becomes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectMember {
    pub(super) key: usize,
    pub(super) key_end: usize,
    pub(super) value: usize,
    pub(super) end: usize,
    /// The last eight bytes of the key: keys that differ mostly differ there, and a word is compared faster than a text.
    pub(super) tail: u64,
}

/// Progress through a text. What it becomes is `out`, and after that the bytes from `copied` to `at` as they are.
pub(super) struct Walk<'a, 's> {
    pub(super) text: &'a str,
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    pub(super) copied: usize,
    depth: usize,
    pub(super) out: &'s mut Vec<u8>,
    /// Members of the open objects, the innermost last.
    pub(super) members: &'s mut Vec<ObjectMember>,
}

impl<'a, 's> Walk<'a, 's> {
    pub(super) fn new(text: &'a str, out: &'s mut Vec<u8>, members: &'s mut Vec<ObjectMember>) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0, copied: 0, depth: 0, out, members }
    }

    /// Walk over an object and what surrounds it; return the bytes that are its form if nothing was written anew.
    pub(super) fn whole(&mut self) -> DumpsResult<(usize, usize)> {
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

    pub(super) fn value(&mut self) -> DumpsResult {
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
    pub(super) fn open(&mut self) -> DumpsResult {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Refused::Python);
        }
        self.at += 1;
        self.tight();
        Ok(())
    }

    #[allow(clippy::unnecessary_wraps, reason = "it is the last step of a container")]
    pub(super) fn close(&mut self) -> DumpsResult {
        self.depth -= 1;
        self.at += 1;
        Ok(())
    }

    /// Return whether the container ends after a value; move past the comma if it does not.
    #[inline]
    pub(super) fn ends(&mut self, close: u8) -> DumpsResult<bool> {
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
    pub(super) fn tight(&mut self) {
        if !matches!(self.peek(), Some(b'!'..)) {
            self.space(b"");
        }
    }

    /// Move past white space where Python writes one space.
    #[inline(always)]
    pub(super) fn spaced(&mut self) {
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
    pub(super) fn put(&mut self, end: usize, wanted: &[u8]) {
        if self.bytes[self.at..end] != *wanted {
            self.flush();
            self.out.extend_from_slice(wanted);
            self.copied = end;
        }
        self.at = end;
    }

    /// Copy the bytes that stay as they are.
    pub(super) fn flush(&mut self) {
        self.out.extend_from_slice(&self.bytes[self.copied..self.at]);
        self.copied = self.at;
    }

    /// Return the position of the next byte in what the text becomes.
    #[inline]
    pub(super) fn here(&self) -> usize {
        self.out.len() + self.at - self.copied
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }
}
