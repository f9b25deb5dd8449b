//! The sign-flip test of paired differences, and the confidence limit that inverts it.
//!
//! Where new and old are alike, a difference is as likely as its negative, so that all sign patterns of the observed
//! differences are equally likely. Flipping the signs of a subset S lowers the sum by twice the sum over S: patterns
//! with a sum of at least the observed one are the subsets with a sum of at most 0, the empty one among them.

use std::ops::Range;

use crate::check::{check_finite, check_length, check_positive};
use crate::error::{Error, Result};
use crate::group::offsets::Offsets;
use crate::numeric::parallel::in_parts;
use crate::numeric::sum::sum;
use crate::rng::xxh3::Hashes;
use crate::rng::{Key, Purpose};

/// Maximum number of differences for which all sign patterns are counted; more are tested by random patterns.
pub const EXACT_MOST: usize = 40;

/// Halvings of the range of a limit: beyond the digits of an f64.
const HALVINGS: usize = 60;

/// Test rows of paired differences for a mean above 0, one-sided.
///
/// ```text
/// p = (number of subsets S with sum_{i in S} d_i <= 0) / 2^P            P <= 40, every subset
/// p = (1 + number of drawn subsets with such a sum) / (1 + draws)       otherwise
/// ```
///
/// Valid at any P where differences are symmetric about a mean of at most 0; to test for a mean above a margin, subtract
/// the margin first. A row without a difference has p = 1. Shapes: differences `[T]`, offsets `[B + 1]`, result `[B]`.
/// Cost: `2^(P/2)` a row, or `draws P`.
/// Reference: Fisher 1935, The Design of Experiments, section 21; Phipson & Smyth 2010 (the 1 in both parts).
///
/// # Errors
/// [`Error::NotFinite`](crate::Error::NotFinite) for a difference that is;
/// [`Error::Positive`](crate::Error::Positive) for no draw.
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
        if row.len() <= EXACT_MOST { share(row) } else { drawn_share(row, draws, seed, inner) }
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
/// Shapes: differences `[P]`, weights `[P]`. Cost: 60 tests for P <= 40, else one pass over the draws and a selection.
/// Reference: Hartigan 1969 (typical values: limits are order statistics of subset means).
///
/// # Errors
/// [`Error::NotFinite`](crate::Error::NotFinite); [`Error::Length`](crate::Error::Length); [`Error::Outside`](crate::Error::Outside)
/// for a weight of 0 or less; [`Error::Fraction`](crate::Error::Fraction) for an alpha outside (0, 1];
/// [`Error::Positive`](crate::Error::Positive) for no draw.
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
        return Ok(drawn_limit(differences, weights, alpha, draws, seed, threads));
    }
    Ok(exact_limit(differences, weights, alpha))
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
fn share(differences: &[f64]) -> f64 {
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

/// Return the limit of few differences, by halving: p rises with the mean that is subtracted.
fn exact_limit(differences: &[f64], weights: &[f64], alpha: f64) -> f64 {
    let ratios = || differences.iter().zip(weights).map(|(one, weight)| one / weight);
    let (least, most) = (ratios().fold(f64::INFINITY, f64::min), ratios().fold(f64::NEG_INFINITY, f64::max));
    let rejected = |mean: f64| {
        let shifted: Vec<f64> =
            differences.iter().zip(weights).map(|(one, weight)| mean.mul_add(-weight, *one)).collect();
        share(&shifted) <= alpha
    };
    // Below every difference the empty subset alone counts.
    let mut low = least - (most - least).abs().max(least.abs()).max(f64::MIN_POSITIVE) * 1e-9;
    let mut high = most;
    if differences.is_empty() || !rejected(low) {
        return f64::NEG_INFINITY;
    }
    for _ in 0..HALVINGS {
        let middle = low + (high - low) / 2.0;
        if rejected(middle) { low = middle } else { high = middle }
    }
    low
}

fn drawn_share(differences: &[f64], draws: usize, seed: u64, threads: usize) -> f64 {
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
fn drawn_limit(
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
