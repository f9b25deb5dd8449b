//! Sums of weights that have no order: integers, so that adding is associative to the last bit.
//!
//! A sum of floats depends on the order of its terms, and with it on shards and threads. These sums round each term
//! once, by itself, to a fixed grid and add the integers: the same bits for any order, any cut into parts, and for
//! equal terms counted once and multiplied.

use std::collections::BTreeMap;

use crate::numeric::exp::{LN2_HIGH, LN2_LOW};
use crate::numeric::simd::SIDE;

/// The grid of a [`Share`] is `2^-BITS`. A total of 2^32 terms then fits 128 bits.
const BITS: i32 = 96;

/// Bits of an f64 below its exponent.
const MANTISSA: u32 = f64::MANTISSA_DIGITS - 1;

/// A sum of terms from 0 to 1, each cut to a multiple of 2^-96.
///
/// What 2^32 cuts can lose together is 2^-64: less than a rounding of a total of 1 or more, and the weights summed
/// here are relative to the largest, which is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(pub u128);

impl Share {
    /// Return a term from 0 to 1. Cost: a shift.
    #[must_use]
    pub fn of(term: f64) -> Self {
        debug_assert!((0.0..=1.0).contains(&term), "{term} is not a share");
        let (significand, exponent) = parts(term);
        let shift = exponent + BITS;
        Self(if shift >= 0 {
            u128::from(significand) << shift
        } else if shift > -64 {
            u128::from(significand >> -shift)
        } else {
            0
        })
    }

    /// Add another sum.
    pub fn add(&mut self, other: Self) {
        self.0 += other.0;
    }

    /// Return the sum of `count` equal terms.
    #[must_use]
    pub fn times(self, count: u32) -> Self {
        Self(self.0 * u128::from(count))
    }

    /// Return the sum as a float.
    #[must_use]
    pub fn value(self) -> f64 {
        self.0 as f64 * 2f64.powi(-BITS)
    }
}

/// A [`Share`] in the making, of many terms side by side.
///
/// A term is cut into three digits of 32 bits. As floats they add up without rounding, which vectors do as they do not
/// add integers of 128 bits.
pub(crate) struct Shares([[f64; SIDE]; 3]);

impl Shares {
    /// Terms that a lane can take before its sum of a digit could be rounded.
    pub(crate) const MOST: usize = 1 << 20;

    pub(crate) const ZERO: Self = Self([[0.0; SIDE]; 3]);

    /// Add a term from 0 to 1 to each lane.
    #[inline(always)]
    pub(crate) fn add(&mut self, terms: &[f64; SIDE]) {
        debug_assert!(terms.iter().all(|term| (0.0..=1.0).contains(term)), "a term is not a share");
        let [first, second, third] = &mut self.0;
        for lane in 0..SIDE {
            // Products with powers of two, and what is left behind an integer, are exact.
            let high = terms[lane] * BASE;
            let middle = (high - high.floor()) * BASE;
            let low = (middle - middle.floor()) * BASE;
            first[lane] += high.floor();
            second[lane] += middle.floor();
            third[lane] += low.floor();
        }
    }

    /// Return the sum of all lanes.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an integer below 2^53")]
    pub(crate) fn total(&self) -> Share {
        let digit = |lanes: &[f64; SIDE]| lanes.iter().map(|&sum| u128::from(sum as u64)).sum::<u128>();
        Share(self.0.iter().fold(0, |total, lanes| (total << 32) + digit(lanes)))
    }
}

/// 2^32.
const BASE: f64 = (1_u64 << 32) as f64;

/// `term = significand * 2^exponent` for a positive or zero f64.
fn parts(term: f64) -> (u64, i32) {
    let bits = term.to_bits();
    let (fraction, raised) = (bits & ((1 << MANTISSA) - 1), i32::try_from(bits >> MANTISSA).unwrap_or(0));
    if raised == 0 { (fraction, -1074) } else { (fraction | 1 << MANTISSA, raised - 1075) }
}

