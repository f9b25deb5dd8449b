//! Arguments of a selection: the columns of a log, and the choices of the draw.

use crate::advantage::Score;
use crate::filter::Rules;
use crate::group::{Groups, Scopes};
use crate::reward::AsymmetricScale;
use crate::rng::keys::Keys;
use crate::sample::Sampler;
use crate::target::Temperature;

/// The columns of a log, one element a row, rows in the canonical order of their ids.
#[derive(Clone, Copy, Debug)]
pub struct Population<'a> {
    /// The key of each record for random numbers. `[B]`
    pub keys: &'a Keys,
    /// NaN where the reward is missing. `[B]`
    pub rewards: &'a [f64],
    /// The prompt each row is a rollout of.
    pub groups: &'a Groups<'a>,
    /// Scopes that are normalised together. A row without a scope is dropped as [`Verdict::MissingGroup`](crate::filter::Verdict::MissingGroup).
    pub scopes: Scopes<'a>,
    /// The content of each row, for [`Rules::dedup`]. `[B]`
    pub fingerprints: Option<&'a [u128]>,
    /// A hash of each record's bytes. [`Sampler::WeightedReservoir`] tells records of one id apart by it, for their ranks
    /// are not known in one pass; other samplers do not look at it. `[B]`
    pub digests: Option<&'a [u64]>,
}

/// The choices of a draw: one point on each axis, and the seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelectionSettings {
    /// Shaping of a reward before it is scored; None to score it unchanged.
    pub shaping: Option<AsymmetricScale>,
    /// Score that is tempered.
    pub score: Score,
    /// Rules for the rows that may be drawn.
    pub rules: Rules,
    /// Temperature of the target.
    pub temperature: Temperature,
    /// Law of the draw.
    pub sampler: Sampler,
    /// Seed of the draw.
    pub seed: u64,
    /// Number of threads; it changes only the time.
    pub threads: usize,
}
