//! One bit for each of 64 bytes, computed with the widest vectors of the machine.
//!
//! The width is detected once per [`SimdKernel`], which is compiled for each of them.
//!
//! Buys, with [`crate::json::project`], 4.8 times the speed of msgspec on 12 KB records (`benches/record/2026-11-23-linux-x86-64-2-cores.csv`);
//! `log::scan_fields` of `benches/record/instructions.json` guards it.

use wide::u8x16;

#[cfg(target_arch = "x86_64")]
use self::x86::Vectorized;

/// Bytes per block.
pub(crate) const BLOCK: usize = 64;

pub(crate) type Block = [u8; BLOCK];

/// Structural bytes of a block, one bit per byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    pub(crate) quote: u64,
    pub(crate) backslash: u64,
    /// Brackets of either kind, inside strings too.
    pub(crate) open: u64,
    pub(crate) close: u64,
}

/// Vector width.
pub(crate) trait Lanes: Copy {
    fn bits(self, block: &Block) -> Bits;

    /// Return the positions of bytes that occur in `some`.
    fn any<const N: usize>(self, block: &Block, some: [u8; N]) -> u64;

    /// Return the positions of control characters.
    fn control(self, block: &Block) -> u64;

    /// Return the length of a string, from after its opening quote; `None` if its end is out of reach, or if
    /// an escape comes first.
    fn string(self, bytes: &[u8]) -> Option<usize>;

    /// Return the length of a number or word; `None` if its end is out of reach.
    fn scalar(self, bytes: &[u8]) -> Option<usize>;
}

/// Return the position of the first quote, if no backslash precedes it.
#[inline(always)]
fn closing(quotes: u64, backslashes: u64) -> Option<usize> {
    let before = quotes.wrapping_sub(1) & !quotes;
    (quotes != 0 && backslashes & before == 0).then(|| quotes.trailing_zeros() as usize)
}

/// Return the position of the first bit.
#[inline(always)]
fn first(bits: u64) -> Option<usize> {
    (bits != 0).then(|| bits.trailing_zeros() as usize)
}

/// Bytes that end a number or a word.
pub(crate) const ENDS: [u8; 7] = *b",}] \t\n\r";

/// Work that runs on any vector width. All of it has to be inlined.
pub(crate) trait SimdKernel {
    type Output;

    fn run(self, lanes: impl Lanes) -> Self::Output;
}

/// Run with the widest vectors of this machine.
#[inline]
pub(crate) fn run<W: SimdKernel>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(lanes) = pulp::x86::V4::try_new() {
            return lanes.vectorize(Vectorized { work, lanes });
        }
        if let Some(lanes) = pulp::x86::V3::try_new() {
            return lanes.vectorize(Vectorized { work, lanes });
        }
    }
    work.run(Portable)
}

/// The only bit in which square and curly brackets differ; setting it turns no other byte into a bracket.
const CURLY: u8 = 0x20;

/// Last control character.
const CONTROL: u8 = 0x1f;

