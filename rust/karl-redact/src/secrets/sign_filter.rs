//! Filter of positions that may have the rarest bytes of a sign, 64 at a time with the vectors of x86-64 or of ARM.
//!
//! The three bytes of each sign fall into one of 48 buckets. A bucket accepts a position if both halves of each byte there
//! are among those of its signs, which one shuffle per half and eight buckets answers for all bytes of a vector. This is the
//! filter of Teddy (Langdale, in Hyperscan and in `aho-corasick`) with more buckets: what it accepts, about one position in
//! sixteen, is only looked up in a table of bits, so that it may be wrong more often.
//!
//! Which signs share a bucket decides how many positions are accepted. The best partition known is that of joining the two
//! nearest again and again, which takes too long at the start of a process: its result is [`BUCKETS`], which a test
//! computes again. A sign that was added since goes to the bucket where it costs least.

#[cfg(target_arch = "aarch64")]
use pulp::aarch64::Neon;
#[cfg(target_arch = "x86_64")]
use pulp::x86::{V3, V4};
use pulp::{NullaryFnOnce, cast};
#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::uint8x16_t;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256i, __m512i};

use super::rare_bytes::{WIDTH, frequency};

/// Positions of one step.
pub(super) const STEP: usize = 64;

/// Bytes that a step looks at.
pub(super) type Window = [u8; STEP + WIDTH];

/// Buckets in one shuffle, a bit each.
const BUCKETS_OF_GROUP: usize = 8;

/// Number of shuffles of one half of a byte.
const GROUPS: usize = 6;

/// Buckets that have a half of a byte: of the first, second and third byte, the lower half and the upper half.
type Halves = [[[u8; 16]; 2]; WIDTH];

pub(super) struct SignFilter {
    groups: [Halves; GROUPS],
}

impl SignFilter {
    /// Prepare a filter that accepts some keys, the rarest bytes of signs.
    pub(super) fn new(keys: impl IntoIterator<Item = [u8; WIDTH]>) -> Self {
        let mut buckets = BUCKETS.map(Bucket::of);
        for key in keys {
            if !buckets.iter().any(|bucket| bucket.accepts(key)) {
                add(&mut buckets, key);
            }
        }
        let mut groups = [Halves::default(); GROUPS];
        for (number, bucket) in buckets.iter().enumerate() {
            for ([low, high], set) in groups[number / BUCKETS_OF_GROUP].iter_mut().zip(&bucket.sets) {
                for (half, (low, high)) in low.iter_mut().zip(high).enumerate() {
                    *low |= u8::from(set.low >> half & 1 == 1) << (number % BUCKETS_OF_GROUP);
                    *high |= u8::from(set.high >> half & 1 == 1) << (number % BUCKETS_OF_GROUP);
                }
            }
        }
        Self { groups }
    }
}

/// Add a key to the bucket where it adds the fewest positions.
fn add(buckets: &mut [Bucket], key: [u8; WIDTH]) {
    let key = Bucket::of_key(key);
    let cost = |bucket: &Bucket| bucket.with(&key).share() - bucket.share();
    if let Some(best) = buckets.iter_mut().min_by(|a, b| cost(a).total_cmp(&cost(b))) {
        *best = best.with(&key);
    }
}

/// Bytes that a bucket accepts at each of three places.
#[derive(Clone, Copy, Default)]
struct Bucket {
    sets: [ByteSet; WIDTH],
}

impl Bucket {
    /// Return the bucket with these lower and upper halves.
    fn of(sets: [(u16, u16); WIDTH]) -> Self {
        Self { sets: sets.map(|(low, high)| ByteSet { low, high }) }
    }

    fn of_key(key: [u8; WIDTH]) -> Self {
        Self { sets: key.map(|byte| ByteSet { low: 1 << (byte & 15), high: 1 << (byte >> 4) }) }
    }

    /// Return the bucket with the keys of another one, too.
    fn with(&self, other: &Self) -> Self {
        let with = |at: usize| {
            let (a, b) = (self.sets[at], other.sets[at]);
            ByteSet { low: a.low | b.low, high: a.high | b.high }
        };
        Self { sets: std::array::from_fn(with) }
    }

    fn accepts(&self, key: [u8; WIDTH]) -> bool {
        self.sets.iter().zip(key).all(|(set, byte)| set.low >> (byte & 15) & set.high >> (byte >> 4) & 1 == 1)
    }

