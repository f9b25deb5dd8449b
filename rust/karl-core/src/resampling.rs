//! Resampling: intervals of means, and tests of paired differences.
//!
//! | question | point |
//! |---|---|
//! | between which numbers a mean lies | [`bootstrap_mean`] |
//! | whether paired differences have a mean above 0 | [`sign_flip`] |
//! | the least mean that the differences are compatible with | [`sign_flip_limit`] |
//!
//! Laws, each with a test: the same bits for any number of threads; the exact test equals enumeration; a limit and
//! the test agree; flipped differences have the mirrored limit.

use std::ops::Range;

use special::Beta;

use crate::check::{check_finite, check_length, check_positive, check_range};
use crate::error::{Error, Result};
use crate::group::offsets::Offsets;
use crate::numeric::parallel::in_parts;
use crate::numeric::sum::sum;
use crate::rng::xxh3::Hashes;
use crate::rng::{Key, Purpose};

/// Degrees of freedom from which on Student's t is taken as it is there: it is the normal distribution to four digits.
const NORMAL: f64 = 1e4;

/// Compute the bootstrap interval of the mean of values, such as one number a prompt.
///
/// ```text
/// m_b  = mean of P values drawn with replacement,   b = 1 .. B
/// low  = m_(k),  high = m_(B + 1 - k),   k = max(1, floor((B + 1) a))
/// a    = Phi(-sqrt(P / (P - 1)) t),   t = the (1 + level) / 2 quantile of Student's t, P - 1 degrees of freedom
/// ```
///
/// The tail `a` in the place of `(1 - level) / 2` is what makes the interval of few values wide enough: plain percentiles
/// have the variance of P - 1 values, and the quantiles of a normal distribution. Columns of one length have the same
/// resamples under one seed, so that their intervals are those of one experiment.
/// Shapes: values `[P]`. NaN for fewer than two values. Cost: `B P` hashes, one sort of B.
/// Reference: Efron 1979; Hesterberg 2015 (arXiv:1411.5279), section 5.4 (the expanded percentile interval).
///
/// # Errors
/// [`Error::NotFinite`] for a value that is; [`Error::Positive`] for no
/// resample; [`Error::Range`] for a level outside 0 to 1.
pub fn bootstrap_mean(
    values: &[f64],
    level: f64,
    resamples: usize,
    seed: u64,
    threads: usize,
) -> Result<(f64, f64)> {
    check_finite("values", values)?;
    check_positive("resamples", resamples as f64)?;
    check_range("level", level, 0.0, 1.0)?;
    let count = values.len();
    if count < 2 {
        return Ok((f64::NAN, f64::NAN));
    }
    let hashes = Hashes::new(seed, Purpose::Resample);
    let run =
        |draws: Range<usize>| draws.map(|draw| resample_mean(values, &hashes, draw)).collect::<Vec<_>>();
    let mut means = in_parts(resamples, threads, run).concat();
    means.sort_unstable_by(f64::total_cmp);
    let tail = rank(resamples, expanded_tail(level, count as f64));
    Ok((means[tail - 1], means[resamples - tail]))
}

/// Return the share of resampled means below the interval of so many values.
fn expanded_tail(level: f64, count: f64) -> f64 {
    let z = (count / (count - 1.0)).sqrt() * student(level, count - 1.0);
    libm::erfc(z / std::f64::consts::SQRT_2) / 2.0
}

/// Return the `(1 + level) / 2` quantile of Student's t, by that of the Beta distribution of `f / (f + t^2)`.
fn student(level: f64, freedom: f64) -> f64 {
    let (a, b) = (freedom.min(NORMAL) / 2.0, 0.5);
    let ln_beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let x = (1.0 - level).inv_inc_beta(a, b, ln_beta);
    (2.0 * a * (1.0 - x) / x).sqrt()
}

/// Return the mean of a resample: each place draws its row by a hash of (resample, place).
#[allow(clippy::cast_possible_truncation, reason = "the row is below the number of rows")]
fn resample_mean(values: &[f64], hashes: &Hashes, draw: usize) -> f64 {
    let row = |place: usize| {
        let hash = hashes.of(Key { id: draw as u128, ordinal: place as u64 });
        // The high half of the product is uniform over the rows, without a division (Lemire 2019).
        ((u128::from(hash) * values.len() as u128) >> 64) as usize
    };
    sum((0..values.len()).map(|place| values[row(place)])) / values.len() as f64
}