/// Vectors of 16 bytes, available on every machine.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Lanes for Portable {
    #[inline(always)]
    fn bits(self, block: &Block) -> Bits {
        let mut bits = Bits::default();
        for (number, part) in block.as_chunks::<16>().0.iter().enumerate() {
            let part = u8x16::new(*part);
            let is = |part: u8x16, byte| part.simd_eq(u8x16::splat(byte));
            let curly = part | u8x16::splat(CURLY);
            let shifted = |found: u8x16| u64::from(found.to_bitmask()) << (16 * number);
            bits.quote |= shifted(is(part, b'"'));
            bits.backslash |= shifted(is(part, b'\\'));
            bits.open |= shifted(is(curly, b'{'));
            bits.close |= shifted(is(curly, b'}'));
        }
        bits
    }

    #[inline(always)]
    fn any<const N: usize>(self, block: &Block, some: [u8; N]) -> u64 {
        by_part(block, |part| {
            let is = |byte| part.simd_eq(u8x16::splat(byte));
            some.map(is).into_iter().fold(u8x16::splat(0), |all, one| all | one)
        })
    }

    #[inline(always)]
    fn control(self, block: &Block) -> u64 {
        by_part(block, |part| part.min(u8x16::splat(CONTROL)).simd_eq(part))
    }

    #[inline(always)]
    fn string(self, bytes: &[u8]) -> Option<usize> {
        let ([low, high], _) = bytes.first_chunk::<32>()?.as_chunks() else { return None };
        let (low, high) = (u8x16::new(*low), u8x16::new(*high));
        let bits = |byte| {
            let [low, high] = [low, high].map(|part| part.simd_eq(u8x16::splat(byte)).to_bitmask());
            u64::from(low) | u64::from(high) << 16
        };
        closing(bits(b'"'), bits(b'\\'))
    }

    #[inline(always)]
    fn scalar(self, bytes: &[u8]) -> Option<usize> {
        let part = u8x16::new(*bytes.first_chunk()?);
        let found = ENDS.map(|byte| part.simd_eq(u8x16::splat(byte)));
        first(u64::from(found.into_iter().fold(u8x16::splat(0), |all, one| all | one).to_bitmask()))
    }
}

/// Return the bits of a block, computed 16 bytes at a time.
#[inline(always)]
fn by_part(block: &Block, found: impl Fn(u8x16) -> u8x16) -> u64 {
    let parts = block.as_chunks::<16>().0.iter().enumerate();
    let bits = |(number, part): (usize, &[u8; 16])| {
        u64::from(found(u8x16::new(*part)).to_bitmask()) << (16 * number)
    };
    parts.fold(0, |all, part| all | bits(part))
}

