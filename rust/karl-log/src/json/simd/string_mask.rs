//! Positions of the strings in a text, in blocks of 64 bytes.
//!
//! One bit per byte marks quotes and backslashes ([`crate::json::simd`]), one addition gives the escaped
//! bytes, a prefix parity those inside strings (Langdale and Lemire 2019, arXiv:1902.08318, section 3.1).
//!
//! Record: `log::check` and `log::scan_fields` of `benches/record/instructions.json`, beside `scan_naive` of `benches/core/log.rs`.

use super::{BLOCK, Block};

/// Return the last bytes of a text as a block, padded with spaces.
#[inline(always)]
pub(crate) fn padded(rest: &[u8]) -> Block {
    let mut last = [b' '; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    last
}

/// State of the search for strings, block by block.
#[derive(Default)]
pub(crate) struct Strings {
    /// All ones inside a string.
    open: u64,
    /// 1 if the first byte of the next block is escaped.
    escaped: u64,
}

/// Strings of one block, one bit per byte.
pub(crate) struct Marks {
    /// Unescaped quotes.
    pub(crate) quotes: u64,
    /// Bytes of strings, with the opening quotes and without the closing ones.
    pub(crate) inside: u64,
    /// Bytes escaped by a backslash.
    pub(crate) escaped: u64,
}

impl Strings {
    /// Return whether a string is open at the end of the block.
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

    /// Return the bytes that follow an odd run of backslashes.
    #[inline(always)]
    fn escaped(&mut self, backslash: u64) -> u64 {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        let backslash = backslash & !self.escaped;
        let after = backslash << 1 | self.escaped;
        // A run that begins at an odd position carries into the byte after it and so flips its parity.
        let odd_starts = backslash & !EVEN & !after;
        let (runs, carry) = odd_starts.overflowing_add(backslash);
        self.escaped = u64::from(carry);
        (EVEN ^ runs << 1) & after
    }
}

/// Return the prefix parity: bit i is the parity of the bits up to i.
#[inline(always)]
fn parity(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}
