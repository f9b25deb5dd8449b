//! Log partitions: the logarithm of a sum of exponentials, whole, by row of a ragged column, by group, and in parts.
//!
//! | sums | of | file |
//! |---|---|---|
//! | [`log_sum_exp`], [`log_mean_exp`], [`ess`] | a column | here |
//! | [`log_sum_exp_rows`] | each row of a ragged column | `groups` |
//! | [`log_sum_exp_by`] | each group, in any order | `groups` |
//! | [`sketch::LogSumExp`](crate::sketch::LogSumExp) | a stream, and streams that were merged | `sketch` |
//!
//! A column is read once. Each block of it is summed side by side, relative to the largest of its first values, and once
//! more where a value far above them turns up; blocks are added in their order, so that the bits depend neither on threads
//! nor on the machine.

mod groups;
mod soft_value;

pub use groups::{log_sum_exp_by, log_sum_exp_rows};
pub use soft_value::{regression_intercept, soft_value};

use crate::check::check_logs;
use crate::error::{Error, Result};
use crate::numeric::Real;
use crate::numeric::exp::{exp, exp_below, ln};
use crate::numeric::parallel;
use crate::numeric::simd::{Kernel, LANES, SIDE, fold_side, wide};
use crate::numeric::sum::Compensated;

/// `log(sum_i exp(x_i))`; minus infinity for none. Minus infinity among the values, the logarithm of zero, adds nothing.
///
/// Shapes: `[B]`. Cost: one pass, one exponential a value.
///
/// ```
/// let found = karl_core::logsumexp::log_sum_exp(&[1000.0, 1000.0], 1)?;
/// assert!((found - 1000.0 - 2f64.ln()).abs() < 1e-12);
/// # Ok::<(), karl_core::Error>(())
/// ```
///
/// # Errors
/// [`Error::NotFinite`] for a NaN or plus infinity.
pub fn log_sum_exp<T: Real>(values: &[T], threads: usize) -> Result<f64> {
    let PowerSums { top, powers: [sum] } = sum_powers("log_sum_exp value", values, threads)?;
    Ok(top + ln(sum))
}

/// `log((1/n) sum_i exp(x_i))`: the log of a mean, which is what a soft value needs.
///
/// # Errors
/// [`Error::NotFinite`] for a NaN or plus infinity; [`Error::Length`] for no values, which have no mean.
pub fn log_mean_exp<T: Real>(values: &[T], threads: usize) -> Result<f64> {
    if values.is_empty() {
        return Err(Error::Length { what: "log_mean_exp values", got: 0, wanted: 1 });
    }
    let PowerSums { top, powers: [sum] } = sum_powers("log_mean_exp value", values, threads)?;
    Ok(top + ln(sum / values.len() as f64))
}

/// Effective sample size of weights given by their logs, in rows.
///
/// ```text
/// ess = (sum w)^2 / sum w^2,   w_i = exp(l_i - max l)
/// ```
///
/// It lies between 1 (one row has everything) and n (all weights equal), does not change when a constant is
/// added to every log weight, and is 0 where no row has any weight. Cost: one pass, one exponential a value.
/// Reference: Kish 1965.
///
/// # Errors
/// [`Error::NotFinite`] for a NaN or plus infinity.
pub fn ess<T: Real>(log_weights: &[T], threads: usize) -> Result<f64> {
    let PowerSums { powers: [first, second], .. } = sum_powers("log_weights", log_weights, threads)?;
    Ok(if first > 0.0 { first * first / second } else { 0.0 })
}

/// Values that are exponentiated together, so that they stay in the nearest cache.
pub(crate) const ROOM: usize = 1024;

/// Sums over some values of the powers `1..=M` of `exp(x - top)`.
#[derive(Clone, Copy)]
struct PowerSums<const M: usize> {
    /// The largest value; minus infinity where none is larger.
    top: f64,
    powers: [f64; M],
}

fn sum_powers<T: Real, const M: usize>(
    what: &'static str,
    values: &[T],
    threads: usize,
) -> Result<PowerSums<M>> {
    let sums = join(&parallel::map(values.len(), threads, |block| wide(ValueBlock(&values[block]))));
    // A value that is not the logarithm of a weight has made the sum NaN.
    if sums.powers[0].is_nan() {
        check_logs(what, values)?;
    }
    Ok(sums)
}