    /// Return about the share of positions that the bucket accepts, times a constant.
    fn share(&self) -> f32 {
        self.sets
            .iter()
            .map(|set| sum(set.high, |high| sum(set.low, |low| FREQUENCIES[usize::from(high << 4 | low)])))
            .product()
    }
}

/// Every byte with one of some lower and one of some upper halves.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct ByteSet {
    low: u16,
    high: u16,
}

/// Return the sum of a number for each half of a set.
fn sum(mut set: u16, number: impl Fn(u8) -> f32) -> f32 {
    let mut sum = 0.0;
    while set != 0 {
        sum += number(u8::try_from(set.trailing_zeros()).unwrap_or_default());
        set &= set - 1;
    }
    sum
}

/// Frequency of each byte.
static FREQUENCIES: [f32; 256] = {
    let mut frequencies = [0.0; 256];
    let mut byte = 0;
    loop {
        frequencies[byte as usize] = frequency(byte) as f32;
        if byte == u8::MAX {
            break frequencies;
        }
        byte += 1;
    }
};

/// Work on the accepted positions of a text.
pub(super) trait OnCandidates {
    /// Take the accepted positions of a step, those of separators and those of letters of base64, one bit each.
    fn on_step(&mut self, from: usize, candidates: u64, separators: u64, letters: u64);
}

/// Call `work` with each step of a text; return false if the machine has no vectors for it.
pub(super) fn filter(filter: &SignFilter, text: &[u8], work: &mut impl OnCandidates) -> bool {
    #[cfg(target_arch = "x86_64")]
    if let Some(lanes) = V4::try_new() {
        lanes.vectorize(Steps { filter, text, work, lanes });
        return true;
    }
    #[cfg(target_arch = "x86_64")]
    let lanes = V3::try_new();
    #[cfg(target_arch = "aarch64")]
    let lanes = Neon::try_new();
    lanes.map(|lanes| lanes.vectorize(Steps { filter, text, work, lanes })).is_some()
}

/// Do the same with vectors of 256 bits.
#[cfg(all(test, target_arch = "x86_64"))]
pub(super) fn filter_by_256_bits(filter: &SignFilter, text: &[u8], work: &mut impl OnCandidates) {
    if let Some(lanes) = V3::try_new() {
        lanes.vectorize(Steps { filter, text, work, lanes });
    }
}

struct Steps<'a, W, L> {
    filter: &'a SignFilter,
    text: &'a [u8],
    work: &'a mut W,
    lanes: L,
}

impl<W: OnCandidates, L: Lanes> NullaryFnOnce for Steps<'_, W, L> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { filter, text, work, lanes } = self;
        let mut from = 0;
        while let Some(window) = text[from..].first_chunk() {
            lanes.step(filter, window, from, work);
            from += STEP;
        }
        while from < text.len() {
            let mut window = [0; STEP + WIDTH];
            let length = (text.len() - from).min(window.len());
            window[..length].copy_from_slice(&text[from..from + length]);
            lanes.step(filter, &window, from, work);
            from += STEP;
        }
    }
}

/// Vectors of a width.
trait Lanes: Copy {
    fn candidates(self, filter: &SignFilter, window: &Window) -> u64;

    /// Return the positions of `.` and `-`.
    fn separators(self, window: &Window) -> u64;

    /// Return the positions of letters of base64.
    fn letters(self, window: &Window) -> u64;

    #[inline(always)]
    fn step(self, filter: &SignFilter, window: &Window, from: usize, work: &mut impl OnCandidates) {
        let (separators, letters) = (self.separators(window), self.letters(window));
        work.on_step(from, self.candidates(filter, window), separators, letters);
    }
}

/// Kinds of letters of base64 by the lower half of a byte, a bit each; [`UPPER_HALVES`] has the kind of an upper half.
const LOWER_HALVES: [u8; 16] = {
    let mut kinds = [0; 16];
    let mut half = 0;
    while half < 16 {
        let marks = half == 0xb || half == 0xd || half == 0xf;
        let last = half <= 0xa;
        kinds[half] = marks as u8
            | ((half <= 9) as u8) << 1
            | ((half >= 1) as u8) << 2
            | ((last || half == 0xf) as u8) << 3
            | (last as u8) << 4;
        half += 1;
    }
    kinds
};

