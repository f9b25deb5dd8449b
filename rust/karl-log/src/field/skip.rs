//! Where a value ends, found by structure alone: the closing quote of a string, the depth of a container.
//!
//! A container is looked at in blocks of 64 bytes: one bit a byte for quotes, backslashes and brackets, the bits of
//! escaped bytes by one addition, the bits inside strings by a running parity (Langdale and Lemire 2019,
//! arXiv:1902.08318, section 3.1). A block without brackets outside strings, which most are, costs no branch a byte.
//!
//! Nothing between the tokens is judged here; see [`super`] for who does.

use memchr::memchr2;
use wide::u8x16;

use super::{Fault, Step};

const BLOCK: usize = 64;

/// The first position from `at` on that is not JSON white space.
pub(crate) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// The position after the value that begins at `at`.
pub(crate) fn skip_value(bytes: &[u8], at: usize) -> Step<usize> {
    match bytes.get(at) {
        None => Err(Fault::Truncated),
        Some(b'"') => skip_string(bytes, at),
        Some(b'{' | b'[') => skip_container(bytes, at),
        Some(_) => skip_scalar(bytes, at),
    }
}

fn skip_scalar(bytes: &[u8], at: usize) -> Step<usize> {
    match bytes[at..].iter().position(|&byte| ENDS_SCALAR[usize::from(byte)]) {
        None => Err(Fault::Truncated),
        Some(0) => Err(Fault::Malformed(at)),
        Some(length) => Ok(at + length),
    }
}

/// Which bytes end a number or a word.
const ENDS_SCALAR: [bool; 256] = {
    let mut ends = [false; 256];
    let (mut at, bytes) = (0, b",}] \t\n\r");
    while at < bytes.len() {
        ends[bytes[at] as usize] = true;
        at += 1;
    }
    ends
};

/// The position after the string whose opening quote is at `at`.
pub(crate) fn skip_string(bytes: &[u8], at: usize) -> Step<usize> {
    string(bytes, at).map(|(end, _)| end)
}

/// The same, and whether there is an escape in the string.
pub(super) fn string(bytes: &[u8], at: usize) -> Step<(usize, bool)> {
    let mut from = at + 1;
    let mut escaped = false;
    while let Some(found) = quote_or_backslash(bytes.get(from..).unwrap_or_default()) {
        from += found + 1;
        if bytes[from - 1] == b'"' {
            return Ok((from, escaped));
        }
        escaped = true;
        from += 1;
    }
    Err(Fault::Truncated)
}

/// The first quote or backslash. Most strings are short: the first bytes are looked at before the general search.
fn quote_or_backslash(bytes: &[u8]) -> Option<usize> {
    if let Some(first) = bytes.first_chunk::<16>() {
        let first = u8x16::new(*first);
        let found = (first.simd_eq(u8x16::splat(b'"')) | first.simd_eq(u8x16::splat(b'\\'))).to_bitmask();
        if found != 0 {
            return Some(found.trailing_zeros() as usize);
        }
    }
    memchr2(b'"', b'\\', bytes)
}

/// The position after the container whose opening bracket is at `at`.
fn skip_container(bytes: &[u8], at: usize) -> Step<usize> {
    let mut blocks = Blocks::default();
    let (whole, rest) = bytes[at..].as_chunks::<BLOCK>();
    for (number, block) in whole.iter().enumerate() {
        if let Some(end) = blocks.feed(block) {
            return Ok(at + number * BLOCK + end);
        }
    }
    let mut last = [b' '; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    blocks.feed(&last).map(|end| at + whole.len() * BLOCK + end).ok_or(Fault::Truncated)
}

/// What one block of a container leaves for the next.
#[derive(Default)]
struct Blocks {
    depth: usize,
    /// All ones inside a string.
    in_string: u64,
    /// 1 where the first byte of the next block is escaped.
    escaped: u64,
}

impl Blocks {
    /// The position after the container's end, if it is in this block.
    #[inline]
    fn feed(&mut self, block: &[u8; BLOCK]) -> Option<usize> {
        let bits = Bits::of(block);
        let quotes = bits.quote & !self.escaped(bits.backslash);
        let inside = parity(quotes) ^ self.in_string;
        self.in_string = 0_u64.wrapping_sub(inside >> 63);
        let brackets = bits.bracket & !inside;
        if brackets == 0 { None } else { self.brackets(brackets, block) }
    }

    /// Counts the brackets, or walks them where the end may be among them.
    fn brackets(&mut self, brackets: u64, block: &[u8; BLOCK]) -> Option<usize> {
        let close = brackets & Bits::close(block);
        let closed = close.count_ones() as usize;
        if closed >= self.depth {
            return self.walk(brackets & !close, close);
        }
        self.depth = self.depth + (brackets.count_ones() as usize - closed) - closed;
        None
    }

    /// Bracket after bracket: this block may hold the end.
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

    /// The bytes that stand after an odd run of backslashes.
    fn escaped(&mut self, backslash: u64) -> u64 {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        if backslash == 0 {
            return std::mem::take(&mut self.escaped);
        }
        let backslash = backslash & !self.escaped;
        let after = backslash << 1 | self.escaped;
        // A run that begins at an odd place carries into the byte after it, which so changes its side.
        let odd_starts = backslash & !EVEN & !after;
        let (runs, carry) = odd_starts.overflowing_add(backslash);
        self.escaped = u64::from(carry);
        (EVEN ^ runs << 1) & after
    }
}

/// One bit a byte.
#[derive(Default)]
struct Bits {
    quote: u64,
    backslash: u64,
    bracket: u64,
}

impl Bits {
    #[inline]
    fn of(block: &[u8; BLOCK]) -> Self {
        let mut bits = Self::default();
        for (number, part) in block.as_chunks::<16>().0.iter().enumerate() {
            let part = u8x16::new(*part);
            let shifted = |found: u8x16| u64::from(found.to_bitmask()) << (16 * number);
            let curly = part | CURLY;
            bits.quote |= shifted(part.simd_eq(u8x16::splat(b'"')));
            bits.backslash |= shifted(part.simd_eq(u8x16::splat(b'\\')));
            bits.bracket |= shifted(curly.simd_eq(u8x16::splat(b'{')) | curly.simd_eq(u8x16::splat(b'}')));
        }
        bits
    }

    fn close(block: &[u8; BLOCK]) -> u64 {
        let parts = block.as_chunks::<16>().0.iter().map(|part| u8x16::new(*part) | CURLY);
        let bits = parts.map(|part| u64::from(part.simd_eq(u8x16::splat(b'}')).to_bitmask()));
        bits.enumerate().fold(0, |all, (number, bits)| all | bits << (16 * number))
    }
}

/// Square brackets differ from curly ones in this bit alone, and no other byte becomes one by it.
const CURLY: u8x16 = u8x16::new([0x20; 16]);

/// Bit i is the parity of the bits up to i.
fn parity(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The end of a container, byte after byte.
    fn naive(bytes: &[u8]) -> Step<usize> {
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
        Err(Fault::Truncated)
    }

    proptest! {
        #[test]
        fn blocks_end_where_bytes_do(
            inner in prop::collection::vec(prop::sample::select(br#"{}[]""\\\\ax,:"#.to_vec()), 0..400), before in 0_usize..70,
        ) {
            // A backslash outside a string is no JSON: it is left out, as nothing is promised there.
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
}
