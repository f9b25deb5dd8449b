//! Vectors of 16 bytes, available on every machine: SSE2 on x86-64, NEON on ARM.

use wide::u8x16;

use super::lanes::{Bits, Block, CONTROL, CURLY, ENDS, Lanes, closing, first};

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
