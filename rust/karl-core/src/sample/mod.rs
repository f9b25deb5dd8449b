//! Which rows are drawn: weights in, rows out.
//!
//! | point | law | file |
//! |---|---|---|
//! | [`Sampler::Gumbel`] | k of n without replacement, Plackett-Luce | [`gumbel`] |
//! | [`Sampler::WeightedReservoir`] | the same, and its keys need no sum over the log | [`reservoir`] |
//! | [`Sampler::Reservoir`] | k of n without replacement, all alike | [`reservoir`] |
//! | [`Sampler::Systematic`] | k with replacement, copies within one of `k p` | [`Copies`] |
//! | [`Sampler::Multinomial`] | k with replacement, independent | [`Copies`] |
//! | [`Sampler::All`] | every row that has a weight, in row order | [`reservoir`] |
//!
//! The samplers without replacement give each row a key, and the draw is the rows by descending key: the first k of a
//! [`Ranking`] are the draw of k, so a row that fails later is replaced by the next without a second draw. Those with
//! replacement throw points on the cumulative weights ([`Copies`]).
//!
//! Beside them stand the one-pass algorithms for arrays and iterators without ids: [`algorithm_l`], [`a_expj`]; many draws
//! by one table: [`Alias`]; and samples from which totals are estimated: [`priority`], [`var_opt`] with the [`pps`] threshold.
//! [`inclusion`] has the probabilities of a draw without replacement.

pub mod a_expj;
pub mod algorithm_l;
mod alias;
pub mod gumbel;
pub mod inclusion;
pub mod pps;
pub mod priority;
pub mod reservoir;
pub mod strata;
mod threshold_scan;
mod top_k;
pub mod var_opt;
mod with_replacement;

pub use alias::Alias;
pub use top_k::{Keyed, Ranked, Ranking, cap_per_group};
pub use var_opt::VarOpt;
pub use with_replacement::{Copies, Copy};

use std::ops::Range;

use crate::check::check_length;
use crate::error::{Error, Result};
use crate::rng::Key;
use crate::rng::keys::Keys;
use crate::rng::xxh3::Hashes;
use crate::target::{Boltzmann, Rows};

/// Rows from which the total weight of any set of rows can be estimated: by the sum of the estimates of those drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimated {
    /// The rows drawn. `[k]`
    pub rows: Vec<u32>,
    /// Rows of this weight and more were drawn for certain; 0 where all were.
    pub threshold: f64,
    /// What each row drawn counts for: the larger of its weight and the threshold. `[k]`
    pub estimates: Vec<f64>,
}

/// The axis: by which law rows are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampler {
    /// Without replacement, in proportion to the weights of what is left.
    Gumbel,
    /// The law of [`Sampler::Gumbel`], by keys that know of one row alone, for streams.
    WeightedReservoir,
    /// Without replacement, all alike: weights are not looked at.
    Reservoir,
    /// With replacement, by k evenly spaced points: the copies of a row are its share rounded up or down.
    Systematic,
    /// With replacement, by k independent points.
    Multinomial,
    /// Every row that has a weight, in row order; its log weight goes with it.
    All,
}

impl Sampler {
    /// All samplers.
    pub const ALL: [Self; 6] = [
        Self::Gumbel,
        Self::WeightedReservoir,
        Self::Reservoir,
        Self::Systematic,
        Self::Multinomial,
        Self::All,
    ];

    /// The name the command line and the manifest use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gumbel => "gumbel",
            Self::WeightedReservoir => "weighted-reservoir",
            Self::Reservoir => "reservoir",
            Self::Systematic => "systematic",
            Self::Multinomial => "multinomial",
            Self::All => "all",
        }
    }

    /// The sampler of a name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sampler| sampler.name() == name)
    }

    /// Whether a row can be drawn more than once.
    #[must_use]
    pub const fn replaces(self) -> bool {
        matches!(self, Self::Systematic | Self::Multinomial)
    }
}

/// Rows, how much each weighs, and what its randomness is keyed by: what a sampler sees.
#[derive(Clone, Copy, Debug)]
pub struct Weighted<'a> {
    weights: Weights<'a>,
    keys: &'a Keys,
    digests: Option<&'a [u64]>,
}

#[derive(Clone, Copy, Debug)]
enum Weights<'a> {
    Target(Rows<'a>, &'a Boltzmann),
    Logs(&'a [f64]),
}

