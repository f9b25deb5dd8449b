//! The input of a sampler: rows, their weights, and their keys; and the axis of the samplers.

use std::ops::Range;

use crate::check::{check_length, check_logs};
use crate::error::Result;
use crate::rng::Key;
use crate::rng::keys::Keys;
use crate::rng::xxh3::Hashes;
use crate::target::{Boltzmann, Rows};

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

    /// Return the name the command line and the manifest use.
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

    /// Return the sampler of a name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sampler| sampler.name() == name)
    }

    /// Return whether a row can be drawn more than once.
    #[must_use]
    pub const fn replaces(self) -> bool {
        match self {
            Self::Systematic | Self::Multinomial => true,
            Self::Gumbel | Self::WeightedReservoir | Self::Reservoir | Self::All => false,
        }
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
    /// [`Error::Length`](crate::Error::Length) where rows and keys differ in number.
    pub fn by_target(rows: Rows<'a>, target: &'a Boltzmann, keys: &'a Keys) -> Result<Self> {
        check_length("keys", keys.len(), rows.len())?;
        Ok(Self { weights: Weights::Target(rows, target), keys, digests: None })
    }

    /// Rows with their log weights, to which any constant may be added; minus infinity is never drawn.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) where log weights and keys differ in rows; [`Error::NotFinite`](crate::Error::NotFinite) for a log weight that is NaN or
    /// plus infinity.
    pub fn by_logs(logs: &'a [f64], keys: &'a Keys) -> Result<Self> {
        check_length("keys", keys.len(), logs.len())?;
        check_logs("log_weights", logs)?;
        Ok(Self { weights: Weights::Logs(logs), keys, digests: None })
    }

    /// Return the same rows with a hash of the record's bytes, not its rank, as the ordinal of each key. Records
    /// equal in id and bytes then share one number, and are drawn one right after the other.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) where rows and digests differ in number.
    pub fn by_digest(self, digests: &'a [u64]) -> Result<Self> {
        check_length("digests", digests.len(), self.len())?;
        Ok(Self { digests: Some(digests), ..self })
    }

    /// Return the key of a row for random numbers.
    pub(super) fn key(&self, row: usize) -> Key {
        let key = self.keys.get(row);
        self.digests.map_or(key, |digests| Key { ordinal: digests[row], ..key })
    }

    /// The hashes of a run of rows, which has to be as long as `out`.
    #[inline(always)]
    pub(super) fn hash(&self, rows: Range<usize>, hashes: &Hashes, out: &mut [u64]) {
        match self.digests {
            None => self.keys.hash(rows, hashes, out),
            Some(_) => out.iter_mut().zip(rows).for_each(|(hash, row)| *hash = hashes.of(self.key(row))),
        }
    }

    /// Return the log weights of a run of rows, or those before any sum over the log is taken from them: where they
    /// lie, or in `room`, which is as long.
    #[inline(always)]
    pub(super) fn logs<'b>(&'b self, rows: Range<usize>, own: bool, room: &'b mut [f64]) -> &'b [f64] {
        match self.weights {
            Weights::Logs(logs) => return &logs[rows],
            Weights::Target(..) if own => {
                room.iter_mut().zip(rows).for_each(|(log, row)| *log = self.own_log(row));
            }
            Weights::Target(of, target) => target.log_weights(&of, rows.start, room),
        }
        room
    }

    /// Return the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Return whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Return the log weight of a row.
    #[must_use]
    pub fn log(&self, row: usize) -> f64 {
        match self.weights {
            Weights::Target(rows, target) => target.log_weight(&rows, row),
            Weights::Logs(logs) => logs[row],
        }
    }

    /// Return the log weight before any sum over the log is taken from it.
    pub(super) fn own_log(&self, row: usize) -> f64 {
        match self.weights {
            Weights::Target(rows, target) => {
                let score = rows.score(row);
                if score.is_nan() { f64::NEG_INFINITY } else { target.inverse_temperature * score }
            }
            Weights::Logs(logs) => logs[row],
        }
    }
}
