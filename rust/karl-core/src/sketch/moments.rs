//! Count, mean, variance and range of numbers that come in any order, in parts.
//!
//! Not by Welford's updates and Chan's merge: their last bits belong to the order. Sums of numbers and of their squares are exact here, and the variance is taken from them without rounding.

use std::collections::BTreeMap;

use super::codec::{Reader, SketchKind, Writer};
use crate::check::{check_most, check_not_infinite};
use crate::error::Result;
use crate::numeric::exact::Total;

/// Beyond this size a square overflows.
const LARGEST: f64 = 1e150;

/// So many numbers can be summed without overflow.
const MOST: usize = 1 << 41;

/// A term in a bin is below 2^84, and a square is two terms.
const TERM: u32 = 85;

/// Count, mean, spread and range of numbers in any order: the same bits, for the sums are exact.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    /// Numbers that are not missing.
    pub count: u64,
    /// The smallest; NaN where there is none.
    pub min: f64,
    /// The largest; NaN where there is none.
    pub max: f64,
    sum: Total,
    squares: Total,
}

impl Default for Moments {
    fn default() -> Self {
        let (sum, squares) = Default::default();
        Self { count: 0, min: f64::NAN, max: f64::NAN, sum, squares }
    }
}

impl Moments {
    /// Take one number in, which has to be finite; NaN is missing.
    pub fn push(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        self.count += 1;
        self.min = value.min(self.min);
        self.max = value.max(self.max);
        self.sum.push(value);
        if value.abs() < LARGEST {
            self.squares.push_product(value, value);
        }
    }

    /// Return the mean; NaN for none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum.value() / self.count as f64
    }

    /// Take a column in; NaN is missing. On error nothing is taken.
    ///
    /// # Errors
    /// [`Error::NotFinite`](crate::Error::NotFinite) for an infinite number; [`Error::Most`](crate::Error::Most) for more than 2^41 numbers in all.
    pub fn update(&mut self, values: &[f64]) -> Result<()> {
        check_not_infinite("value", values)?;
        check_most("count of numbers", self.count_with(values.len() as u64), MOST)?;
        for &value in values {
            self.push(value);
        }
        Ok(())
    }

    /// Take in what another state has seen: the same bits as if this one had seen it. On error nothing is taken.
    ///
    /// # Errors
    /// [`Error::Most`](crate::Error::Most) for more than 2^41 numbers in all.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        check_most("count of numbers", self.count_with(other.count), MOST)?;
        self.count += other.count;
        self.min = other.min.min(self.min);
        self.max = other.max.max(self.max);
        self.sum.merge(&other.sum);
        self.squares.merge(&other.squares);
        Ok(())
    }

    fn count_with(&self, more: u64) -> usize {
        usize::try_from(self.count.saturating_add(more)).unwrap_or(usize::MAX)
    }

    /// Return the standard deviation, ddof 0; NaN for none, infinite where squares overflow.
    #[must_use]
    pub fn std(&self) -> f64 {
        self.variance(0).sqrt()
    }

    /// Return the variance; NaN where there are no more than `ddof` numbers, infinite where squares overflow.
    ///
    /// ```text
    /// sum (x - m)^2 / (n - ddof),   sum (x - m)^2 = sum x^2 - 2 m sum x + n m^2    without rounding, m the rounded mean
    /// ```
    #[must_use]
    pub fn variance(&self, ddof: u8) -> f64 {
        if self.count <= u64::from(ddof) {
            return f64::NAN;
        }
        if self.max >= LARGEST || self.min <= -LARGEST {
            return f64::INFINITY;
        }
        let (mean, count) = (self.mean(), self.count as f64);
        let mut squares = self.squares.clone();
        for term in self.sum.terms() {
            squares.push_product(-2.0 * mean, term);
        }
        let square = mean * mean;
        for part in [square, libm::fma(mean, mean, -square)] {
            squares.push_product(count, part);
        }
        squares.value().max(0.0) / (count - f64::from(ddof))
    }

    /// Return the state as bytes: the same for the same numbers in any order.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Writer::new(SketchKind::Moments);
        bytes.number(self.count);
        bytes.float(self.min);
        bytes.float(self.max);
        for total in [&self.sum, &self.squares] {
            bytes.number(total.bins().len() as u64);
            for (&bin, &sum) in total.bins() {
                bytes.number(i64::from(bin).cast_unsigned());
                bytes.wide(sum.cast_unsigned());
            }
        }
        bytes.finish()
    }

    /// Return the state of bytes.
    ///
    /// # Errors
    /// [`Error::Bytes`](crate::Error::Bytes) for bytes that no state was written as.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut bytes = Reader::open(SketchKind::Moments, bytes)?;
        let (count, min, max) = (bytes.number()?, bytes.float()?, bytes.float()?);
        let empty = count == 0 && min.is_nan() && max.is_nan();
        let filled = count > 0 && count <= MOST as u64 && min <= max && min.is_finite() && max.is_finite();
        bytes.require(empty || filled, "its count and range do not go together")?;
        let (sum, squares) = (total(&mut bytes, count)?, total(&mut bytes, count)?);
        bytes.end()?;
        Ok(Self { count, min, max, sum, squares })
    }
}

/// Return an exact sum of `count` numbers or of their squares, which are two terms each.
fn total(bytes: &mut Reader<'_>, count: u64) -> Result<Total> {
    let mut bins = BTreeMap::new();
    for _ in 0..bytes.number()? {
        let (bin, sum) = (bytes.number()?.cast_signed(), bytes.wide()?.cast_signed());
        let fits = sum.unsigned_abs() <= u128::from(count) << TERM;
        let bin = i32::try_from(bin).ok().filter(|bin| fits && Total::BINS.contains(bin));
        let bin = bin.filter(|bin| bins.last_key_value().is_none_or(|(last, _)| last < bin));
        bytes.require(bin.is_some(), "a sum is out of range")?;
        bins.extend(bin.map(|bin| (bin, sum)));
    }
    Ok(Total::of_bins(bins))
}
