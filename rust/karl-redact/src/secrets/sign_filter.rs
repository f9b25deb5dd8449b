//! Filter of positions that may have the rarest bytes of a sign, 64 at a time with the vectors of x86-64.
//!
//! The three bytes of each sign fall into one of 32 buckets. A bucket accepts a position if both halves of each byte there
//! are among those of its signs, which one shuffle per half and eight buckets answers for all bytes of a vector. This is the
//! filter of Teddy (Langdale, in Hyperscan and in `aho-corasick`) with more buckets: what it accepts, about one position in
//! fifteen, is only looked up in a table of bits, so that it may be wrong more often.

use pulp::x86::{V3, V4};
use pulp::{NullaryFnOnce, cast};
use std::arch::x86_64::{__m256i, __m512i};

use super::rare_bytes::{WIDTH, frequency};

/// Positions of one step.
pub(super) const STEP: usize = 64;

/// Bytes that a step looks at.
pub(super) type Window = [u8; STEP + WIDTH];

/// Buckets in one shuffle, a bit each.
const BUCKETS: usize = 8;

/// Number of shuffles of one half of a byte.
const GROUPS: usize = 4;

/// Buckets that have a half of a byte: of the first, second and third byte, the lower half and the upper half.
type Halves = [[[u8; 16]; 2]; WIDTH];

#[derive(Default)]
pub(super) struct SignFilter {
    keys: Vec<[u8; WIDTH]>,
    groups: [Halves; GROUPS],
}

impl SignFilter {
    /// Add the rarest bytes of a sign.
    pub(super) fn add(&mut self, key: [u8; WIDTH]) {
        self.keys.push(key);
    }

    /// Distribute the bytes of all signs to buckets, each to the one where it adds the fewest positions.
    pub(super) fn optimise(&mut self) {
        let mut buckets = [Bucket::default(); BUCKETS * GROUPS];
        for key in &self.keys {
            let more = buckets.each_ref().map(|bucket| bucket.with(*key));
            let costs: [f32; BUCKETS * GROUPS] =
                std::array::from_fn(|number| more[number].share() - buckets[number].share());
            let best = (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b])).unwrap_or_default();
            buckets[best] = more[best];
        }
        for (number, bucket) in buckets.iter().enumerate() {
            for ([low, high], set) in self.groups[number / BUCKETS].iter_mut().zip(&bucket.sets) {
                for (half, (low, high)) in low.iter_mut().zip(high).enumerate() {
                    *low |= u8::from(set.low >> half & 1 == 1) << (number % BUCKETS);
                    *high |= u8::from(set.high >> half & 1 == 1) << (number % BUCKETS);
                }
            }
        }
    }
}

/// Bytes that a bucket accepts at each of three places.
#[derive(Clone, Copy, Default)]
struct Bucket {
    sets: [ByteSet; WIDTH],
}

impl Bucket {
    fn with(mut self, key: [u8; WIDTH]) -> Self {
        self.sets.iter_mut().zip(key).for_each(|(set, byte)| set.add(byte));
        self
    }

    /// Return about the share of positions that the bucket accepts.
    fn share(&self) -> f32 {
        self.sets.iter().map(|set| set.frequency).product()
    }
}

/// Every byte with one of some lower and one of some upper halves.
#[derive(Clone, Copy, Default)]
struct ByteSet {
    low: u16,
    high: u16,
    /// Sum of the frequencies of its bytes.
    frequency: f32,
}

impl ByteSet {
    fn add(&mut self, byte: u8) {
        let (low, high) = (byte & 15, byte >> 4);
        let has = |set: u16, half: u8| set >> half & 1 == 1;
        if !has(self.low, low) {
            self.frequency += sum(self.high, |high| high << 4 | low);
            self.low |= 1 << low;
        }
        if !has(self.high, high) {
            self.frequency += sum(self.low, |low| high << 4 | low);
            self.high |= 1 << high;
        }
    }
}

/// Return the sum of the frequencies of the bytes with each half of a set.
fn sum(mut set: u16, byte: impl Fn(u8) -> u8) -> f32 {
    let mut sum = 0;
    while set != 0 {
        let half = u8::try_from(set.trailing_zeros()).unwrap_or_default();
        sum += FREQUENCIES[usize::from(byte(half))];
        set &= set - 1;
    }
    sum as f32
}

/// Frequency of each byte.
static FREQUENCIES: [u32; 256] = {
    let mut frequencies = [0; 256];
    let mut byte = 0;
    loop {
        frequencies[byte as usize] = frequency(byte);
        if byte == u8::MAX {
            break frequencies;
        }
        byte += 1;
    }
};

/// Work on the accepted positions of a text.
pub(super) trait OnCandidates {
    /// Take the accepted positions of a step, one bit each.
    fn on_step(&mut self, from: usize, candidates: u64);
}

/// Call `work` with each step of a text; return false if the machine has no vectors for it.
pub(super) fn filter(filter: &SignFilter, text: &[u8], work: &mut impl OnCandidates) -> bool {
    if let Some(lanes) = V4::try_new() {
        lanes.vectorize(Steps { filter, text, work, lanes });
    } else if let Some(lanes) = V3::try_new() {
        lanes.vectorize(Steps { filter, text, work, lanes });
    } else {
        return false;
    }
    true
}

/// Do the same with vectors of 256 bits.
#[cfg(test)]
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
            work.on_step(from, lanes.candidates(filter, window));
            from += STEP;
        }
        while from < text.len() {
            let mut window = [0; STEP + WIDTH];
            let length = (text.len() - from).min(window.len());
            window[..length].copy_from_slice(&text[from..from + length]);
            work.on_step(from, lanes.candidates(filter, &window));
            from += STEP;
        }
    }
}

/// Vectors of a width.
trait Lanes: Copy {
    fn candidates(self, filter: &SignFilter, window: &Window) -> u64;
}

#[inline(always)]
fn part<const N: usize>(window: &Window, at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&window[at..at + N]);
    part
}

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
}

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
}
