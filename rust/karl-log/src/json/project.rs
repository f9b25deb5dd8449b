//! Extraction of a few values from one JSON object without building the rest.
//!
//! The scan walks the keys of the objects on a wanted path and skips every other value by its structure:
//! strings by their closing quote, containers by their depth. It is exact on every valid JSON text (nested
//! decoys, escaped keys, duplicate keys: the last one wins, as in Python's `json`), and does not detect
//! damage inside a skipped value. [`crate::json::reference_parser`] is the slow equivalent that detects such damage;
//! it validates every chosen record and, with `--strict`, every record.
//!
//! The keys of a log usually repeat in one order: [`Scan`] learns that order, so most keys cost one
//! comparison.
//!
//! Serde's `IgnoredAny` is not used: it validates while it skips, at about a fifth of the speed.
//!
//! Buys 4.8 times the speed of msgspec, which parses the same fields, on 12 KB records
//! (`benches/record/2026-11-23-linux-x86-64-2-cores.csv`, big.jsonl, k = 1000).

use std::fmt;
use std::ops::Range;

use memchr::memchr2;

use super::simd::{self, BLOCK, Block, ENDS, Lanes, Marks, Portable, SimdKernel, Strings, padded};
use super::unescape::unescape;
use crate::error::{Error, Result};

/// Findings of one scan besides the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// Position of the first byte after the object.
    pub end: usize,
    /// True if a wanted key was duplicated in its object.
    pub duplicate: bool,
}

/// Scan the object that begins at `bytes[0]` and store the position of each wanted value in its slot.
///
/// # Errors
/// The [`ScanFault`] that stopped the scan; `values` is then meaningless.
pub fn scan(
    bytes: &[u8],
    wanted: &PathTree,
    values: &mut [Option<Range<usize>>],
) -> std::result::Result<Scanned, ScanFault> {
    walk(bytes, wanted, &mut KeyOrder::default(), values)
}

/// [`scan`] for the records of one log: faster with the keys of earlier records, with equal results.
#[derive(Debug)]
pub struct Scan {
    wanted: PathTree,
    keys: KeyOrder,
}

impl Scan {
    /// Create the scan, with no record seen yet.
    #[must_use]
    pub fn new(wanted: PathTree) -> Self {
        Self { wanted, keys: KeyOrder::default() }
    }

    /// Scan one object as [`scan`] does.
    ///
    /// # Errors
    /// As [`scan`].
    pub fn object(
        &mut self,
        bytes: &[u8],
        values: &mut [Option<Range<usize>>],
    ) -> std::result::Result<Scanned, ScanFault> {
        self.keys.next = 0;
        walk(bytes, &self.wanted, &mut self.keys, values)
    }
}

fn walk(
    bytes: &[u8],
    wanted: &PathTree,
    keys: &mut KeyOrder,
    values: &mut [Option<Range<usize>>],
) -> ScanResult<Scanned> {
    values.fill(None);
    if bytes.first() != Some(&b'{') {
        return Err(ScanFault::NotAnObject);
    }
    let mut cursor = Cursor { bytes, at: 0, duplicate: false, keys };
    cursor.object(&wanted.root, values)?;
    Ok(Scanned { end: cursor.at, duplicate: cursor.duplicate })
}

/// Reason why a text is not one JSON object, as far as the scan looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanFault {
    /// The text does not begin with `{`.
    NotAnObject,
    /// The text ends inside the object.
    Truncated,
    /// The byte at this position is not allowed there.
    Malformed(usize),
}

type ScanResult<T> = std::result::Result<T, ScanFault>;

/// Maximum length of a path in segments: the nesting limit of [`crate::json::reference_parser`].
const DEEPEST: usize = 127;

/// Path into nested objects and lists: `meta.group`, `scores[0].value`, `"a key".b`. A number is a key of an object or the
/// index of a list, whichever is there; a dot inside a key is written `\.`, or the key in quotation marks. Brackets with
/// nothing in them, `rewards[]`, stand for each element of a list in turn: a record gives a row for each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    segments: Vec<String>,
    /// Number of segments of the list of which the path is in each element.
    each: Option<usize>,
}