/// Kind of each upper half: `+-/`, digits, `A` to `O` and `a` to `o`, `P` to `Z` and `_`, `p` to `z`.
const UPPER_HALVES: [u8; 16] = [0, 0, 1, 2, 4, 8, 4, 16, 0, 0, 0, 0, 0, 0, 0, 0];

#[inline(always)]
fn part<const N: usize>(window: &Window, at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&window[at..at + N]);
    part
}

#[cfg(target_arch = "x86_64")]
impl Lanes for V4 {
    #[inline(always)]
    fn candidates(self, filter: &SignFilter, window: &Window) -> u64 {
        let half: __m512i = cast([15_u8; 64]);
        let bytes: [__m512i; WIDTH] =
            [cast(part::<64>(window, 0)), cast(part::<64>(window, 1)), cast(part::<64>(window, 2))];
        let low = bytes.map(
            #[inline(always)]
            |bytes| self.avx512f._mm512_and_si512(bytes, half),
        );
        let high = bytes.map(
            #[inline(always)]
            |bytes| self.avx512f._mm512_and_si512(self.avx512bw._mm512_srli_epi16::<4>(bytes), half),
        );
        let mut any: __m512i = cast([0_u8; 64]);
        for group in &filter.groups {
            let mut all: __m512i = cast([0xff_u8; 64]);
            for place in 0..WIDTH {
                let [lower, upper]: [__m512i; 2] = [cast([group[place][0]; 4]), cast([group[place][1]; 4])];
                all =
                    self.avx512f._mm512_and_si512(all, self.avx512bw._mm512_shuffle_epi8(lower, low[place]));
                all =
                    self.avx512f._mm512_and_si512(all, self.avx512bw._mm512_shuffle_epi8(upper, high[place]));
            }
            any = self.avx512f._mm512_or_si512(any, all);
        }
        self.avx512bw._mm512_test_epi8_mask(any, any)
    }

    #[inline(always)]
    fn separators(self, window: &Window) -> u64 {
        let bytes: __m512i = cast(part::<64>(window, 0));
        let dots = self.avx512bw._mm512_cmpeq_epi8_mask(bytes, cast([b'.'; 64]));
        dots | self.avx512bw._mm512_cmpeq_epi8_mask(bytes, cast([b'-'; 64]))
    }

