//! One bit for each of 64 bytes, by the widest vectors that the machine has.
//!
//! Which those are is asked once for a whole piece of [`Work`], which is compiled for each kind of vectors.
use wide::u8x16;

/// How many bytes are looked at at once.
pub(super) const BLOCK: usize = 64;

pub(super) type Block = [u8; BLOCK];

/// The bytes of a block that matter to its structure, one bit a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits {
    pub(super) quote: u64,
    pub(super) backslash: u64,
    /// Brackets of either kind, inside strings too.
    pub(super) open: u64,
    pub(super) close: u64,
}

/// A kind of vectors.
pub(super) trait Lanes: Copy {
    fn bits(self, block: &Block) -> Bits;
}

/// What can be done with any kind of vectors. All of it has to be inlined.
pub(super) trait Work {
    type Output;

    fn run(self, lanes: impl Lanes) -> Self::Output;
}

/// Runs with the widest vectors of this machine.
#[inline]
pub(super) fn run<W: Work>(work: W) -> W::Output {
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

/// Square brackets differ from curly ones in this bit alone, and no other byte becomes one by it.
const CURLY: u8 = 0x20;

/// Vectors of 16 bytes, which every machine has.
#[derive(Clone, Copy)]
struct Portable;

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
}

#[cfg(target_arch = "x86_64")]
use x86::Vectorized;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m256i, __m512i};

    use pulp::x86::{V3, V4};
    use pulp::{NullaryFnOnce, cast};

    use super::{BLOCK, Bits, Block, CURLY, Lanes, Work};

    pub(super) struct Vectorized<W, L> {
        pub(super) work: W,
        pub(super) lanes: L,
    }

    impl<W: Work, L: Lanes> NullaryFnOnce for Vectorized<W, L> {
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
    }

    #[inline(always)]
    fn equal(lanes: V3, half: __m256i, byte: u8) -> __m256i {
        lanes.avx2._mm256_cmpeq_epi8(half, all32(byte))
    }

    /// The highest bit of each byte.
    #[inline(always)]
    fn mask(lanes: V3, low: __m256i, high: __m256i) -> u64 {
        let bits = |half| u64::from(lanes.avx2._mm256_movemask_epi8(half).cast_unsigned());
        bits(low) | bits(high) << 32
    }

    #[inline(always)]
    fn all32(byte: u8) -> __m256i {
        cast([byte; BLOCK / 2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Look<'a>(&'a Block);

    impl Work for Look<'_> {
        type Output = Bits;

        #[inline(always)]
        fn run(self, lanes: impl Lanes) -> Bits {
            lanes.bits(self.0)
        }
    }

    /// One byte after the other.
    fn naive(block: &Block) -> Bits {
        let bits = |wanted: &[u8]| (0..BLOCK).map(|at| u64::from(wanted.contains(&block[at])) << at).sum();
        Bits { quote: bits(b"\""), backslash: bits(b"\\"), open: bits(b"{["), close: bits(b"}]") }
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
}