/// Return the rank, from 1, below which so large a share of draws lies.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count, from 0 to it"
)]
fn rank(draws: usize, share: f64) -> usize {
    (((draws + 1) as f64 * share).floor() as usize).clamp(1, draws.div_ceil(2))
}

/// Maximum number of differences for which all sign patterns are counted; more are tested by random patterns.
pub const EXACT_MOST: usize = 40;

/// Test rows of paired differences for a mean above 0, one-sided.
///
/// ```text
/// p = (number of subsets S with sum_{i in S} d_i <= 0) / 2^P            P <= 40, every subset
/// p = (1 + number of drawn subsets with such a sum) / (1 + draws)       otherwise
/// ```
///
/// Where new and old are alike, a difference is as likely as its negative, so that all sign patterns of the observed
/// differences are equally likely. Flipping the signs of a subset S lowers the sum by twice the sum over S: patterns
/// with a sum of at least the observed one are the subsets with a sum of at most 0, the empty one among them.
///
/// Valid at any P where differences are symmetric about a mean of at most 0; to test for a mean above a margin, subtract
/// the margin first. A row without a difference has p = 1. Shapes: differences `[T]`, offsets `[B + 1]`, result `[B]`.
/// Cost: `2^(P/2)` a row, or `draws P`.
/// Reference: Fisher 1935, The Design of Experiments, section 21; Phipson & Smyth 2010 (the 1 in both parts).
///
/// # Errors
/// [`Error::NotFinite`] for a difference that is;
/// [`Error::Positive`] for no draw.
pub fn sign_flip(
    differences: &[f64],
    offsets: Offsets<'_>,
    draws: usize,
    seed: u64,
    threads: usize,
) -> Result<Vec<f64>> {
    check_finite("differences", differences)?;
    check_positive("draws", draws as f64)?;
    let rows = offsets.len();
    // A single long row has threads of its own; many rows have one each.
    let inner = if rows < threads { threads } else { 1 };
    let one = |row: usize| {
        let row = &differences[offsets.row(row)];
        if row.len() <= EXACT_MOST { count_share(row) } else { estimate_share(row, draws, seed, inner) }
    };
    Ok(in_parts(rows, threads, |rows| rows.map(one).collect::<Vec<_>>()).concat())
}

/// Compute the one-sided lower confidence limit of a mean difference: the test of anything below it rejects.
///
/// ```text
/// limit = sup {m: p(d - m w) <= alpha},   p of sign_flip
/// ```
///
/// With weights of 1 it bounds `mean d`, with others `sum d / sum w`, such as nats a token. The mirrored limit of `-d` is
/// the upper one. Minus infinity where even the smallest p is above alpha: so few differences exclude nothing.
/// Shapes: differences `[P]`, weights `[P]`. Cost: about 8 tests for P <= 40, else one pass over the draws and a selection.
/// Reference: Hartigan 1969 (typical values: limits are order statistics of subset means).
///
/// # Errors
/// [`Error::NotFinite`]; [`Error::Length`]; [`Error::Outside`]
/// for a weight of 0 or less; [`Error::Fraction`] for an alpha outside (0, 1];
/// [`Error::Positive`] for no draw.
pub fn sign_flip_limit(
    differences: &[f64],
    weights: &[f64],
    alpha: f64,
    draws: usize,
    seed: u64,
    threads: usize,
) -> Result<f64> {
    check_finite("differences", differences)?;
    check_length("weights", weights.len(), differences.len())?;
    check_above(weights)?;
    if !(alpha > 0.0 && alpha <= 1.0) {
        return Err(Error::Fraction { what: "alpha", value: alpha });
    }
    check_positive("draws", draws as f64)?;
    if differences.len() > EXACT_MOST {
        return Ok(estimate_limit(differences, weights, alpha, draws, seed, threads));
    }
    Ok(compute_exact_limit(differences, weights, alpha, threads))
}

fn check_above(weights: &[f64]) -> Result<()> {
    let (low, high) = (f64::MIN_POSITIVE, f64::INFINITY);
    match weights.iter().position(|&weight| !(weight > 0.0 && weight < high)) {
        Some(index) => Err(Error::Outside { what: "weights", index, value: weights[index], low, high }),
        None => Ok(()),
    }
}