impl Path {
    /// Parse a path.
    ///
    /// # Errors
    /// [`Error::Field`] for an empty path, an empty segment, or more segments than a record may have levels.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |problem| Error::Field { path: text.to_owned(), problem };
        let mut segments = vec![String::new()];
        let mut each = None;
        let mut rest = text;
        while let Some(char) = rest.chars().next() {
            let (mut after, last) = (&rest[char.len_utf8()..], segments.last_mut());
            match (char, last) {
                ('\\', Some(last)) if after.starts_with('.') => {
                    last.push('.');
                    after = &after[1..];
                }
                ('"', Some(last)) if last.is_empty() => {
                    let quoted = quoted_key(after).ok_or_else(|| wrong("a quotation mark is not closed"))?;
                    (*last, after) = quoted;
                    if !(after.is_empty() || after.starts_with(['.', '['])) {
                        return Err(wrong("behind a key in quotation marks stands a dot or a bracket"));
                    }
                }
                ('[', Some(last)) if !last.is_empty() && is_each(after) => {
                    if each.replace(segments.len()).is_some() {
                        return Err(wrong(
                            "[] stands once in a path: a row is made for each element of one list",
                        ));
                    }
                    after = &after[1..];
                }
                ('[', Some(last)) if !last.is_empty() && index(after).is_some() => {
                    if let Some((digits, behind)) = index(after) {
                        segments.push(digits.to_owned());
                        after = behind;
                    }
                }
                ('.', _) => segments.push(String::new()),
                (_, Some(last)) => last.push(char),
                (_, None) => {}
            }
            rest = after;
        }
        if segments.iter().any(String::is_empty) {
            return Err(wrong("a segment is empty"));
        }
        if segments.len() > DEEPEST {
            return Err(wrong("it goes deeper than a record may"));
        }
        Ok(Self { segments, each })
    }

    /// Return the path of a key at the top, whatever is in it.
    pub(crate) fn key(name: &str) -> Self {
        Self::keys(&[name])
    }

    /// Return the path of some keys, whatever is in them.
    pub(crate) fn keys(names: &[&str]) -> Self {
        Self { segments: names.iter().map(|&name| name.to_owned()).collect(), each: None }
    }

    /// Return the list of which this path is in each element, if it has brackets with nothing in them.
    pub(crate) fn list(&self) -> Option<Self> {
        Some(Self { segments: self.segments.get(..self.each?)?.to_vec(), each: None })
    }

    /// Return the outermost key.
    pub(crate) fn root(&self) -> &str {
        self.segments.first().map_or("", String::as_str)
    }

    /// Return the keys from the outermost to the innermost; never empty.
    #[must_use]
    pub fn segments(&self) -> &[String] {
        &self.segments
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written: Vec<String> = self.segments.iter().map(|segment| written_key(segment)).collect();
        if let Some(list) = self.each.and_then(|each| written.get_mut(each - 1)) {
            list.push_str("[]");
        }
        f.write_str(&written.join("."))
    }
}

/// Return the key up to the closing quotation mark, and the text behind it.
fn quoted_key(text: &str) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((key, &text[at + 1..])),
            '\\' => key.push(chars.next()?.1),
            char => key.push(char),
        }
    }
    None
}

/// Return whether a bracket closes at once, and the path ends or goes on behind it.
fn is_each(text: &str) -> bool {
    text.strip_prefix(']').is_some_and(|behind| behind.is_empty() || behind.starts_with(['.', '[']))
}

/// Return the number up to a closing bracket, and the text behind it.
fn index(text: &str) -> Option<(&str, &str)> {
    let (digits, behind) = text.split_once(']')?;
    (digits.parse::<usize>().is_ok() && (behind.is_empty() || behind.starts_with(['.', '['])))
        .then_some((digits, behind))
}

/// Return a key as it is written in a path.
fn written_key(key: &str) -> String {
    if key.starts_with('"') || key.contains(['[', '|', ',']) {
        return format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
    }
    key.replace('.', "\\.")
}

/// Paths to extract, as a tree of keys.
#[derive(Clone, Debug, Default)]
pub struct PathTree {
    root: Node,
    slots: usize,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// Index of the node in the tree.
    number: usize,
    slots: Vec<usize>,
    /// Slots at and below this node: a duplicate key replaces them all.
    below: Vec<usize>,
    children: Vec<(String, Node)>,
    /// Whether a child may be the element of a list.
    has_index: bool,
    /// One bit for the mark of each child: most keys are not children, and this rejects most of them.
    marks: u64,
}

impl PathTree {
    /// Create a slot for each path, in order.
    #[must_use]
    pub fn new(paths: &[Path]) -> Self {
        let mut root = Node::default();
        for (slot, path) in paths.iter().enumerate() {
            root.insert(path.segments(), slot);
        }
        root.count(0);
        Self { root, slots: paths.len() }
    }

