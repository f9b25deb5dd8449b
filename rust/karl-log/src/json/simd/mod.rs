//! One bit for each of 64 bytes, by the widest vectors that the machine has.
//!
//! Which those are is asked once for a whole piece of [`Work`], which is compiled for each kind of vectors.

#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) mod string_mask;

use wide::u8x16;

/// How many bytes are looked at at once.
pub(crate) const BLOCK: usize = 64;

pub(crate) type Block = [u8; BLOCK];

/// The bytes of a block that matter to its structure, one bit a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    pub(crate) quote: u64,
    pub(crate) backslash: u64,
    /// Brackets of either kind, inside strings too.
    pub(crate) open: u64,
    pub(crate) close: u64,
}

/// A kind of vectors.
pub(crate) trait Lanes: Copy {
    fn bits(self, block: &Block) -> Bits;

    /// The bytes that are one of some.
    fn any<const N: usize>(self, block: &Block, some: [u8; N]) -> u64;

    /// The control characters.
    fn control(self, block: &Block) -> u64;

    /// The length of a string, from behind its opening quote: none where its end is out of reach, or an escape stands
    /// before it.
    fn string(self, bytes: &[u8]) -> Option<usize>;

    /// The length of a number or a word; none where its end is out of reach.
    fn scalar(self, bytes: &[u8]) -> Option<usize>;
}

/// Where the first quote is, if no backslash stands before it.
#[inline(always)]
fn closing(quotes: u64, backslashes: u64) -> Option<usize> {
    let before = quotes.wrapping_sub(1) & !quotes;
    (quotes != 0 && backslashes & before == 0).then(|| quotes.trailing_zeros() as usize)
}

/// Where the first bit is.
#[inline(always)]
fn first(bits: u64) -> Option<usize> {
    (bits != 0).then(|| bits.trailing_zeros() as usize)
}

/// What stands after a number or a word.
pub(super) const ENDS: [u8; 7] = *b",}] \t\n\r";

/// What can be done with any kind of vectors. All of it has to be inlined.
pub(crate) trait Work {
    type Output;

    fn run(self, lanes: impl Lanes) -> Self::Output;
}

/// Runs with the widest vectors of this machine.
#[inline]
pub(crate) fn run<W: Work>(work: W) -> W::Output {
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

/// The last control character.
const CONTROL: u8 = 0x1f;

/// Vectors of 16 bytes, which every machine has.
#[derive(Clone, Copy)]
pub(super) struct Portable;

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

/// The bits of a block of which 16 bytes are looked at at once.
#[inline(always)]
fn by_part(block: &Block, found: impl Fn(u8x16) -> u8x16) -> u64 {
    let parts = block.as_chunks::<16>().0.iter().enumerate();
    let bits = |(number, part): (usize, &[u8; 16])| {
        u64::from(found(u8x16::new(*part)).to_bitmask()) << (16 * number)
    };
    parts.fold(0, |all, part| all | bits(part))
}

#[cfg(target_arch = "x86_64")]
use x86::Vectorized;

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that are looked for: the first and the last of all, and one between.
    const SOME: [u8; 3] = [0, b':', 0xff];

    struct Look<'a>(&'a Block);

    impl Work for Look<'_> {
        type Output = (Bits, u64, u64);

        #[inline(always)]
        fn run(self, lanes: impl Lanes) -> Self::Output {
            (lanes.bits(self.0), lanes.any(self.0, SOME), lanes.control(self.0))
        }
    }

    /// One byte after the other.
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

    /// The lengths of the string and of the scalar at the start of some bytes.
    struct Ends<'a>(&'a [u8]);

    impl Work for Ends<'_> {
        type Output = [Option<usize>; 2];

        #[inline(always)]
        fn run(self, lanes: impl Lanes) -> [Option<usize>; 2] {
            [lanes.string(self.0), lanes.scalar(self.0)]
        }
    }

    /// What every kind of vectors says, from the narrowest on.
    fn kinds(bytes: &[u8]) -> Vec<[Option<usize>; 2]> {
        let mut said = vec![Ends(bytes).run(Portable), run(Ends(bytes))];
        #[cfg(target_arch = "x86_64")]
        if let Some(lanes) = pulp::x86::V3::try_new() {
            said.push(lanes.vectorize(Vectorized { work: Ends(bytes), lanes }));
        }
        said
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