    #[inline(always)]
    fn letters(self, window: &Window) -> u64 {
        let (bytes, half): (__m512i, __m512i) = (cast(part::<64>(window, 0)), cast([15_u8; 64]));
        let low = self.avx512f._mm512_and_si512(bytes, half);
        let high = self.avx512f._mm512_and_si512(self.avx512bw._mm512_srli_epi16::<4>(bytes), half);
        let low = self.avx512bw._mm512_shuffle_epi8(cast([LOWER_HALVES; 4]), low);
        self.avx512bw
            ._mm512_test_epi8_mask(low, self.avx512bw._mm512_shuffle_epi8(cast([UPPER_HALVES; 4]), high))
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for V3 {
    #[inline(always)]
    fn candidates(self, filter: &SignFilter, window: &Window) -> u64 {
        let half: __m256i = cast([15_u8; 32]);
        let mut bits = 0;
        for from in [0, 32] {
            let mut low = [half; WIDTH];
            let mut high = [half; WIDTH];
            for place in 0..WIDTH {
                let bytes: __m256i = cast(part::<32>(window, from + place));
                low[place] = self.avx2._mm256_and_si256(bytes, half);
                high[place] = self.avx2._mm256_and_si256(self.avx2._mm256_srli_epi16::<4>(bytes), half);
            }
            let mut any: __m256i = cast([0_u8; 32]);
            for group in &filter.groups {
                let mut all: __m256i = cast([0xff_u8; 32]);
                for place in 0..WIDTH {
                    let [lower, upper]: [__m256i; 2] =
                        [cast([group[place][0]; 2]), cast([group[place][1]; 2])];
                    all = self.avx2._mm256_and_si256(all, self.avx2._mm256_shuffle_epi8(lower, low[place]));
                    all = self.avx2._mm256_and_si256(all, self.avx2._mm256_shuffle_epi8(upper, high[place]));
                }
                any = self.avx2._mm256_or_si256(any, all);
            }
            let none = self.avx2._mm256_cmpeq_epi8(any, cast([0_u8; 32]));
            bits |= u64::from(!self.avx2._mm256_movemask_epi8(none).cast_unsigned()) << from;
        }
        bits
    }

    #[inline(always)]
    fn separators(self, window: &Window) -> u64 {
        let mut bits = 0;
        for from in [0, 32] {
            let bytes: __m256i = cast(part::<32>(window, from));
            let dots = self.avx2._mm256_cmpeq_epi8(bytes, cast([b'.'; 32]));
            let dashes = self.avx2._mm256_cmpeq_epi8(bytes, cast([b'-'; 32]));
            let any = self.avx2._mm256_or_si256(dots, dashes);
            bits |= u64::from(self.avx2._mm256_movemask_epi8(any).cast_unsigned()) << from;
        }
        bits
    }

    #[inline(always)]
    fn letters(self, window: &Window) -> u64 {
        let mut bits = 0;
        let half: __m256i = cast([15_u8; 32]);
        for from in [0, 32] {
            let bytes: __m256i = cast(part::<32>(window, from));
            let low = self.avx2._mm256_and_si256(bytes, half);
            let high = self.avx2._mm256_and_si256(self.avx2._mm256_srli_epi16::<4>(bytes), half);
            let low = self.avx2._mm256_shuffle_epi8(cast([LOWER_HALVES; 2]), low);
            let high = self.avx2._mm256_shuffle_epi8(cast([UPPER_HALVES; 2]), high);
            let none = self.avx2._mm256_cmpeq_epi8(self.avx2._mm256_and_si256(low, high), cast([0_u8; 32]));
            bits |= u64::from(!self.avx2._mm256_movemask_epi8(none).cast_unsigned()) << from;
        }
        bits
    }
}

/// Vectors of 16 bytes in one step.
#[cfg(target_arch = "aarch64")]
const PARTS: [usize; 4] = [0, 16, 32, 48];

#[cfg(target_arch = "aarch64")]
impl Lanes for Neon {
    #[inline(always)]
    fn candidates(self, filter: &SignFilter, window: &Window) -> u64 {
        let (neon, half): (_, uint8x16_t) = (self.neon, cast([15_u8; 16]));
        let mut accepted = [half; PARTS.len()];
        for (accepted, from) in accepted.iter_mut().zip(PARTS) {
            let mut low = [half; WIDTH];
            let mut high = [half; WIDTH];
            for place in 0..WIDTH {
                let bytes: uint8x16_t = cast(part::<16>(window, from + place));
                low[place] = neon.vandq_u8(bytes, half);
                high[place] = neon.vshrq_n_u8::<4>(bytes);
            }
            let mut any: uint8x16_t = cast([0_u8; 16]);
            for group in &filter.groups {
                let mut all: uint8x16_t = cast([0xff_u8; 16]);
                for place in 0..WIDTH {
                    let [lower, upper]: [uint8x16_t; 2] = [cast(group[place][0]), cast(group[place][1])];
                    all = neon.vandq_u8(all, neon.vqtbl1q_u8(lower, low[place]));
                    all = neon.vandq_u8(all, neon.vqtbl1q_u8(upper, high[place]));
                }
                any = neon.vorrq_u8(any, all);
            }
            *accepted = neon.vtstq_u8(any, any);
        }
        bits(self, accepted)
    }

    #[inline(always)]
    fn separators(self, window: &Window) -> u64 {
        let neon = self.neon;
        let (dot, dash): (uint8x16_t, uint8x16_t) = (cast([b'.'; 16]), cast([b'-'; 16]));
        let mut separators = [dot; PARTS.len()];
        for (separators, from) in separators.iter_mut().zip(PARTS) {
            let bytes: uint8x16_t = cast(part::<16>(window, from));
            *separators = neon.vorrq_u8(neon.vceqq_u8(bytes, dot), neon.vceqq_u8(bytes, dash));
        }
        bits(self, separators)
    }

    #[inline(always)]
    fn letters(self, window: &Window) -> u64 {
        let (neon, half): (_, uint8x16_t) = (self.neon, cast([15_u8; 16]));
        let mut letters = [half; PARTS.len()];
        for (letters, from) in letters.iter_mut().zip(PARTS) {
            let bytes: uint8x16_t = cast(part::<16>(window, from));
            let low = neon.vqtbl1q_u8(cast(LOWER_HALVES), neon.vandq_u8(bytes, half));
            let high = neon.vqtbl1q_u8(cast(UPPER_HALVES), neon.vshrq_n_u8::<4>(bytes));
            *letters = neon.vtstq_u8(low, high);
        }
        bits(self, letters)
    }
}

/// Return one bit for each byte of four vectors, of which each is 0 or 255: ARM has no instruction for it, and adds
/// neighbours, of which each has kept the bit of its place among eight.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn bits(lanes: Neon, parts: [uint8x16_t; PARTS.len()]) -> u64 {
    let neon = lanes.neon;
    let places: uint8x16_t = cast([[1_u8, 2, 4, 8, 16, 32, 64, 128]; 2]);
    let [a, b, c, d] = parts.map(
        #[inline(always)]
        |part| neon.vandq_u8(part, places),
    );
    let halves = neon.vpaddq_u8(neon.vpaddq_u8(a, b), neon.vpaddq_u8(c, d));
    let [bits, _]: [u64; 2] = cast(neon.vpaddq_u8(halves, halves));
    bits
}

/// Lower and upper halves of the three bytes of each bucket, a bit each.
#[rustfmt::skip]
const BUCKETS: [[(u16, u16); WIDTH]; BUCKETS_OF_GROUP * GROUPS] = [
    [(0x24a7, 0x008c), (0xa420, 0x0004), (0x0426, 0x00c8)],
    [(0x0110, 0x0044), (0x07ef, 0x00b8), (0x4410, 0x0005)],
    [(0x0070, 0x0004), (0x098f, 0x00c8), (0x037f, 0x00d8)],
    [(0x2040, 0x00c4), (0x103a, 0x00c0), (0x02a1, 0x0080)],
    [(0x0c20, 0x0094), (0x202a, 0x00b4), (0x23fe, 0x0038)],
    [(0xa000, 0x0024), (0x302a, 0x0094), (0x229c, 0x00c4)],
    [(0x2044, 0x00c4), (0x804c, 0x0040), (0x500c, 0x0040)],
    [(0x2200, 0x0054), (0x0050, 0x0040), (0x0220, 0x00c0)],
    [(0xa000, 0x0024), (0x4003, 0x00c0), (0x0012, 0x0040)],
    [(0xf2d4, 0x0064), (0x03e1, 0x0080), (0x8006, 0x0028)],
    [(0x0247, 0x0088), (0x002f, 0x0008), (0x8215, 0x0038)],
    [(0x0422, 0x0018), (0x9402, 0x00a4), (0xd05a, 0x0034)],
    [(0x0066, 0x0008), (0x0270, 0x0008), (0x4018, 0x008c)],
    [(0x9234, 0x0068), (0x0094, 0x0044), (0xb402, 0x0028)],
    [(0x12c9, 0x0038), (0x40f6, 0x0030), (0xc83a, 0x003c)],
    [(0x4010, 0x0048), (0x0010, 0x00c0), (0x0405, 0x0048)],
    [(0x04c2, 0x0028), (0x5402, 0x0090), (0xffff, 0x00fc)],
    [(0x314a, 0x00c8), (0x8139, 0x00c8), (0x2800, 0x0014)],
    [(0x8000, 0x0008), (0x090a, 0x00c0), (0x0223, 0x00c0)],
    [(0x0002, 0x0090), (0x1029, 0x00d8), (0x2218, 0x00e4)],
    [(0x512e, 0x0010), (0x5cff, 0x0030), (0xfefe, 0x0030)],
    [(0x020a, 0x0030), (0x0a08, 0x0010), (0xffff, 0x00fc)],
    [(0x23dd, 0x0030), (0xb2d8, 0x00b4), (0x48bf, 0x0030)],
    [(0x0804, 0x0050), (0x982a, 0x0060), (0x030b, 0x00c0)],
    [(0x0008, 0x0030), (0x8024, 0x00c0), (0x8028, 0x0040)],
    [(0x800f, 0x00e0), (0x2112, 0x0040), (0x0009, 0x0080)],
    [(0x0129, 0x00a0), (0x009a, 0x0080), (0x3131, 0x0048)],
    [(0xb894, 0x00e0), (0xe20a, 0x0040), (0x0c80, 0x0040)],
    [(0x1028, 0x00a0), (0x4810, 0x0004), (0xffff, 0x00fc)],
    [(0x8084, 0x00a0), (0x0003, 0x00c0), (0x0006, 0x00c0)],
    [(0x8056, 0x00c0), (0x0102, 0x0008), (0xc010, 0x0024)],
    [(0x809b, 0x00c0), (0x0800, 0x0040), (0x6010, 0x0084)],
    [(0xfbd2, 0x00c0), (0xd9ff, 0x00c8), (0x8000, 0x0020)],
    [(0x2026, 0x0040), (0x00d0, 0x0084), (0xe400, 0x002c)],
    [(0x0104, 0x0040), (0x8204, 0x00a0), (0x00cb, 0x00c0)],
    [(0x015c, 0x0040), (0x0843, 0x00c0), (0x0821, 0x0090)],
    [(0x0088, 0x0040), (0x1340, 0x0040), (0x92df, 0x00d0)],
    [(0x3a58, 0x0040), (0x80e0, 0x00a0), (0xa8c4, 0x00c0)],
    [(0x0050, 0x0040), (0x2009, 0x0044), (0x2002, 0x000c)],
    [(0x012c, 0x00c0), (0x0020, 0x0040), (0x0018, 0x0040)],
    [(0xc220, 0x0040), (0x40d0, 0x00c0), (0x0030, 0x0004)],
    [(0x2124, 0x00c0), (0x8200, 0x00b0), (0x0401, 0x00d0)],
    [(0x2105, 0x00c0), (0x000d, 0x00c0), (0x0308, 0x0040)],
    [(0x0c00, 0x00c0), (0xe209, 0x00e4), (0xd130, 0x00e4)],
    [(0x0269, 0x0080), (0x580f, 0x00c0), (0x6102, 0x0084)],
    [(0x077f, 0x0080), (0xaaff, 0x00e0), (0x8040, 0x00a0)],
    [(0x0061, 0x0080), (0x004c, 0x0040), (0x0a5e, 0x00c0)],
    [(0x0582, 0x0080), (0x9b83, 0x00c8), (0x0b2f, 0x00c0)],
];

#[cfg(test)]
mod tests {
    use super::super::search::signs_by_bytes;
    use super::*;