    /// Return the number of slots that [`scan`](fn@scan) fills.
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
            self.has_index |= first.parse::<usize>().is_ok();
            self.children.len() - 1
        });
        self.children[at].1.insert(rest, slot);
    }

    /// Number this node and its descendants; return the next free number.
    fn count(&mut self, number: usize) -> usize {
        self.number = number;
        self.children.iter_mut().fold(number + 1, |next, (_, child)| child.count(next))
    }

    /// Return the index of the child with that key; usually [`NONE`].
    fn child(&self, key: &[u8]) -> usize {
        if self.marks & mark(key) == 0 {
            return NONE;
        }
        self.children.iter().position(|(name, _)| name.as_bytes() == key).unwrap_or(NONE)
    }
}

/// Index in place of a missing child.
const NONE: usize = usize::MAX;

/// Return one of 64 bits, selected by a key's length and first byte.
fn mark(key: &[u8]) -> u64 {
    1 << ((key.len() + 8 * usize::from(key.first().copied().unwrap_or(0))) % 64)
}

/// Maximum length of a kept text: four words.
const LONGEST: usize = 32;

/// Maximum number of kept texts.
const MOST: usize = 64;

/// Maximum number of expected keys to skip, for keys that not every record has.
const NEAR: usize = 8;

/// Expected keys with their order, learned from record to record, and the position in it.
///
/// An expected key is the text from the end of one value to the start of the next, `, "group": `, with the child
/// that its key selects. A text with the same beginning selects the same child; if none matches, the key is parsed
/// and learned.
#[derive(Clone, Debug, Default)]
struct KeyOrder {
    all: Vec<ExpectedKey>,
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct ExpectedKey {
    text: [u64; 4],
    /// All ones in the bytes of the text.
    mask: [u64; 4],
    length: usize,
    /// Position of its object in the tree, and whether it is the first key there.
    place: usize,
    /// Child as returned by [`Node::child`].
    child: usize,
}

impl KeyOrder {
    /// Return the next expected key if the text matches it.
    #[inline(always)]
    fn follow(&mut self, bytes: &[u8], place: usize) -> Option<&ExpectedKey> {
        let expected =
            self.all.get(self.next).filter(|expected| expected.place == place && expected.fits(bytes))?;
        self.next += 1;
        Some(expected)
    }

    /// Keep a parsed key; the order continues after it.
    fn learn(&mut self, text: &[u8], place: usize, child: usize) {
        let near = self.all.iter().skip(self.next).take(NEAR);
        let known =
            near.enumerate().find(|(_, expected)| expected.is(text, place)).map(|(at, _)| self.next + at);
        if known.is_none() && (text.len() > LONGEST || self.all.len() == MOST) {
            return;
        }
        let at = known.unwrap_or(self.next);
        if known.is_none() {
            self.all.insert(at, ExpectedKey::new(text, place, child));
        }
        self.next = at + 1;
    }
}

impl ExpectedKey {
    fn new(text: &[u8], place: usize, child: usize) -> Self {
        let (mut bytes, mut mask) = ([0; LONGEST], [0; LONGEST]);
        bytes[..text.len()].copy_from_slice(text);
        mask[..text.len()].fill(u8::MAX);
        Self { text: words(&bytes), mask: words(&mask), length: text.len(), place, child }
    }

    /// Return whether bytes begin with the text.
    #[inline(always)]
    fn fits(&self, bytes: &[u8]) -> bool {
        let Some(bytes) = bytes.first_chunk() else { return self.fits_end(bytes) };
        let ([a, b, c, d], [text, mask]) = (words(bytes), [&self.text, &self.mask]);
        let other = ((a ^ text[0]) & mask[0]) | ((b ^ text[1]) & mask[1]);
        other | ((c ^ text[2]) & mask[2]) | ((d ^ text[3]) & mask[3]) == 0
    }

    /// Return the same for fewer bytes than the maximum length of a text.
    #[inline(never)]
    fn fits_end(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(&self.text.map(u64::to_le_bytes).as_flattened()[..self.length])
    }

    fn is(&self, text: &[u8], place: usize) -> bool {
        self.place == place && self.length == text.len() && self.fits_end(text)
    }
}

#[inline(always)]
fn words(bytes: &[u8; LONGEST]) -> [u64; 4] {
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * at + byte]));
    [word(0), word(1), word(2), word(3)]
}

