//! Takes a few values out of one JSON object without building the rest.
//!
//! The scan walks the keys of the objects that a wanted path goes through and skips every other value by its
//! structure: strings by their closing quote, containers by their depth. So it is exact on every valid JSON text
//! (nested decoys, escaped keys, duplicate keys: the last one wins, as in Python's `json`), and blind to damage
//! inside a value that it skips. [`crate::trusted`] is the slow twin that sees such damage; it judges every record
//! that is chosen, and with `--strict` every record that is read.
//!
//! Keys of a log come in one order again and again: [`Scan`] keeps that order ([`habits`]), so that most keys cost one
//! comparison.
//!
//! Not taken: serde's `IgnoredAny`, which validates while it skips at about a fifth of the speed.

mod blocks;
mod habits;
mod lanes;
mod path;
mod skip;
mod wanted;

use std::borrow::Cow;
use std::ops::Range;

use habits::Habits;
pub use path::Path;
use skip::string;
pub(crate) use skip::{skip_space, skip_string, skip_value};
use wanted::Node;
pub use wanted::Wanted;

/// Why a text is not one JSON object as far as the scan looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin with `{`.
    NotAnObject,
    /// It ends inside the object.
    Truncated,
    /// The byte at this position cannot stand there.
    Malformed(usize),
}

/// What one scan found beside the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// The first byte after the object.
    pub end: usize,
    /// Whether a wanted key stood twice in its object.
    pub duplicate: bool,
}

/// Scans the object that begins at `bytes[0]` and leaves the position of each wanted value in its slot.
///
/// # Errors
/// The [`Fault`] that stopped the scan; `values` then means nothing.
pub fn scan(
    bytes: &[u8],
    wanted: &Wanted,
    values: &mut [Option<Range<usize>>],
) -> std::result::Result<Scanned, Fault> {
    walk(bytes, wanted, &mut Habits::default(), values)
}

/// [`scan`] for the records of one log, which gets quicker with the keys that it has seen; it says the same.
#[derive(Debug)]
pub struct Scan {
    wanted: Wanted,
    habits: Habits,
}

impl Scan {
    /// No record seen yet.
    #[must_use]
    pub fn new(wanted: Wanted) -> Self {
        Self { wanted, habits: Habits::default() }
    }

    /// As [`scan`].
    ///
    /// # Errors
    /// As [`scan`].
    pub fn object(
        &mut self,
        bytes: &[u8],
        values: &mut [Option<Range<usize>>],
    ) -> std::result::Result<Scanned, Fault> {
        self.habits.restart();
        walk(bytes, &self.wanted, &mut self.habits, values)
    }
}

fn walk(
    bytes: &[u8],
    wanted: &Wanted,
    habits: &mut Habits,
    values: &mut [Option<Range<usize>>],
) -> Step<Scanned> {
    values.fill(None);
    if bytes.first() != Some(&b'{') {
        return Err(Fault::NotAnObject);
    }
    let mut cursor = Cursor { bytes, at: 0, duplicate: false, habits };
    cursor.object(&wanted.root, values)?;
    Ok(Scanned { end: cursor.at, duplicate: cursor.duplicate })
}

struct Cursor<'a, 'h> {
    bytes: &'a [u8],
    at: usize,
    duplicate: bool,
    habits: &'h mut Habits,
}

type Step<T> = std::result::Result<T, Fault>;

/// What comes next in an object.
enum Next<'n> {
    /// Its end.
    End,
    /// A value that is not wanted.
    Other,
    /// A value that is, or that holds one.
    Wanted(&'n Node),
}

impl Cursor<'_, '_> {
    /// One object whose `{` is at the cursor. Recursion is as deep as the longest wanted path.
    fn object(&mut self, node: &Node, values: &mut [Option<Range<usize>>]) -> Step<()> {
        self.at += 1;
        let mut first = true;
        loop {
            match self.next(node, first)? {
                Next::End => return Ok(()),
                Next::Other => self.at = skip_value(self.bytes, self.at)?,
                Next::Wanted(child) => self.wanted(child, values)?,
            }
            first = false;
        }
    }

    /// Moves over a key to its value, or over the end of the object.
    #[inline]
    fn next<'n>(&mut self, node: &'n Node, first: bool) -> Step<Next<'n>> {
        let place = 2 * node.number + usize::from(first);
        let child = if let Some((length, child)) = self.habits.follow(&self.bytes[self.at..], place) {
            self.at += length;
            child
        } else {
            let start = self.at;
            if self.ends(first)? {
                return Ok(Next::End);
            }
            let child = self.key(node)?;
            self.habits.learn(&self.bytes[start..self.at], place, child);
            child
        };
        self.peek()?;
        Ok(child.and_then(|at| node.children.get(at)).map_or(Next::Other, |(_, child)| Next::Wanted(child)))
    }

    /// Moves over what stands between members, or over the end of the object; whether it was the end.
    fn ends(&mut self, first: bool) -> Step<bool> {
        match self.peek()? {
            b'}' => self.at += 1,
            b',' if !first => {
                self.at += 1;
                return Ok(false);
            }
            _ if first => return Ok(false),
            _ => return Err(Fault::Malformed(self.at)),
        }
        Ok(true)
    }

    fn wanted(&mut self, node: &Node, values: &mut [Option<Range<usize>>]) -> Step<()> {
        for &slot in &node.below {
            self.duplicate |= values[slot].take().is_some();
        }
        let start = self.at;
        if node.children.is_empty() || self.bytes[start] != b'{' {
            self.at = skip_value(self.bytes, start)?;
        } else {
            self.object(node, values)?;
        }
        for &slot in &node.slots {
            values[slot] = Some(start..self.at);
        }
        Ok(())
    }

    /// Moves over a key to its value; which child it is.
    fn key(&mut self, node: &Node) -> Step<Option<usize>> {
        if self.peek()? != b'"' {
            return Err(Fault::Malformed(self.at));
        }
        let start = self.at;
        let (end, escaped) = string(self.bytes, start)?;
        self.at = end;
        self.expect(b':')?;
        self.peek()?;
        Ok(if escaped {
            unescape(&self.bytes[start..end]).and_then(|key| node.child(key.as_bytes()))
        } else {
            node.child(&self.bytes[start + 1..end - 1])
        })
    }

    fn expect(&mut self, byte: u8) -> Step<()> {
        if self.peek()? != byte {
            return Err(Fault::Malformed(self.at));
        }
        self.at += 1;
        Ok(())
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Step<u8> {
        self.at = skip_space(self.bytes, self.at);
        self.bytes.get(self.at).copied().ok_or(Fault::Truncated)
    }
}

/// A JSON string's text; `None` where it is not one (bad escape, lone surrogate, bad UTF-8, raw control character).
pub(crate) fn unescape(quoted: &[u8]) -> Option<Cow<'_, str>> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1))?;
    // No way out of the loop: names are short, and this way it is a handful of instructions.
    let odd = inner.iter().fold(false, |odd, byte| odd | matches!(byte, ..0x20 | b'\\'));
    if odd {
        serde_json::from_slice(quoted).ok().map(Cow::Owned)
    } else {
        std::str::from_utf8(inner).ok().map(Cow::Borrowed)
    }
}
