//! Several rewards, each normalised by itself before they are added.

use super::engine::score;
use super::engine::stats::GlobalStats;
use super::zscore::ZScore;
use crate::check::{check_not_negative, check_number};
use crate::error::{Error, Result};
use crate::group::Layout;
use crate::numeric::Real;
use crate::numeric::parallel;

/// Group-decoupled advantage of several rewards, one column after the other.
///
/// ```text
/// z_id = (r_id - mean_gd) / (std_gd + eps),    s_i = sum_d weight_d z_id
/// A_i  = s_i / (std + eps)                     (left out by [`sum`](Self::sum))
/// ```
///
/// Each reward is normalised in its group by itself, so that one of large scale does not drown the others; then the
/// weighted sum is normalised over the batch. Its mean there is 0, as that of each reward is in each group, so none is taken
/// off: a group in which every reward is equal keeps advantage exactly 0. A missing reward is left out of its row's sum, and a row that has none at all
/// is missing. A reward that is equal throughout a group adds exactly 0 there.
/// Shapes: D columns `[B]`, result `[B]`. Cost: linear in each. Reference: GDPO 2026 (arXiv:2601.05242).
#[derive(Debug)]
pub struct Gdpo<'a> {
    layout: Layout<'a>,
    ddof: u8,
    eps: f64,
    sums: Vec<f64>,
    threads: usize,
}

impl<'a> Gdpo<'a> {
    /// No reward yet.
    ///
    /// # Errors
    /// [`Error::Negative`] for a negative `eps`.
    pub fn new(groups: impl Into<Layout<'a>>, ddof: u8, eps: f64, threads: usize) -> Result<Self> {
        check_not_negative("eps", eps)?;
        let layout = groups.into();
        Ok(Self { layout, ddof, eps, sums: vec![f64::NAN; layout.rows()], threads })
    }

    /// Add a reward and its weight.
    ///
    /// # Errors
    /// As [`zscore`](super::zscore()); [`Error::Number`] for a weight that is not finite.
    pub fn add<R: Real>(&mut self, rewards: &[R], weight: f64) -> Result<()> {
        check_number("weight", weight)?;
        let how = ZScore { ddof: self.ddof, eps: self.eps };
        let scores = score(rewards, self.layout, &how, self.threads)?;
        for (sum, score) in self.sums.iter_mut().zip(scores).filter(|(_, score)| !score.is_nan()) {
            *sum = if sum.is_nan() { weight * score } else { *sum + weight * score };
        }
        Ok(())
    }

    /// Return the weighted sums as they are. `[B]`
    #[must_use]
    pub fn sum(self) -> Vec<f64> {
        self.sums
    }

    /// Return the weighted sums, normalised over the batch. `[B]`
    ///
    /// # Errors
    /// [`Error::NotFinite`] for an advantage beyond f64, or a batch of at most `ddof` rows that differ.
    pub fn normalised(mut self) -> Result<Vec<f64>> {
        let whole = GlobalStats::of(&self.sums, |_| 1.0, self.threads);
        let divisor = whole.deviation(self.ddof) + self.eps;
        parallel::fill(&mut self.sums, self.threads, |_, block| {
            for sum in block.iter_mut().filter(|sum| !sum.is_nan()) {
                *sum = if whole.is_constant() { 0.0 } else { *sum / divisor };
            }
        });
        match self.sums.iter().position(|sum| sum.is_infinite()) {
            Some(index) => Err(Error::NotFinite { what: "advantage", index, value: self.sums[index] }),
            None => Ok(self.sums),
        }
    }
}