/// Return the largest sum that counts as 0: exact ties may differ by rounding, and have to count as ties.
fn tie(differences: &[f64]) -> f64 {
    sum(differences.iter().map(|one| one.abs())) * f64::EPSILON * (1.0 + differences.len() as f64)
}

/// Return the share of subsets with a sum of at most 0.
///
/// Speed: subsets are pairs of subsets of the two halves. With the sums of both halves sorted, one pointer into each
/// counts all pairs: `2^(P/2)` steps instead of `2^P` (Horowitz & Sahni 1974).
fn count_share(differences: &[f64]) -> f64 {
    let tie = tie(differences);
    let (first, second) = differences.split_at(differences.len() / 2);
    let (first, second) = (subset_sums(first), subset_sums(second));
    let (mut pairs, mut fits) = (0_u64, second.len());
    for one in first {
        while fits > 0 && one + second[fits - 1] > tie {
            fits -= 1;
        }
        pairs += fits as u64;
    }
    pairs as f64 / 2_f64.powi(i32::try_from(differences.len()).unwrap_or(i32::MAX))
}

/// Return the sums of all subsets, sorted: each value doubles the list by merging it with itself shifted.
fn subset_sums(values: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    for &value in values {
        let (mut merged, mut plain, mut shifted) = (Vec::with_capacity(2 * sums.len()), 0, 0);
        while plain < sums.len() || shifted < sums.len() {
            let takes_plain =
                shifted == sums.len() || (plain < sums.len() && sums[plain] <= sums[shifted] + value);
            merged.push(if takes_plain { sums[plain] } else { sums[shifted] + value });
            if takes_plain { plain += 1 } else { shifted += 1 }
        }
        sums = merged;
    }
    sums
}

/// Return the limit of few differences: the k-th smallest mean over the subsets, `k = floor(alpha 2^P)`.
///
/// Rejected are the differences from m where at most k subsets have a mean of at most m, the empty one among them.
///
/// Speed: whole numbers of parts of 1 are counted by their sums. Else an exact count of the subsets up to a mean costs `2^(P/2)` steps, so there are to be few. Two counts enclose the
/// rank between two means of a spread sample; what lies between them is sampled again, until all of it fits a list.
/// Halving the range to the last digit takes 60 counts in the place of about 8.
fn compute_exact_limit(differences: &[f64], weights: &[f64], alpha: f64, threads: usize) -> f64 {
    let count = i32::try_from(differences.len()).unwrap_or(i32::MAX);
    let rank = floor_to_int(alpha * 2_f64.powi(count));
    if differences.is_empty() || rank == 0 {
        return f64::NEG_INFINITY;
    }
    let ratios = || differences.iter().zip(weights).map(|(one, weight)| one / weight);
    let most = ratios().fold(f64::NEG_INFINITY, f64::max);
    if rank >> count > 0 {
        return most;
    }
    if let Some(lattice) = Lattice::of(differences, weights) {
        return lattice.mean_at(rank);
    }
    // Means near 0 keep the digits of sums whose terms nearly cancel.
    let centre = sum(differences.iter().copied()) / sum(weights.iter().copied());
    let shifted: Vec<f64> =
        differences.iter().zip(weights).map(|(one, weight)| centre.mul_add(-weight, *one)).collect();
    let search = MeanSearch::new(&shifted, weights);
    (centre + search.mean_at(rank, threads)).min(most)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 0 to the number of subsets, 2^40"
)]
fn floor_to_int(number: f64) -> u64 {
    number.floor() as u64
}

/// Maximum number of means that are listed and sorted.
const LISTED: u64 = 1 << 17;

/// Maximum number of rounds of a search.
const ROUNDS: usize = 64;

/// Standard errors of a rank in a sample that its bounds are apart from it.
const SURE: f64 = 4.0;

/// Maximum parts of 1 that differences may be whole numbers of, and maximum size of their sum in such parts.
const PARTS: i64 = 1 << 15;

/// Differences that are whole numbers of parts of 1, such as means of a few rewards of 0 and 1: then subsets have few
/// sums, and counting the subsets of each by their number of rows (dynamic programming) takes `P^2` sums steps.
struct Lattice {
    numbers: Vec<i64>,
    parts: i64,
}

