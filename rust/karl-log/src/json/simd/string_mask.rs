//! Where the strings of a text are, by blocks of 64 bytes.
//!
//! One bit a byte tells quotes and backslashes ([`crate::json::simd`]), one addition the bytes that are escaped, a running parity
//! those inside strings (Langdale and Lemire 2019, arXiv:1902.08318, section 3.1).

use super::{BLOCK, Block};

/// The last bytes of a text as a block, with spaces behind them.
#[inline(always)]
pub(crate) fn padded(rest: &[u8]) -> Block {
    let mut last = [b' '; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    last
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