    /// Join the two buckets that accept the fewest positions more together, until few enough are left.
    fn partition(mut buckets: Vec<Bucket>) -> Vec<Bucket> {
        let mut shares: Vec<f32> = buckets.iter().map(Bucket::share).collect();
        let cost = |a: usize, b: usize, buckets: &[Bucket], shares: &[f32]| {
            buckets[a].with(&buckets[b]).share() - shares[a] - shares[b]
        };
        let mut costs: Vec<Vec<f32>> =
            (0..buckets.len()).map(|a| (0..a).map(|b| cost(a, b, &buckets, &shares)).collect()).collect();
        while buckets.len() > BUCKETS.len() {
            let pairs = (0..buckets.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
            let (a, b) = pairs.min_by(|x, y| costs[x.0][x.1].total_cmp(&costs[y.0][y.1])).unwrap();
            buckets[b] = buckets[b].with(&buckets[a]);
            buckets.remove(a);
            shares.remove(a);
            shares[b] = buckets[b].share();
            costs.remove(a);
            for row in &mut costs[a..] {
                row.remove(a);
            }
            for other in 0..buckets.len() {
                let (large, small) = (other.max(b), other.min(b));
                if large > small {
                    costs[large][small] = cost(large, small, &buckets, &shares);
                }
            }
        }
        buckets
    }

    #[test]
    fn buckets_are_those_of_joining_the_nearest_signs() {
        let mut signs = signs_by_bytes();
        signs.sort_unstable();
        signs.dedup();
        let bucket = |keys: &Vec<[u8; WIDTH]>| {
            keys.iter().fold(Bucket::default(), |all, key| all.with(&Bucket::of_key(*key)))
        };
        let buckets = partition(signs.iter().map(bucket).collect());
        let wanted: Vec<_> =
            buckets.iter().map(|bucket| bucket.sets.map(|set| (set.low, set.high))).collect();
        let lines: Vec<String> = wanted
            .iter()
            .map(|sets| sets.map(|(low, high)| format!("({low:#06x}, {high:#06x})")).join(", "))
            .map(|sets| format!("    [{sets}],"))
            .collect();
        assert!(wanted == BUCKETS, "the constant BUCKETS has to be:\n{}", lines.join("\n"));
    }
}