/// Progress of the scan in a record.
struct Cursor<'a, 'h> {
    bytes: &'a [u8],
    at: usize,
    duplicate: bool,
    keys: &'h mut KeyOrder,
}

/// One object of a record.
struct Object<'c, 'a, 'h, 'w> {
    cursor: &'c mut Cursor<'a, 'h>,
    node: &'w Node,
    values: &'c mut [Option<Range<usize>>],
}

impl SimdKernel for Object<'_, '_, '_, '_> {
    type Output = ScanResult<()>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> ScanResult<()> {
        let Self { cursor, node, values } = self;
        cursor.at += 1;
        let mut first = true;
        while let Some(child) = cursor.next(node, first)? {
            match node.children.get(child) {
                Some((_, child)) => cursor.read_wanted(child, values, lanes)?,
                None => cursor.at = value(cursor.bytes, cursor.at, lanes)?,
            }
            first = false;
        }
        Ok(())
    }
}

impl Cursor<'_, '_> {
    /// Scan the object that opens at the cursor. Recursion is as deep as the longest wanted path.
    fn object(&mut self, node: &Node, values: &mut [Option<Range<usize>>]) -> ScanResult<()> {
        simd::run(Object { cursor: self, node, values })
    }

    /// Move past a key to its value and return the index of its child; `None` after the end of the object.
    #[inline(always)]
    fn next(&mut self, node: &Node, first: bool) -> ScanResult<Option<usize>> {
        let place = 2 * node.number + usize::from(first);
        if let Some(expected) = self.keys.follow(self.bytes.get(self.at..).unwrap_or_default(), place) {
            let child = expected.child;
            self.at += expected.length;
            self.peek()?;
            return Ok(Some(child));
        }
        self.read(node, place, first)
    }

    /// Move past an unexpected key to its value and return its child; `None` after the end of the object.
    #[inline(never)]
    fn read(&mut self, node: &Node, place: usize, first: bool) -> ScanResult<Option<usize>> {
        let start = self.at;
        if self.ends(first)? {
            return Ok(None);
        }
        let child = self.key(node)?;
        self.keys.learn(&self.bytes[start..self.at], place, child);
        Ok(Some(child))
    }

    /// Move past the separator between members or past the end of the object; return whether it was the end.
    fn ends(&mut self, first: bool) -> ScanResult<bool> {
        match self.peek()? {
            byte if first && byte != b'}' => Ok(false),
            byte @ (b'}' | b',') => {
                self.at += 1;
                Ok(byte == b'}')
            }
            _ => Err(ScanFault::Malformed(self.at)),
        }
    }

    #[inline(always)]
    fn read_wanted(
        &mut self,
        node: &Node,
        values: &mut [Option<Range<usize>>],
        lanes: impl Lanes,
    ) -> ScanResult<()> {
        for &slot in &node.below {
            self.duplicate |= values[slot].take().is_some();
        }
        let start = self.at;
        if node.has_index && self.bytes[start] == b'[' {
            self.list(node, values)?;
        } else if node.children.is_empty() || self.bytes[start] != b'{' {
            self.at = value(self.bytes, start, lanes)?;
        } else {
            self.object(node, values)?;
        }
        for &slot in &node.slots {
            values[slot] = Some(start..self.at);
        }
        Ok(())
    }

    /// Read the wanted elements of the list that opens at the cursor.
    #[inline(never)]
    fn list(&mut self, node: &Node, values: &mut [Option<Range<usize>>]) -> ScanResult<()> {
        self.at += 1;
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(());
        }
        for index in 0.. {
            self.peek()?;
            match node.children.iter().find(|(key, _)| key.parse() == Ok(index)) {
                Some((_, child)) => self.read_wanted(child, values, Portable)?,
                None => self.at = value(self.bytes, self.at, Portable)?,
            }
            match self.peek()? {
                b',' => self.at += 1,
                b']' => break,
                _ => return Err(ScanFault::Malformed(self.at)),
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Move past a key to its value; return the index of its child.
    fn key(&mut self, node: &Node) -> ScanResult<usize> {
        if self.peek()? != b'"' {
            return Err(ScanFault::Malformed(self.at));
        }
        let start = self.at;
        let (end, escaped) = string(self.bytes, start)?;
        self.at = end;
        if self.peek()? != b':' {
            return Err(ScanFault::Malformed(self.at));
        }
        self.at += 1;
        self.peek()?;
        Ok(if escaped {
            unescape(&self.bytes[start..end]).map_or(NONE, |key| node.child(key.as_bytes()))
        } else {
            node.child(&self.bytes[start + 1..end - 1])
        })
    }

    /// Return the next byte that is not white space.
    #[inline(always)]
    fn peek(&mut self) -> ScanResult<u8> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte > b' ' => Ok(byte),
            _ => self.peek_far(),
        }
    }

