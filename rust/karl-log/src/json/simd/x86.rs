//! Vectors of x86-64: AVX2 (2013) and AVX-512 (2017).

use std::arch::x86_64::{__m128i, __m256i, __m512i};

use pulp::x86::{V3, V4};
use pulp::{NullaryFnOnce, cast};

use super::lanes::{BLOCK, Bits, Block, CONTROL, CURLY, ENDS, Lanes, SimdKernel, closing, first};

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
        let is = |half| self.avx2._mm256_cmpeq_epi8(self.avx2._mm256_min_epu8(half, all32(CONTROL)), half);
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