impl Lattice {
    /// Return the differences in the largest parts that fit; `None` if they are of too many, or have unequal weights.
    fn of(differences: &[f64], weights: &[f64]) -> Option<Self> {
        let size = differences.iter().map(|one| one.abs()).sum::<f64>();
        // Differences of means are off by the rounding of these.
        let slack = differences.iter().fold(1.0, |most: f64, one| most.max(one.abs())) * f64::EPSILON * 8.0;
        let fits = |parts: i64| {
            let scaled = |one: &f64| one * parts as f64;
            differences.iter().all(|one| (scaled(one) - scaled(one).round()).abs() <= slack * parts as f64)
        };
        let equal = weights.iter().all(|weight| weight.to_bits() == 1.0_f64.to_bits());
        let least = |parts: &i64| size * *parts as f64 <= PARTS as f64;
        let parts = (1..=PARTS).take_while(|parts| equal && least(parts)).find(|&parts| fits(parts))?;
        let numbers = differences.iter().map(|one| round_to_int(one * parts as f64)).collect();
        Some(Self { numbers, parts })
    }

    /// Return the mean of a rank from 1 among the means of all subsets but the empty one.
    fn mean_at(&self, rank: u64) -> f64 {
        let mut means: Vec<(f64, u64)> = self.counts().into_iter().filter(|one| one.1 > 0).collect();
        means.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let mut upto = 0;
        let at = means.iter().position(|&(_, count)| {
            upto += count;
            upto >= rank
        });
        at.map_or(f64::INFINITY, |at| means[at].0)
    }

    /// Return each mean with the number of subsets that have it.
    fn counts(&self) -> Vec<(f64, u64)> {
        let least: i64 = self.numbers.iter().filter(|&&one| one < 0).sum();
        let most: i64 = self.numbers.iter().filter(|&&one| one > 0).sum();
        let width = index(most - least) + 1;
        let mut counts = vec![0_u64; width * (self.numbers.len() + 1)];
        counts[index(-least)] = 1;
        for (row, &number) in self.numbers.iter().enumerate() {
            // From the largest subsets on, so that a row is in each once.
            for size in (0..=row).rev() {
                let (before, after) = counts.split_at_mut((size + 1) * width);
                let (from, to) = (&before[size * width..], &mut after[..width]);
                let step = index(number.abs());
                if number >= 0 {
                    from.iter().zip(&mut to[step..]).for_each(|(count, sum)| *sum += count);
                } else {
                    from[step..].iter().zip(to).for_each(|(count, sum)| *sum += count);
                }
            }
        }
        let mean = |(at, &count): (usize, &u64)| {
            let (size, sum) = (at / width, least + i64::try_from(at % width).unwrap_or(0));
            (sum as f64 / (size as f64 * self.parts as f64), count)
        };
        counts.iter().enumerate().skip(width).map(mean).collect()
    }
}

#[allow(clippy::cast_possible_truncation, reason = "at most PARTS in size")]
fn round_to_int(number: f64) -> i64 {
    number.round() as i64
}

/// Return a number from 0 to `2 PARTS` as an index.
fn index(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// Rows and their two halves, whose subsets make up those of all rows.
struct MeanSearch<'a> {
    differences: &'a [f64],
    weights: &'a [f64],
    first: Half,
    second: Half,
}

/// Sums over the subsets of a half of the rows, by the subset as a number with a bit for each row.
struct Half {
    differences: Vec<f64>,
    weights: Vec<f64>,
}

/// A mean, the sums of both halves less that mean in order, and the subsets with a mean below it, and up to it.
struct Bound {
    mean: f64,
    first: Vec<(f64, u32)>,
    second: Vec<(f64, u32)>,
    below: u64,
    upto: u64,
}

impl Half {
    fn new(differences: &[f64], weights: &[f64]) -> Self {
        Self { differences: all_sums(differences), weights: all_sums(weights) }
    }
}

impl<'a> MeanSearch<'a> {
    fn new(differences: &'a [f64], weights: &'a [f64]) -> Self {
        let middle = differences.len() / 2;
        let (first, second) = (differences.split_at(middle), weights.split_at(middle));
        Self {
            differences,
            weights,
            first: Half::new(first.0, second.0),
            second: Half::new(first.1, second.1),
        }
    }