/// A sum of finite floats of either sign, exact: each is an integer on the grid of its bin of 32 powers of two, and bins
/// are added as integers. At most 2^42 terms; constant space.
///
/// ```
/// let mut total = karl_core::numeric::exact::Total::default();
/// [1e100, 1.0, -1e100].into_iter().for_each(|term| total.push(term));
/// assert_eq!(total.value(), 1.0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Total {
    bins: BTreeMap<i32, i128>,
}

impl Total {
    /// Add a term, which has to be finite.
    pub fn push(&mut self, term: f64) {
        let (significand, exponent) = parts(term.abs());
        let size = i128::from(significand) << exponent.rem_euclid(DIGIT);
        *self.bins.entry(exponent.div_euclid(DIGIT)).or_default() += if term < 0.0 { -size } else { size };
    }

    /// Add `a * b` without rounding, where its size is between 1e-290 and 1e300 or zero.
    pub fn push_product(&mut self, a: f64, b: f64) {
        let product = a * b;
        self.push(product);
        self.push(libm::fma(a, b, -product));
    }

    /// Take in the terms of another sum.
    pub fn merge(&mut self, other: &Self) {
        for (&bin, &sum) in &other.bins {
            *self.bins.entry(bin).or_default() += sum;
        }
    }

    /// The bins that terms fall into.
    pub(crate) const BINS: std::ops::RangeInclusive<i32> = -34..=30;

    pub(crate) fn bins(&self) -> &BTreeMap<i32, i128> {
        &self.bins
    }

    pub(crate) const fn of_bins(bins: BTreeMap<i32, i128>) -> Self {
        Self { bins }
    }

    /// Return floats that add up to the total, by falling size; all but the first are zero or more.
    #[must_use]
    pub fn terms(&self) -> Vec<f64> {
        let mut terms = Vec::new();
        let mut bins = self.bins.clone();
        while let Some((bin, sum)) = bins.pop_first() {
            let (carry, digit) = (sum >> DIGIT, sum & ((1 << DIGIT) - 1));
            // The highest bin keeps its sign.
            if bins.is_empty() && sum.unsigned_abs() < 1 << MANTISSA {
                terms.push(libm::scalbn(sum as f64, bin * DIGIT));
                break;
            }
            terms.push(libm::scalbn(digit as f64, bin * DIGIT));
            if carry != 0 {
                *bins.entry(bin + 1).or_default() += carry;
            }
        }
        terms.reverse();
        terms
    }

    /// Return the sum, rounded.
    #[must_use]
    pub fn value(&self) -> f64 {
        crate::numeric::sum::sum(self.terms().into_iter())
    }
}

/// Powers of two in a bin of a [`Total`].
const DIGIT: i32 = 32;

/// Number of bins of a [`LogSum`] below the highest that can affect its value.
const SEEN: i64 = 4;

/// Powers of two in a bin.
const WIDTH: i64 = 32;

/// Bits of one term in its bin, at most.
const FULL: u32 = 53 + 32;

/// No bin has a larger number: the largest exponent over ln 2, in bins.
const FURTHEST: i64 = 1 << 46;

/// The largest exponent that a [`LogSum`] tells from its neighbours to within a rounding.
const LARGEST: f64 = 1e15;

/// `log(sum(exp(x)))` of a stream, without order: any order and any cut into parts give the same bits.
///
/// ```text
/// exp(x) = 2^n m,  n = round(x / ln 2),  m = exp(x - n ln 2) in [0.7, 1.5)
/// ```
///
/// m is rounded once, by itself; then `2^n m` is an integer on the grid of its bin of 32 powers of two, and bins are
/// added exactly. Bins too far below the highest to be seen in the value are let go. Constant space; one `exp` a term.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSum {
    bins: BTreeMap<i64, u128>,
}

