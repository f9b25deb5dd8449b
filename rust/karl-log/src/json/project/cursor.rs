//! Walk over the keys of an object.

use std::ops::Range;

use super::fault::{ScanFault, ScanResult};
use super::key_order::KeyOrder;
use super::paths::{NONE, PathNode};
use super::skip::{skip_space, string, value};
use crate::json::simd;
use crate::json::simd::{Lanes, SimdKernel};
use crate::json::unescape::unescape;

/// Progress of the scan in a record.
pub(super) struct RecordCursor<'a, 'h> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    pub(super) duplicate: bool,
    pub(super) habits: &'h mut KeyOrder,
}

/// One object of a record.
struct Object<'c, 'a, 'h, 'w> {
    cursor: &'c mut RecordCursor<'a, 'h>,
    node: &'w PathNode,
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
                Some((_, child)) => cursor.wanted(child, values, lanes)?,
                None => cursor.at = value(cursor.bytes, cursor.at, lanes)?,
            }
            first = false;
        }
        Ok(())
    }
}

impl RecordCursor<'_, '_> {
    /// Scan the object that opens at the cursor. Recursion is as deep as the longest wanted path.
    pub(super) fn object(&mut self, node: &PathNode, values: &mut [Option<Range<usize>>]) -> ScanResult<()> {
        simd::run(Object { cursor: self, node, values })
    }

    /// Move past a key to its value and return the index of its child; `None` after the end of the object.
    #[inline(always)]
    fn next(&mut self, node: &PathNode, first: bool) -> ScanResult<Option<usize>> {
        let place = 2 * node.number + usize::from(first);
        if let Some(habit) = self.habits.follow(self.bytes.get(self.at..).unwrap_or_default(), place) {
            let child = habit.child;
            self.at += habit.length;
            self.peek()?;
            return Ok(Some(child));
        }
        self.read(node, place, first)
    }

    /// Move past an unexpected key to its value and return its child; `None` after the end of the object.
    #[inline(never)]
    fn read(&mut self, node: &PathNode, place: usize, first: bool) -> ScanResult<Option<usize>> {
        let start = self.at;
        if self.ends(first)? {
            return Ok(None);
        }
        let child = self.key(node)?;
        self.habits.learn(&self.bytes[start..self.at], place, child);
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
    fn wanted(
        &mut self,
        node: &PathNode,
        values: &mut [Option<Range<usize>>],
        lanes: impl Lanes,
    ) -> ScanResult<()> {
        for &slot in &node.below {
            self.duplicate |= values[slot].take().is_some();
        }
        let start = self.at;
        if node.children.is_empty() || self.bytes[start] != b'{' {
            self.at = value(self.bytes, start, lanes)?;
        } else {
            self.object(node, values)?;
        }
        for &slot in &node.slots {
            values[slot] = Some(start..self.at);
        }
        Ok(())
    }

    /// Move past a key to its value; return the index of its child.
    fn key(&mut self, node: &PathNode) -> ScanResult<usize> {
        if self.peek()? != b'"' {
            return Err(ScanFault::Malformed(self.at));
        }
        let start = self.at;
        let (end, escaped) = string(self.bytes, start)?;
        self.at = end;
        self.expect(b':')?;
        self.peek()?;
        Ok(if escaped {
            unescape(&self.bytes[start..end]).map_or(NONE, |key| node.child(key.as_bytes()))
        } else {
            node.child(&self.bytes[start + 1..end - 1])
        })
    }

    fn expect(&mut self, byte: u8) -> ScanResult<()> {
        if self.peek()? != byte {
            return Err(ScanFault::Malformed(self.at));
        }
        self.at += 1;
        Ok(())
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
