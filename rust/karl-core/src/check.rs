//! Checks of arguments: each error names the argument, the value and the expected value.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::numeric::Real;
use crate::numeric::parallel::{self, BLOCK};

/// Check the length of an argument.
///
/// # Errors
/// [`Error::Length`].
pub fn check_length(what: &'static str, got: usize, wanted: usize) -> Result<()> {
    if got == wanted { Ok(()) } else { Err(Error::Length { what, got, wanted }) }
}

/// Reject infinite numbers; NaN passes, because it says "missing".
///
/// # Errors
/// [`Error::NotFinite`].
pub fn check_not_infinite<T: Real>(what: &'static str, values: &[T]) -> Result<()> {
    check_each(what, values, |value| !value.is_infinite())
}

/// The same of a long column, by several threads.
pub(crate) fn check_none_infinite(what: &'static str, values: &[f64], threads: usize) -> Result<()> {
    let fine = |rows: Range<usize>| check_not_infinite(what, &values[rows]).is_ok();
    if parallel::map(values.len(), threads, fine).into_iter().all(|fine| fine) {
        return Ok(());
    }
    check_not_infinite(what, values)
}

/// Reject NaN and plus infinity; minus infinity passes, because it is the logarithm of zero.
pub(crate) fn check_logs<T: Real>(what: &'static str, values: &[T]) -> Result<()> {
    check_each(what, values, |value| value < f64::INFINITY)
}

/// Reject weights that are negative, NaN or infinite.
pub(crate) fn check_weights(weights: &[f64]) -> Result<()> {
    match weights.iter().position(|&weight| !(0.0..f64::INFINITY).contains(&weight)) {
        Some(index) => Err(Error::Weight { index, value: weights[index] }),
        None => Ok(()),
    }
}

/// Reject weights that add up to more than an f64 holds, from what has been seen on.
pub(crate) fn check_total(seen: f64, weights: &[f64]) -> Result<()> {
    let mut total = seen;
    for (index, weight) in weights.iter().enumerate() {
        total += weight;
        if total.is_infinite() {
            return Err(Error::NotFinite { what: "total of weights", index, value: total });
        }
    }
    Ok(())
}

/// Reject everything but finite numbers.
pub(crate) fn check_finite<T: Real>(what: &'static str, values: &[T]) -> Result<()> {
    check_each(what, values, f64::is_finite)
}

/// Check that the values at the positions of a mask are finite, all without one. Others are not read.
pub(crate) fn check_finite_where<T: Real>(
    what: &'static str,
    values: &[T],
    mask: Option<&[bool]>,
) -> Result<()> {
    let Some(mask) = mask else { return check_finite(what, values) };
    let odd = |(value, &keep): (&T, &bool)| keep & !value.widen().is_finite();
    match values.iter().zip(mask).position(odd) {
        Some(index) => Err(Error::NotFinite { what, index, value: values[index].widen() }),
        None => Ok(()),
    }
}

fn check_each<T: Real>(what: &'static str, values: &[T], fine: impl Fn(f64) -> bool) -> Result<()> {
    // Without a way out in the middle a block is checked by whole vectors.
    let all = |block: &[T]| block.iter().fold(true, |so_far, value| so_far & fine(value.widen()));
    if values.chunks(BLOCK).all(all) {
        return Ok(());
    }
    match values.iter().position(|&value| !fine(value.widen())) {
        Some(index) => Err(Error::NotFinite { what, index, value: values[index].widen() }),
        None => Ok(()),
    }
}

/// Reject negative numbers and NaN: written as "not at least zero", which is not "less than zero" for a NaN.
pub(crate) fn check_not_negative(what: &'static str, value: f64) -> Result<()> {
    if value >= 0.0 { Ok(()) } else { Err(Error::Negative { what, value }) }
}

/// Reject a single number that is not finite.
pub(crate) fn check_number(what: &'static str, value: f64) -> Result<()> {
    if value.is_finite() { Ok(()) } else { Err(Error::Number { what, value }) }
}

/// Reject everything but finite numbers above zero.
pub(crate) fn check_positive(what: &'static str, value: f64) -> Result<()> {
    if value > 0.0 && value < f64::INFINITY { Ok(()) } else { Err(Error::Positive { what, value }) }
}

/// Reject numbers outside a closed range, and NaN.
pub(crate) fn check_range(what: &'static str, value: f64, low: f64, high: f64) -> Result<()> {
    if value >= low && value <= high { Ok(()) } else { Err(Error::Range { what, value, low, high }) }
}

/// Reject a column with a number outside a closed range; NaN passes, because it says "missing".
pub(crate) fn check_within<T: Real>(what: &'static str, values: &[T], low: f64, high: f64) -> Result<()> {
    let outside = |value: T| value.widen() < low || value.widen() > high;
    match values.iter().position(|&value| outside(value)) {
        Some(index) => Err(Error::Outside { what, index, value: values[index].widen(), low, high }),
        None => Ok(()),
    }
}

/// Reject a column with a negative count.
pub(crate) fn check_counts(what: &'static str, counts: &[i64]) -> Result<()> {
    // The bits of all together have the sign of the least, and cost one instruction a vector.
    if counts.iter().fold(0, |bits, count| bits | count) >= 0 {
        return Ok(());
    }
    match counts.iter().position(|&count| count < 0) {
        Some(index) => {
            let (low, high) = (0.0, f64::INFINITY);
            Err(Error::Outside { what, index, value: counts[index] as f64, low, high })
        }
        None => Ok(()),
    }
}

/// Reject a column with a count that is negative, or more than the one it is a part of.
pub(crate) fn check_parts(what: &'static str, parts: &[i64], counts: &[i64]) -> Result<()> {
    match parts.iter().zip(counts).position(|(part, count)| !(0..=*count).contains(part)) {
        Some(index) => {
            let (value, high) = (parts[index] as f64, counts[index] as f64);
            Err(Error::Outside { what, index, value, low: 0.0, high })
        }
        None => Ok(()),
    }
}

/// Reject a count above what it counts.
pub(crate) fn check_most(what: &'static str, got: usize, most: usize) -> Result<()> {
    if got <= most { Ok(()) } else { Err(Error::Most { what, got, most }) }
}