    /// Return the mean of a rank from 1 among the means of all subsets but the empty one.
    fn mean_at(&self, rank: u64, threads: usize) -> f64 {
        let ratios = || self.differences.iter().zip(self.weights).map(|(one, weight)| one / weight);
        let least = ratios().fold(f64::INFINITY, f64::min);
        let most = ratios().fold(f64::NEG_INFINITY, f64::max);
        let margin = (most - least).abs().max(least.abs()).max(f64::MIN_POSITIVE) * 1e-6;
        let (mut low, mut high) = (self.bound(least - margin), most + margin);
        let mut below_high = (1_u64 << self.differences.len()) - 1;
        for _ in 0..ROUNDS {
            let between = below_high.saturating_sub(low.upto);
            if rank <= low.upto || between == 0 {
                return low.mean;
            }
            let wanted = rank - low.upto;
            let mut means = self.means_between(&low, high, between.div_ceil(LISTED));
            means.sort_unstable_by(f64::total_cmp);
            if between <= LISTED || means.is_empty() {
                return means.get(place(wanted, means.len())).copied().unwrap_or(high);
            }
            let before = between;
            let ends = spread(&means, wanted as f64 / between as f64);
            let bounds = in_parts(ends.len(), threads, |ends_of| {
                ends_of.map(|at| self.bound(ends[at])).collect::<Vec<_>>()
            });
            for bound in bounds.into_iter().flatten() {
                if bound.mean <= low.mean || bound.mean >= high {
                    continue;
                }
                if bound.below < rank && rank <= bound.upto {
                    return bound.mean;
                }
                if bound.upto < rank {
                    low = bound;
                } else {
                    (high, below_high) = (bound.mean, bound.below);
                }
            }
            if below_high.saturating_sub(low.upto) == before {
                break;
            }
        }
        // Nothing is left between the bounds but means that differ by rounding.
        low.mean + (high - low.mean) / 2.0
    }

    /// Count the subsets with a mean below a number and up to it, the empty one left out.
    fn bound(&self, mean: f64) -> Bound {
        let rest = self.less(mean);
        let tie = tie(&rest);
        let (first, second) = rest.split_at(rest.len() / 2);
        let (first, second) = (sum_numbered_subsets(first), sum_numbered_subsets(second));
        let (mut below, mut upto, mut fits, mut under) = (0_u64, 0_u64, second.len(), second.len());
        for &(one, _) in &first {
            while fits > 0 && one + second[fits - 1].0 > tie {
                fits -= 1;
            }
            while under > 0 && one + second[under - 1].0 >= -tie {
                under -= 1;
            }
            upto += fits as u64;
            below += under as u64;
        }
        // The empty subset has the sum 0, which is up to every mean and below none.
        Bound { mean, first, second, below, upto: upto - 1 }
    }

    /// Return the differences less a mean of their weights.
    fn less(&self, mean: f64) -> Vec<f64> {
        self.differences.iter().zip(self.weights).map(|(d, w)| mean.mul_add(-w, *d)).collect()
    }

    /// Return every so many means of the subsets above a bound and below a mean.
    fn means_between(&self, low: &Bound, high: f64, every: u64) -> Vec<f64> {
        let (tie_low, tie_high) = (tie(&self.less(low.mean)), tie(&self.less(high)));
        let reach = (high - low.mean) * self.weights.iter().sum::<f64>() + tie_low;
        let every = golden(every, low.second.len() as u64);
        let (mut from, mut to) = (low.second.len(), low.second.len());
        let (mut means, mut left) = (Vec::new(), 0_u64);
        for &(one, subset) in &low.first {
            while from > 0 && one + low.second[from - 1].0 > tie_low {
                from -= 1;
            }
            while to > 0 && one + low.second[to - 1].0 > reach {
                to -= 1;
            }
            let others = low.second.get(from..to).unwrap_or_default();
            while let Some(&(_, other)) = usize::try_from(left).ok().and_then(|at| others.get(at)) {
                let (difference, weight) = self.sums_of(subset, other);
                if high.mul_add(-weight, difference) < -tie_high {
                    means.push(difference / weight);
                }
                left += every;
            }
            left -= others.len() as u64;
        }
        means
    }

    /// Return the sums of the subset that two subsets of the halves make up.
    fn sums_of(&self, first: u32, second: u32) -> (f64, f64) {
        let (one, other) = (first as usize, second as usize);
        let weight = self.first.weights[one] + self.second.weights[other];
        (self.first.differences[one] + self.second.differences[other], weight)
    }
}