/// Vectors of x86-64: AVX2 (2013) and AVX-512 (2017).
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m128i, __m256i, __m512i};

    use pulp::x86::{V3, V4};
    use pulp::{NullaryFnOnce, cast};

    use super::{BLOCK, Bits, Block, CONTROL, CURLY, ENDS, Lanes, SimdKernel, closing, first};

    pub(super) struct Vectorized<W, L> {
        pub(super) work: W,
        pub(super) lanes: L,
    }

    impl<W: SimdKernel, L: Lanes> NullaryFnOnce for Vectorized<W, L> {
        type Output = W::Output;

        #[inline(always)]
        fn call(self) -> W::Output {
            self.work.run(self.lanes)
        }
    }

    impl Lanes for V4 {
        #[inline(always)]
        fn bits(self, block: &Block) -> Bits {
            let block: __m512i = cast(*block);
            let curly = self.avx512f._mm512_or_si512(block, all64(CURLY));
            let is = |bytes, byte| self.avx512bw._mm512_cmpeq_epi8_mask(bytes, all64(byte));
            Bits {
                quote: is(block, b'"'),
                backslash: is(block, b'\\'),
                open: is(curly, b'{'),
                close: is(curly, b'}'),
            }
        }

        #[inline(always)]
        fn any<const N: usize>(self, block: &Block, some: [u8; N]) -> u64 {
            let block: __m512i = cast(*block);
            let mut any = 0;
            // A loop, because a standard library function that takes a closure is not compiled for these vectors.
            for byte in some {
                any |= self.avx512bw._mm512_cmpeq_epi8_mask(block, all64(byte));
            }
            any
        }

        #[inline(always)]
        fn control(self, block: &Block) -> u64 {
            self.avx512bw._mm512_cmple_epu8_mask(cast(*block), all64(CONTROL))
        }

        #[inline(always)]
        fn string(self, bytes: &[u8]) -> Option<usize> {
            let Some(block) = bytes.first_chunk::<BLOCK>() else { return V3::string(*self, bytes) };
            let block: __m512i = cast(*block);
            let is = |byte| self.avx512bw._mm512_cmpeq_epi8_mask(block, all64(byte));
            closing(is(b'"'), is(b'\\'))
        }

        #[inline(always)]
        fn scalar(self, bytes: &[u8]) -> Option<usize> {
            V3::scalar(*self, bytes)
        }
    }

    #[inline(always)]
    fn all64(byte: u8) -> __m512i {
        cast([byte; BLOCK])
    }

    impl Lanes for V3 {
        #[inline(always)]
        fn bits(self, block: &Block) -> Bits {
            let [low, high]: [__m256i; 2] = cast(*block);
            let curly = |half| self.avx2._mm256_or_si256(half, all32(CURLY));
            let is = |low, high, byte| mask(self, equal(self, low, byte), equal(self, high, byte));
            Bits {
                quote: is(low, high, b'"'),
                backslash: is(low, high, b'\\'),
                open: is(curly(low), curly(high), b'{'),
                close: is(curly(low), curly(high), b'}'),
            }
        }

        #[inline(always)]
        fn any<const N: usize>(self, block: &Block, some: [u8; N]) -> u64 {
            let halves: [__m256i; 2] = cast(*block);
            let mut any: [__m256i; 2] = cast([0_u8; BLOCK]);
            for byte in some {
                for (any, half) in any.iter_mut().zip(halves) {
                    *any = self.avx2._mm256_or_si256(*any, equal(self, half, byte));
                }
            }
            mask(self, any[0], any[1])
        }

        #[inline(always)]
        fn control(self, block: &Block) -> u64 {
            let is =
                |half| self.avx2._mm256_cmpeq_epi8(self.avx2._mm256_min_epu8(half, all32(CONTROL)), half);
            let [low, high]: [__m256i; 2] = cast(*block);
            mask(self, is(low), is(high))
        }

        #[inline(always)]
        fn string(self, bytes: &[u8]) -> Option<usize> {
            let half: __m256i = cast(*bytes.first_chunk::<{ BLOCK / 2 }>()?);
            let is = |byte| bits(self, equal(self, half, byte));
            closing(is(b'"'), is(b'\\'))
        }

        #[inline(always)]
        fn scalar(self, bytes: &[u8]) -> Option<usize> {
            let part: __m128i = cast(*bytes.first_chunk::<{ BLOCK / 4 }>()?);
            let is = |byte: u8| self.sse2._mm_cmpeq_epi8(part, cast([byte; BLOCK / 4]));
            let or = |all, one| self.sse2._mm_or_si128(all, one);
            let found = ENDS.map(is).into_iter().fold(cast([0_u8; BLOCK / 4]), or);
            first(u64::from(self.sse2._mm_movemask_epi8(found).cast_unsigned()))
        }
    }

    #[inline(always)]
    fn equal(lanes: V3, half: __m256i, byte: u8) -> __m256i {
        lanes.avx2._mm256_cmpeq_epi8(half, all32(byte))
    }

    /// Return the highest bit of each byte.
    #[inline(always)]
    fn mask(lanes: V3, low: __m256i, high: __m256i) -> u64 {
        bits(lanes, low) | bits(lanes, high) << 32
    }

    #[inline(always)]
    fn bits(lanes: V3, half: __m256i) -> u64 {
        u64::from(lanes.avx2._mm256_movemask_epi8(half).cast_unsigned())
    }

    #[inline(always)]
    fn all32(byte: u8) -> __m256i {
        cast([byte; BLOCK / 2])
    }
}

