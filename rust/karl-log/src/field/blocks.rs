//! Where a container ends, by blocks of 64 bytes.
//!
//! One bit a byte tells quotes, backslashes and brackets ([`super::lanes`]), one addition the bytes that are escaped, a
//! running parity those inside strings (Langdale and Lemire 2019, arXiv:1902.08318, section 3.1). Only a block that may
//! hold the end is walked.
use super::lanes::{self, BLOCK, Block, Lanes, Work};

/// The position after the container whose opening bracket is the first byte.
pub(super) fn end(bytes: &[u8]) -> Option<usize> {
    lanes::run(Container(bytes))
}

struct Container<'a>(&'a [u8]);

impl Work for Container<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Option<usize> {
        end_by(self.0, lanes)
    }
}

/// The same with given vectors.
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

/// The last bytes of a text as a block, with spaces behind them.
#[inline(always)]
pub(crate) fn padded(rest: &[u8]) -> Block {
    let mut last = [b' '; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    last
}

/// What one block of a container leaves for the next.
#[derive(Default)]
struct Blocks {
    depth: usize,
    strings: Strings,
}

impl Blocks {
    /// The position after the container's end, if it is in this block. Quotes, backslashes and brackets come as they
    /// like in a text: a branch on one of them would often be guessed wrong.
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

    /// Bracket after bracket: this block may hold the end.
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

/// Where the strings of a text are, block by block.
#[derive(Default)]
pub(crate) struct Strings {
    /// All ones inside a string.
    open: u64,
    /// 1 where the first byte of the next block is escaped.
    escaped: u64,
}

/// The strings of one block, one bit a byte.
pub(crate) struct Marks {
    /// The quotes that are not escaped.
    pub(crate) quotes: u64,
    /// What stands in strings, with their first quotes and without their last.
    pub(crate) inside: u64,
    /// The bytes behind the backslashes that escape.
    pub(crate) escaped: u64,
}

impl Strings {
    /// Whether a string has begun that has not ended.
    pub(crate) const fn is_open(&self) -> bool {
        self.open != 0
    }

    #[inline(always)]
    pub(crate) fn feed(&mut self, quote: u64, backslash: u64) -> Marks {
        let escaped = self.escaped(backslash);
        let quotes = quote & !escaped;
        let inside = parity(quotes) ^ self.open;
        self.open = 0_u64.wrapping_sub(inside >> 63);
        Marks { quotes, inside, escaped }
    }

    /// The bytes that stand after an odd run of backslashes.
    #[inline(always)]
    fn escaped(&mut self, backslash: u64) -> u64 {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        let backslash = backslash & !self.escaped;
        let after = backslash << 1 | self.escaped;
        // A run that begins at an odd place carries into the byte after it, which so changes its side.
        let odd_starts = backslash & !EVEN & !after;
        let (runs, carry) = odd_starts.overflowing_add(backslash);
        self.escaped = u64::from(carry);
        (EVEN ^ runs << 1) & after
    }
}

/// Bit i is the parity of the bits up to i.
#[inline(always)]
fn parity(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}
