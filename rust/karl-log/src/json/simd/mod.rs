//! One bit for each of 64 bytes, computed with the widest vectors of the machine.
//!
//! The width is detected once per [`SimdKernel`], which is compiled for each of them.
//!
//! Buys, with [`crate::json::project`], 4.8 times the speed of msgspec on 12 KB records (`benches/record/2026-11-23-linux-x86-64-2-cores.csv`);
//! `log::scan_fields` of `benches/record/instructions.json` guards it.

mod lanes;
mod portable;
pub(crate) mod string_mask;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use lanes::{BLOCK, Block, ENDS, Lanes, SimdKernel};
pub(crate) use portable::Portable;
#[cfg(target_arch = "x86_64")]
use x86::Vectorized;

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

#[cfg(test)]
mod tests {
    use super::lanes::Bits;
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