/// Return the last bytes of a text as a block, padded with spaces.
#[inline(always)]
pub(crate) fn padded(rest: &[u8]) -> Block {
    let mut last = [b' '; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    last
}

/// State of the search for strings, block by block.
///
/// One bit per byte marks quotes and backslashes, one addition gives the escaped bytes, a prefix parity those inside
/// strings (Langdale and Lemire 2019, arXiv:1902.08318, section 3.1).
///
/// Record: `log::check` and `log::scan_fields` of `benches/record/instructions.json`, beside `scan_naive` of
/// `benches/core/log.rs`.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes to search for: the first, the last, and one between.
    const SOME: [u8; 3] = [0, b':', 0xff];

    struct Look<'a>(&'a Block);

    impl SimdKernel for Look<'_> {
        type Output = (Bits, u64, u64);

        #[inline(always)]
        fn run(self, lanes: impl Lanes) -> Self::Output {
            (lanes.bits(self.0), lanes.any(self.0, SOME), lanes.control(self.0))
        }
    }

    /// Compute the same byte by byte.
    fn naive(block: &Block) -> (Bits, u64, u64) {
        let each = |is: &dyn Fn(u8) -> bool| (0..BLOCK).map(|at| u64::from(is(block[at])) << at).sum();
        let bits = |wanted: &[u8]| each(&|byte| wanted.contains(&byte));
        let found =
            Bits { quote: bits(b"\""), backslash: bits(b"\\"), open: bits(b"{["), close: bits(b"}]") };
        (found, bits(&SOME), each(&|byte| byte < b' '))
    }

    #[test]
    fn every_kind_of_vectors_sees_every_byte_at_every_place() {
        for shift in 0..=u8::MAX {
            let block: Block = std::array::from_fn(|at| shift.wrapping_add(u8::try_from(at).unwrap()));
            let wanted = naive(&block);
            assert_eq!(Look(&block).run(Portable), wanted);
            assert_eq!(run(Look(&block)), wanted);
            #[cfg(target_arch = "x86_64")]
            if let Some(lanes) = pulp::x86::V3::try_new() {
                assert_eq!(lanes.vectorize(Vectorized { work: Look(&block), lanes }), wanted);
            }
        }
    }

    /// Lengths of the string and of the scalar at the start of some bytes.
    struct Ends<'a>(&'a [u8]);

    impl SimdKernel for Ends<'_> {
        type Output = [Option<usize>; 2];

        #[inline(always)]
        fn run(self, lanes: impl Lanes) -> [Option<usize>; 2] {
            [lanes.string(self.0), lanes.scalar(self.0)]
        }
    }

    /// Return the results of every vector width, from the narrowest on.
    fn kinds(bytes: &[u8]) -> Vec<[Option<usize>; 2]> {
        #[cfg(target_arch = "x86_64")]
        let wide =
            pulp::x86::V3::try_new().map(|lanes| lanes.vectorize(Vectorized { work: Ends(bytes), lanes }));
        #[cfg(not(target_arch = "x86_64"))]
        let wide = None;
        [Ends(bytes).run(Portable), run(Ends(bytes))].into_iter().chain(wide).collect()
    }

    #[test]
    fn every_kind_of_vectors_sees_an_end_within_its_reach_and_none_that_is_not_there() {
        for length in [0, 1, 15, 16, 31, 32, 63, 64, 65, 90] {
            for byte in 0..=u8::MAX {
                for at in 0..length {
                    let mut bytes = vec![b'a'; length];
                    bytes[at] = byte;
                    let [quote, end] = [byte == b'"', ENDS.contains(&byte)].map(|is| is.then_some(at));
                    for [string, scalar] in kinds(&bytes) {
                        assert!(string == quote || string.is_none() && (length < 32 || at >= 32));
                        assert!(scalar == end || scalar.is_none() && (length < 16 || at >= 16));
                    }
                }
            }
        }
    }

    #[test]
    fn a_string_with_an_escape_before_its_end_has_none_that_is_seen() {
        for (backslash, quote) in (0..32).flat_map(|one| (0..32).map(move |other| (one, other))) {
            let mut bytes = vec![b'a'; 70];
            bytes[backslash] = b'\\';
            bytes[quote] = b'"';
            let wanted = (backslash >= quote).then_some(quote);
            assert!(kinds(&bytes).iter().all(|said| said[0] == wanted), "{backslash} {quote}");
        }
    }
}
