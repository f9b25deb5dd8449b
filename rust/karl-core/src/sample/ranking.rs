//! The ranking of weighted rows by each sampler without replacement.

use super::{Ranking, Sampler, Weighted, gumbel, reservoir};
use crate::error::{Error, Result};

impl<'a> Weighted<'a> {
    /// Return the rows in the order in which a sampler without replacement draws them.
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