/// Sums over the values of several blocks, in the order of the blocks.
fn join<const M: usize>(parts: &[PowerSums<M>]) -> PowerSums<M> {
    let top = parts.iter().fold(f64::NEG_INFINITY, |top, part| top.max(part.top));
    let mut powers = [Compensated::default(); M];
    for part in parts {
        let (factor, mut power) = (exp(part.top - anchor(top)), 1.0);
        for (total, sum) in powers.iter_mut().zip(part.powers) {
            power *= factor;
            total.add(power * sum);
        }
    }
    PowerSums { top, powers: powers.map(Compensated::value) }
}

/// Return the reference of the exponents: the top, or any number where all weights are zero.
#[inline(always)]
fn anchor(top: f64) -> f64 {
    if top == f64::NEG_INFINITY { 0.0 } else { top }
}

/// The values of a block.
struct ValueBlock<'a, T, const M: usize>(&'a [T]);

/// Largest excess of a value over the reference, such that no sum of squares of weights is infinite.
const REACH: f64 = 300.0;

impl<T: Real, const M: usize> Kernel for ValueBlock<'_, T, M> {
    type Output = PowerSums<M>;

    #[inline(always)]
    fn run(self) -> PowerSums<M> {
        // The largest of a few is near the largest of all as a rule, and found without reading all of them before.
        let mut from = top(&self.0[..self.0.len().min(SIDE)]);
        loop {
            let sums = PowerLanes::all(anchor(from), self.0).sums();
            // Minus infinity less minus infinity is no more than anything.
            if sums.top - from > REACH {
                from = sums.top;
            } else {
                return sums;
            }
        }
    }
}

/// Sums of weights `exp(x - from)` side by side, each in the lane of its place, and the largest values met.
struct PowerLanes<const M: usize> {
    from: f64,
    tops: [f64; LANES],
    powers: [Lanes; M],
}

/// Aligned, so that no vector of them lies across two lines of the cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Lanes([f64; SIDE]);

impl<const M: usize> PowerLanes<M> {
    #[inline(always)]
    fn all<T: Real>(from: f64, values: &[T]) -> Self {
        let mut beside = Self { from, tops: [f64::NEG_INFINITY; LANES], powers: [Lanes([0.0; SIDE]); M] };
        let (chunks, rest) = values.as_chunks();
        for chunk in chunks {
            beside.add(chunk);
        }
        if !rest.is_empty() {
            let mut chunk = [T::narrow(f64::NEG_INFINITY); SIDE];
            chunk[..rest.len()].copy_from_slice(rest);
            beside.add(&chunk);
        }
        beside
    }

    #[allow(clippy::needless_range_loop, reason = "a loop over lanes, which becomes vectors")]
    #[inline(always)]
    fn add<T: Real>(&mut self, values: &[T; SIDE]) {
        for lane in 0..SIDE {
            let weight = exp_below(values[lane].widen() - self.from);
            let mut power = 1.0;
            for lanes in &mut self.powers {
                power *= weight;
                lanes.0[lane] += power;
            }
        }
        // Apart from the weights, so that the largest stay in a register.
        for values in values.as_chunks::<LANES>().0 {
            for lane in 0..LANES {
                self.tops[lane] = larger(self.tops[lane], values[lane].widen());
            }
        }
    }

    /// Return the sums relative to the largest value.
    #[inline(always)]
    fn sums(self) -> PowerSums<M> {
        let top = top(&self.tops);
        let factor = exp_below(self.from - anchor(top));
        let (mut powers, mut power) = ([0.0; M], 1.0);
        for (sum, lanes) in powers.iter_mut().zip(&self.powers) {
            power *= factor;
            *sum = power * fold_side(&lanes.0);
        }
        PowerSums { top, powers }
    }
}

/// Return the largest value, NaN left out; minus infinity for none.
#[inline(always)]
fn top<T: Real>(values: &[T]) -> f64 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut tops = [f64::NEG_INFINITY; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            tops[lane] = larger(tops[lane], chunk[lane].widen());
        }
    }
    for (lane, value) in rest.iter().enumerate() {
        tops[lane] = larger(tops[lane], value.widen());
    }
    let mut top = tops[0];
    for &other in &tops[1..] {
        top = larger(top, other);
    }
    top
}

/// Return the larger of two, and the first where the second is NaN.
#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if b > a { b } else { a }
}