    #[inline(never)]
    fn peek_far(&mut self) -> ScanResult<u8> {
        self.at = skip_space(self.bytes, self.at);
        self.bytes.get(self.at).copied().ok_or(ScanFault::Truncated)
    }
}

/// Return the first position from `at` on that is not JSON white space.
pub(crate) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// Return the position after the value that begins at `at`, by structure alone: the closing quote of a string, the
/// depth of a container. Nothing between the tokens is validated.
pub(crate) fn skip_value(bytes: &[u8], at: usize) -> ScanResult<usize> {
    match bytes.get(at) {
        Some(b'{' | b'[') => end(&bytes[at..]).map(|end| at + end).ok_or(ScanFault::Truncated),
        _ => value(bytes, at, Portable),
    }
}

/// Return the same with the given vectors.
#[inline(always)]
fn value(bytes: &[u8], at: usize, lanes: impl Lanes) -> ScanResult<usize> {
    match bytes.get(at) {
        None => Err(ScanFault::Truncated),
        Some(b'"') => match lanes.string(&bytes[at + 1..]) {
            Some(length) => Ok(at + 2 + length),
            None => long_string(bytes, at).map(|(end, _)| end),
        },
        Some(b'{' | b'[') => end_by(&bytes[at..], lanes).map(|end| at + end).ok_or(ScanFault::Truncated),
        Some(_) => scalar(bytes, at, lanes),
    }
}

/// Return the end of a number or word: the next `,`, `}`, `]` or white space. Most are short.
#[inline(always)]
fn scalar(bytes: &[u8], at: usize, lanes: impl Lanes) -> ScanResult<usize> {
    match lanes.scalar(&bytes[at..]) {
        Some(length) if length > 0 => Ok(at + length),
        _ => long_scalar(bytes, at),
    }
}

#[inline(never)]
fn long_scalar(bytes: &[u8], at: usize) -> ScanResult<usize> {
    match bytes[at..].iter().position(|byte| ENDS.contains(byte)) {
        None => Err(ScanFault::Truncated),
        Some(0) => Err(ScanFault::Malformed(at)),
        Some(length) => Ok(at + length),
    }
}

/// Return the position after the string that opens at `at`.
pub(crate) fn skip_string(bytes: &[u8], at: usize) -> ScanResult<usize> {
    string(bytes, at).map(|(end, _)| end)
}

/// Return the same, and whether the string has an escape.
fn string(bytes: &[u8], at: usize) -> ScanResult<(usize, bool)> {
    match Portable.string(bytes.get(at + 1..).unwrap_or_default()) {
        Some(length) => Ok((at + 2 + length, false)),
        None => long_string(bytes, at),
    }
}

#[inline(never)]
fn long_string(bytes: &[u8], at: usize) -> ScanResult<(usize, bool)> {
    let mut from = at + 1;
    let mut escaped = false;
    while let Some(found) = bytes.get(from..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        from += found + 1;
        if bytes[from - 1] == b'"' {
            return Ok((from, escaped));
        }
        escaped = true;
        from += 1;
    }
    Err(ScanFault::Truncated)
}

/// Return the position after the container that opens at the first byte, by blocks of 64 bytes. Only a block that may
/// hold the end is walked: the positions of strings are known for each block ([`Strings`]).
///
/// Record: `log::scan_fields::Big` of `benches/record/instructions.json`.
fn end(bytes: &[u8]) -> Option<usize> {
    simd::run(Container(bytes))
}

struct Container<'a>(&'a [u8]);

impl SimdKernel for Container<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Option<usize> {
        end_by(self.0, lanes)
    }
}

/// Return the same with the given vectors.
#[inline(always)]
fn end_by(bytes: &[u8], lanes: impl Lanes) -> Option<usize> {
    let mut blocks = Blocks::default();
    let (whole, rest) = bytes.as_chunks::<BLOCK>();
    for (number, block) in whole.iter().enumerate() {
        if let Some(end) = blocks.feed(block, lanes) {
            return Some(number * BLOCK + end);
        }
    }
    blocks.feed(&padded(rest), lanes).map(|end| whole.len() * BLOCK + end)
}