impl<'a> Weighted<'a> {
    /// Rows weighted by a target.
    ///
    /// # Errors
    /// [`Error::Length`] where rows and keys differ in number.
    pub fn by_target(rows: Rows<'a>, target: &'a Boltzmann, keys: &'a Keys) -> Result<Self> {
        check_length("keys", keys.len(), rows.len())?;
        Ok(Self { weights: Weights::Target(rows, target), keys, digests: None })
    }

    /// Rows with their log weights, to which any constant may be added; minus infinity is never drawn.
    ///
    /// # Errors
    /// [`Error::Length`] where log weights and keys differ in rows; [`Error::NotFinite`] for a log weight that is NaN or
    /// plus infinity.
    pub fn by_logs(logs: &'a [f64], keys: &'a Keys) -> Result<Self> {
        check_length("keys", keys.len(), logs.len())?;
        crate::check::check_logs("log_weights", logs)?;
        Ok(Self { weights: Weights::Logs(logs), keys, digests: None })
    }

    /// The same rows told apart by what they hold and not by their rank: the ordinal of a key is a hash of the record's
    /// bytes. Records equal in id and bytes then share one number, and are drawn one right after the other.
    ///
    /// # Errors
    /// [`Error::Length`] where rows and digests differ in number.
    pub fn by_digest(self, digests: &'a [u64]) -> Result<Self> {
        check_length("digests", digests.len(), self.len())?;
        Ok(Self { digests: Some(digests), ..self })
    }

    /// What a row is to the random numbers.
    fn key(&self, row: usize) -> Key {
        let key = self.keys.get(row);
        self.digests.map_or(key, |digests| Key { ordinal: digests[row], ..key })
    }

    /// The hashes of a run of rows, which has to be as long as `out`.
    #[inline(always)]
    fn hash(&self, rows: Range<usize>, hashes: &Hashes, out: &mut [u64]) {
        match self.digests {
            None => self.keys.hash(rows, hashes, out),
            Some(_) => out.iter_mut().zip(rows).for_each(|(hash, row)| *hash = hashes.of(self.key(row))),
        }
    }

    /// The log weights of a run of rows, or those before any sum over the log is taken from them: where they lie, or in
    /// `room`, which is as long.
    #[inline(always)]
    fn logs<'b>(&'b self, rows: Range<usize>, own: bool, room: &'b mut [f64]) -> &'b [f64] {
        match self.weights {
            Weights::Logs(logs) => return &logs[rows],
            Weights::Target(..) if own => {
                room.iter_mut().zip(rows).for_each(|(log, row)| *log = self.own_log(row));
            }
            Weights::Target(of, target) => target.log_weights(&of, rows.start, room),
        }
        room
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The log weight of a row.
    #[must_use]
    pub fn log(&self, row: usize) -> f64 {
        match self.weights {
            Weights::Target(rows, target) => target.log_weight(&rows, row),
            Weights::Logs(logs) => logs[row],
        }
    }

    /// The log weight before any sum over the log is taken from it.
    fn own_log(&self, row: usize) -> f64 {
        match self.weights {
            Weights::Target(rows, target) => {
                let score = rows.score(row);
                if score.is_nan() { f64::NEG_INFINITY } else { target.inverse_temperature * score }
            }
            Weights::Logs(logs) => logs[row],
        }
    }

    /// The rows in the order in which a sampler without replacement draws them.
    ///
    /// # Errors
    /// [`Error::Replacement`] for a sampler with replacement, which has no such order; [`Error::Length`] for more rows
    /// than a `u32` can count.
    pub fn ranking(self, sampler: Sampler, seed: u64, threads: usize) -> Result<Ranking<'a>> {
        match sampler {
            Sampler::Gumbel => Ranking::of(gumbel::Waiting::new(self, seed, false), threads),
            Sampler::WeightedReservoir => Ranking::of(gumbel::Waiting::new(self, seed, true), threads),
            Sampler::Reservoir => Ranking::of(reservoir::Alike::new(self, seed), threads),
            Sampler::All => Ranking::of(reservoir::InOrder::new(self), threads),
            Sampler::Systematic | Sampler::Multinomial => {
                Err(Error::Replacement { what: sampler.name(), replaces: true })
            }
        }
    }
}