impl LogSum {
    /// Take one exponent in; minus infinity, the logarithm of zero, changes nothing.
    ///
    /// Exponents beyond 1e15 in size are taken as that: their neighbours are a factor of e apart.
    pub fn push(&mut self, x: f64) {
        if x == f64::NEG_INFINITY || x.is_nan() {
            return;
        }
        let x = x.clamp(-LARGEST, LARGEST);
        let power = libm::round(x * std::f64::consts::LOG2_E);
        let (significand, exponent) = parts(libm::exp((x - power * LN2_HIGH) - power * LN2_LOW));
        #[allow(clippy::cast_possible_truncation, reason = "an integer below 2^51")]
        let power = power as i64 + i64::from(exponent);
        let bin = power.div_euclid(WIDTH);
        let highest = self.bins.last_key_value().map_or(bin, |(&highest, _)| highest);
        if bin < highest - SEEN {
            return;
        }
        *self.bins.entry(bin).or_default() += u128::from(significand) << power.rem_euclid(WIDTH);
        self.drop_low_bins();
    }

    /// Take in what another sum has seen.
    pub fn merge(&mut self, other: &Self) {
        for (&bin, &sum) in &other.bins {
            *self.bins.entry(bin).or_default() += sum;
        }
        self.drop_low_bins();
    }

    /// Return the bins of the sum: the number of each, ascending, and the integer in it.
    pub(crate) fn bins(&self) -> impl Iterator<Item = (i64, u128)> {
        self.bins.iter().map(|(&bin, &sum)| (bin, sum))
    }

    /// Return the sum of at most `count` terms that holds these bins; none where there is no such sum.
    pub(crate) fn from_bins(bins: &[(i64, u128)], count: u64) -> Option<Self> {
        let &(highest, _) = bins.last().unwrap_or(&(0, 0));
        let ascending = bins.is_sorted_by(|a, b| a.0 < b.0);
        let held = |&(bin, sum): &(i64, u128)| {
            bin.abs() <= FURTHEST && bin >= highest - SEEN && sum > 0 && sum >> FULL <= u128::from(count)
        };
        (ascending && bins.iter().all(held)).then(|| Self { bins: bins.iter().copied().collect() })
    }

    fn drop_low_bins(&mut self) {
        let highest = self.bins.last_key_value().map_or(0, |(&highest, _)| highest);
        while self.bins.first_key_value().is_some_and(|(&bin, _)| bin < highest - SEEN) {
            self.bins.pop_first();
        }
    }

    /// Return the logarithm of the sum; minus infinity when nothing was seen.
    #[must_use]
    pub fn value(&self) -> f64 {
        let Some((&highest, _)) = self.bins.last_key_value() else { return f64::NEG_INFINITY };
        let bin = |(&bin, &sum): (&i64, &u128)| {
            let below = i32::try_from((bin - highest) * WIDTH).unwrap_or(i32::MIN);
            sum as f64 * 2f64.powi(below)
        };
        let total: f64 = self.bins.iter().map(bin).sum();
        let power = (highest * WIDTH) as f64;
        power * LN2_HIGH + (power * LN2_LOW + libm::log(total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_many_terms_side_by_side_is_that_of_one_after_the_other() {
        let ends = [0.0, 1.0, f64::MIN_POSITIVE, 5e-324, 1.0 - f64::EPSILON / 2.0];
        let powers =
            (1..=128_i32).flat_map(|at| [2f64.powi(-at), 2f64.powi(-at) * 1.999_999_999, 0.7f64.powi(at)]);
        let mut terms: Vec<f64> = ends.into_iter().chain(powers).cycle().take(20 * SIDE).collect();
        for _ in 0..7 {
            terms.rotate_left(5);
            let (mut shares, mut wanted) = (Shares::ZERO, Share::default());
            for terms in terms.as_chunks().0 {
                shares.add(terms);
            }
            for &term in &terms {
                wanted.add(Share::of(term));
            }
            assert_eq!(shares.total(), wanted);
        }
    }
}
