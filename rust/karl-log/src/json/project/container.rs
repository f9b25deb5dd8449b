//! Search for the end of a container, in blocks of 64 bytes.
//!
//! Only a block that may hold the end is walked: the positions of strings are known for each block
//! ([`crate::json::simd::string_mask`]).
//!
//! Record: `log::scan_fields::Big` of `benches/record/instructions.json`.
use crate::json::simd;
use crate::json::simd::string_mask::{Marks, Strings, padded};
use crate::json::simd::{BLOCK, Block, Lanes, SimdKernel};

/// Return the position after the container that opens at the first byte.
pub(super) fn end(bytes: &[u8]) -> Option<usize> {
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
pub(super) fn end_by(bytes: &[u8], lanes: impl Lanes) -> Option<usize> {
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