/// Return about a step, such that steps of more than a whole row reach all places in a row evenly.
fn golden(step: u64, row: u64) -> u64 {
    if step < row { step } else { step - step % row + row * 618 / 1000 }
}

/// Return two means of a sorted sample that most probably enclose the share of all means below the wanted one.
fn spread(means: &[f64], share: f64) -> [f64; 2] {
    let size = means.len() as f64;
    let error = SURE * (share * (1.0 - share) / size).sqrt() + 1.0 / size;
    let at = |share: f64| means[place(floor_to_int((share * size).clamp(1.0, size)), means.len())];
    [at(share - error), at(share + error)]
}

/// Return the index of a rank from 1 in a list.
fn place(rank: u64, length: usize) -> usize {
    usize::try_from(rank.saturating_sub(1)).map_or(length - 1, |at| at.min(length - 1))
}

/// Return the sum over each subset, by its number.
fn all_sums(values: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    for &value in values {
        sums.extend_from_within(..);
        let half = sums.len() / 2;
        sums[half..].iter_mut().for_each(|one| *one += value);
    }
    sums
}

/// Return the sums of all subsets with their numbers, sorted.
fn sum_numbered_subsets(values: &[f64]) -> Vec<(f64, u32)> {
    let mut sums = vec![(0.0, 0_u32)];
    for (row, &value) in values.iter().enumerate() {
        let (size, bit) = (sums.len(), 1_u32 << row);
        let (mut merged, mut plain, mut shifted) = (Vec::with_capacity(2 * size), 0, 0);
        while plain < size && shifted < size {
            // Indices move by comparisons in the place of branches, which half of the time would be guessed wrong.
            let (one, other) = (sums[plain], (sums[shifted].0 + value, sums[shifted].1 | bit));
            let takes_plain = one.0 <= other.0;
            merged.push(if takes_plain { one } else { other });
            plain += usize::from(takes_plain);
            shifted += usize::from(!takes_plain);
        }
        merged.extend_from_slice(&sums[plain..]);
        merged.extend(sums[shifted..].iter().map(|&(one, subset)| (one + value, subset | bit)));
        sums = merged;
    }
    sums
}

fn estimate_share(differences: &[f64], draws: usize, seed: u64, threads: usize) -> f64 {
    let (tie, hashes) = (tie(differences), Hashes::new(seed, Purpose::Flip));
    let run = |draws: Range<usize>| {
        draws
            .filter(|&draw| over_subset(&hashes, draw, differences.len(), |row| differences[row]) <= tie)
            .count()
    };
    let hits: usize = in_parts(draws, threads, run).into_iter().sum();
    (hits + 1) as f64 / (draws + 1) as f64
}

/// Return the limit of many differences: an order statistic of the means of the drawn subsets.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count, from 0 to it"
)]
fn estimate_limit(
    differences: &[f64],
    weights: &[f64],
    alpha: f64,
    draws: usize,
    seed: u64,
    threads: usize,
) -> f64 {
    let rank = ((draws + 1) as f64 * alpha).floor() as usize;
    if rank == 0 {
        return f64::NEG_INFINITY;
    }
    let hashes = Hashes::new(seed, Purpose::Flip);
    let mean = |draw: usize| {
        let of = |column: &[f64]| over_subset(&hashes, draw, column.len(), |row| column[row]);
        let weight = of(weights);
        // The empty subset counts for every mean.
        if weight > 0.0 { of(differences) / weight } else { f64::NEG_INFINITY }
    };
    let mut means = in_parts(draws, threads, |draws| draws.map(mean).collect::<Vec<_>>()).concat();
    let at = rank.min(draws) - 1;
    *means.select_nth_unstable_by(at, f64::total_cmp).1
}

/// Add up a random half of the rows: 64 rows take their sides from the bits of one hash of (draw, block of rows).
fn over_subset(hashes: &Hashes, draw: usize, rows: usize, value: impl Fn(usize) -> f64) -> f64 {
    let mut total = 0.0;
    for block in 0..rows.div_ceil(64) {
        let mut bits = hashes.of(Key { id: draw as u128, ordinal: block as u64 });
        for row in block * 64..rows.min(block * 64 + 64) {
            // A product instead of a branch, which half of the time would be guessed wrong.
            total += value(row) * (bits & 1) as f64;
            bits >>= 1;
        }
    }
    total
}
