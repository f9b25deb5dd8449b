//! Takes a few values out of one JSON object without building the rest.
//!
//! The scan walks the keys of the objects that a wanted path goes through and skips every other value by its
//! structure: strings by their closing quote, containers by their depth. So it is exact on every valid JSON text
//! (nested decoys, escaped keys, duplicate keys: the last one wins, as in Python's `json`), and blind to damage
//! inside a value that it skips. [`crate::trusted`] is the slow twin that sees such damage; it judges every record
//! that is chosen, and with `--strict` every record that is read.
//!
//! Not taken: serde's `IgnoredAny`, which validates while it skips at about a fifth of the speed.

mod skip;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::error::{Error, Result};
use skip::string;
pub(crate) use skip::{skip_space, skip_string, skip_value};

/// The longest path, in segments: what [`crate::trusted`] can parse is not nested deeper.
const DEEPEST: usize = 127;

/// A dotted path into nested objects: `meta.group`; a dot inside a key is written `\.`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path(Vec<String>);

impl Path {
    /// Reads a dotted path.
    ///
    /// # Errors
    /// [`Error::Field`] for an empty path, an empty segment, or more segments than a record has levels.
    pub fn parse(text: &str) -> Result<Self> {
        let mut segments = vec![String::new()];
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            match (char, segments.last_mut()) {
                ('\\', Some(last)) if chars.next_if_eq(&'.').is_some() => last.push('.'),
                ('.', _) => segments.push(String::new()),
                (_, Some(last)) => last.push(char),
                (_, None) => {}
            }
        }
        if segments.iter().any(String::is_empty) {
            return Err(Error::Field { path: text.to_owned(), problem: "a segment is empty" });
        }
        if segments.len() > DEEPEST {
            return Err(Error::Field { path: text.to_owned(), problem: "it goes deeper than a record may" });
        }
        Ok(Self(segments))
    }

    /// The keys from the outside in; never empty.
    #[must_use]
    pub fn segments(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped: Vec<String> = self.0.iter().map(|segment| segment.replace('.', "\\.")).collect();
        f.write_str(&escaped.join("."))
    }
}

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

/// The paths to take, as a tree of keys.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    root: Node,
    slots: usize,
}

#[derive(Clone, Debug, Default)]
struct Node {
    slots: Vec<usize>,
    /// The slots at and below this node: a duplicate key replaces them all.
    below: Vec<usize>,
    children: Vec<(String, Node)>,
    /// One bit for the mark of each child: most keys are no child, and this tells most of them.
    marks: u64,
}

impl Wanted {
    /// One slot for each path, in order.
    #[must_use]
    pub fn new(paths: &[Path]) -> Self {
        let mut root = Node::default();
        for (slot, path) in paths.iter().enumerate() {
            root.insert(path.segments(), slot);
        }
        Self { root, slots: paths.len() }
    }

    /// How many slots [`scan`] fills.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }
}

impl Node {
    fn insert(&mut self, segments: &[String], slot: usize) {
        self.below.push(slot);
        let Some((first, rest)) = segments.split_first() else {
            self.slots.push(slot);
            return;
        };
        let at = self.children.iter().position(|(key, _)| key == first).unwrap_or_else(|| {
            self.children.push((first.clone(), Self::default()));
            self.marks |= mark(first.as_bytes());
            self.children.len() - 1
        });
        self.children[at].1.insert(rest, slot);
    }

    fn child(&self, key: &[u8]) -> Option<&Self> {
        if self.marks & mark(key) == 0 {
            return None;
        }
        self.children.iter().find(|(name, _)| name.as_bytes() == key).map(|(_, node)| node)
    }
}

/// One of 64 bits, by a key's length and first byte.
fn mark(key: &[u8]) -> u64 {
    1 << ((key.len() + 8 * usize::from(key.first().copied().unwrap_or(0))) % 64)
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
    values.fill(None);
    if bytes.first() != Some(&b'{') {
        return Err(Fault::NotAnObject);
    }
    let mut cursor = Cursor { bytes, at: 0, duplicate: false };
    cursor.object(&wanted.root, values)?;
    Ok(Scanned { end: cursor.at, duplicate: cursor.duplicate })
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    duplicate: bool,
}

type Step<T> = std::result::Result<T, Fault>;

impl Cursor<'_> {
    /// One object whose `{` is at the cursor. Recursion is as deep as the longest wanted path.
    fn object(&mut self, node: &Node, values: &mut [Option<Range<usize>>]) -> Step<()> {
        self.at += 1;
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            let child = self.key(node)?;
            self.expect(b':')?;
            self.peek()?;
            match child {
                Some(child) => self.wanted(child, values)?,
                None => self.at = skip_value(self.bytes, self.at)?,
            }
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => break,
                _ => return Err(Fault::Malformed(self.at)),
            }
        }
        self.at += 1;
        Ok(())
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

    fn key<'n>(&mut self, node: &'n Node) -> Step<Option<&'n Node>> {
        if self.peek()? != b'"' {
            return Err(Fault::Malformed(self.at));
        }
        let start = self.at;
        let (end, escaped) = string(self.bytes, start)?;
        self.at = end;
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