/// State carried from one block of a container to the next.
#[derive(Default)]
struct Blocks {
    depth: usize,
    strings: Strings,
}

impl Blocks {
    /// Return the position after the container's end if it is in this block. Quotes, backslashes and brackets
    /// are unpredictable in a text, so a branch on one of them would often be mispredicted.
    #[inline(always)]
    fn feed(&mut self, block: &Block, lanes: impl Lanes) -> Option<usize> {
        let bits = lanes.bits(block);
        let Marks { inside, .. } = self.strings.feed(bits.quote, bits.backslash);
        let (open, close) = (bits.open & !inside, bits.close & !inside);
        let closed = close.count_ones() as usize;
        if closed >= self.depth {
            return self.walk(open, close);
        }
        self.depth = self.depth + open.count_ones() as usize - closed;
        None
    }

    /// Walk the brackets of a block that may hold the end.
    #[inline(always)]
    fn walk(&mut self, open: u64, close: u64) -> Option<usize> {
        let mut brackets = open | close;
        while brackets != 0 {
            let at = brackets.trailing_zeros();
            brackets &= brackets - 1;
            if open >> at & 1 == 1 {
                self.depth += 1;
                continue;
            }
            self.depth -= 1;
            if self.depth == 0 {
                return Some(at as usize + 1);
            }
        }
        None
    }
}

/// Iterate over the elements of a validated array; none for any other value.
pub fn elements(raw: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = if raw.first() == Some(&b'[') { skip_space(raw, 1) } else { raw.len() };
    std::iter::from_fn(move || {
        let end = skip_value(raw, at).ok().filter(|_| raw.get(at) != Some(&b']'))?;
        let element = &raw[at..end];
        at = skip_space(raw, end);
        at = if raw.get(at) == Some(&b',') { skip_space(raw, at + 1) } else { raw.len() };
        Some(element)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Return the end of a container, byte by byte.
    fn naive(bytes: &[u8]) -> ScanResult<usize> {
        let (mut depth, mut in_string, mut escaped) = (0, false, false);
        for (at, &byte) in bytes.iter().enumerate() {
            match (in_string, byte) {
                (true, _) if escaped => escaped = false,
                (true, b'\\') => escaped = true,
                (_, b'"') => in_string = !in_string,
                (false, b'{' | b'[') => depth += 1,
                (false, b'}' | b']') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(at + 1);
            }
        }
        Err(ScanFault::Truncated)
    }

    proptest! {
        #[test]
        fn blocks_end_where_bytes_do(
            inner in prop::collection::vec(prop::sample::select(br#"{}[]""\\\\ax,:"#.to_vec()), 0..400), before in 0_usize..70,
        ) {
            // A backslash outside a string is not valid JSON: left out, because the result is undefined
            // there.
            let mut bytes = b"[".to_vec();
            let mut in_string = false;
            for byte in inner {
                let escaped = bytes.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1;
                in_string ^= byte == b'"' && !escaped;
                if byte != b'\\' || in_string {
                    bytes.push(byte);
                }
            }
            let whole = [&b" ".repeat(before)[..], &bytes, b"]]]]]]]]}}}}"].concat();
            let wanted = naive(&whole[before..]).map(|end| end + before);
            prop_assert_eq!(skip_value(&whole, before), wanted);
        }
    }

    #[test]
    fn runs_of_backslashes_count_across_blocks() {
        for before in 0..140 {
            for run in 0..140 {
                let text = format!("[\"{}{}\"]\"]", "a".repeat(before), "\\".repeat(run));
                assert_eq!(skip_value(text.as_bytes(), 0), naive(text.as_bytes()), "{before} {run}");
                let string = &text.as_bytes()[1..];
                let end = 2 + before + run + if run % 2 == 0 { 0 } else { 2 };
                assert_eq!(skip_value(string, 0), Ok(end), "{before} {run}");
            }
        }
    }

    #[test]
    fn elements_are_those_of_the_array() {
        let found = |raw: &str| -> Vec<String> {
            elements(raw.as_bytes()).map(|raw| String::from_utf8_lossy(raw).into_owned()).collect()
        };
        assert_eq!(found(r#"[ {"a":[1]} , "b]" ,3 ]"#), [r#"{"a":[1]}"#, "\"b]\"", "3"]);
        assert!(["[]", "[ ]", "\"a\"", "null", ""].iter().all(|raw| found(raw).is_empty()));
    }
}
