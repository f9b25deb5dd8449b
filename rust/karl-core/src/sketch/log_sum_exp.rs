//! A partition that is taken in parts.

use crate::check::{check_logs, check_most};
use crate::error::Result;
use crate::numeric::Real;
use crate::numeric::exact::LogSum;
use crate::numeric::parallel::{ALONE, in_parts};
use crate::sketch::codec::{Reader, SketchKind, Writer};

/// `log sum exp(x)` and the number of terms, of a stream: the same bits for any order, any cut into parts and any tree of
/// merges, for the sum is exact ([`LogSum`]).
///
/// ```
/// use karl_core::sketch::LogSumExp;
/// let (mut one, mut other) = (LogSumExp::default(), LogSumExp::default());
/// one.update(&[0.0, 1.0], 1)?;
/// other.update(&[2.0], 1)?;
/// one.merge(&other)?;
/// assert!((one.log_sum_exp() - 2.407_605_964_444_38).abs() < 1e-14);
/// assert_eq!(LogSumExp::from_bytes(&one.to_bytes()), Ok(one));
/// # Ok::<(), karl_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSumExp {
    sum: LogSum,
    count: u64,
}

/// More values than this could be more than a bin holds.
const MOST: usize = 1 << 43;

impl LogSumExp {
    /// Take values in. Cost: one exponential a value.
    ///
    /// # Errors
    /// [`Error::NotFinite`](crate::Error::NotFinite) for a NaN or plus infinity, [`Error::Most`](crate::Error::Most) for more
    /// than 2^43 values in all; nothing is then taken in.
    pub fn update<T: Real>(&mut self, values: &[T], threads: usize) -> Result<()> {
        check_logs("value", values)?;
        let count = self.count_with(values.len() as u64)?;
        let parts = in_parts(values.len(), if values.len() < ALONE { 1 } else { threads }, |part| {
            let mut sum = LogSum::default();
            values[part].iter().for_each(|value| sum.push(value.widen()));
            sum
        });
        for part in &parts {
            self.sum.merge(part);
        }
        self.count = count;
        Ok(())
    }

    /// Take in what another state has seen.
    ///
    /// # Errors
    /// [`Error::Most`](crate::Error::Most) for more than 2^43 values together.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.count = self.count_with(other.count)?;
        self.sum.merge(&other.sum);
        Ok(())
    }

    fn count_with(&self, more: u64) -> Result<u64> {
        let count = self.count.saturating_add(more);
        check_most("count of values", usize::try_from(count).unwrap_or(usize::MAX), MOST)?;
        Ok(count)
    }

    /// Return the number of values, zero weights among them.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// `log sum exp(x)`; minus infinity when nothing was seen.
    #[must_use]
    pub fn log_sum_exp(&self) -> f64 {
        self.sum.value()
    }

    /// `log mean exp(x)`; NaN when nothing was seen, for nothing has no mean.
    #[must_use]
    pub fn log_mean_exp(&self) -> f64 {
        if self.count == 0 { f64::NAN } else { self.log_sum_exp() - libm::log(self.count as f64) }
    }

    /// Return the state as bytes: the same for the same values in any order.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Writer::new(SketchKind::LogSum);
        bytes.number(self.count);
        for (bin, sum) in self.sum.bins() {
            bytes.number(bin.cast_unsigned());
            bytes.wide(sum);
        }
        bytes.finish()
    }

    /// Return the state that was written as these bytes.
    ///
    /// # Errors
    /// [`Error::Bytes`](crate::Error::Bytes) for any others.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut bytes = Reader::open(SketchKind::LogSum, bytes)?;
        let count = bytes.number()?;
        bytes.require(count <= MOST as u64, "a count is too large")?;
        let mut bins = Vec::new();
        while !bytes.is_empty() {
            bins.push((bytes.number()?.cast_signed(), bytes.wide()?));
        }
        let sum = LogSum::from_bins(&bins, count);
        bytes.require(sum.is_some(), "no sum has such bins")?;
        Ok(Self { sum: sum.unwrap_or_default(), count })
    }
}
