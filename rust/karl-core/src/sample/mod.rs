//! Samplers: weights in, drawn rows out.
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
//! Beside them stand the one-pass algorithms for arrays and iterators without ids: [`algorithm_l`], [`a_expj`]; many
//! draws by one table: [`Alias`]; and samples from which totals are estimated: [`priority`], [`var_opt`] with the
//! [`pps`] threshold. [`inclusion`] has the probabilities of a draw without replacement, and [`token`] the choice of the
//! next token of a language model.

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
pub mod token;
mod top_k;
pub mod var_opt;
mod weighted;
mod with_replacement;

pub use alias::Alias;
pub use pps::Estimated;
pub use top_k::{Keyed, Ranked, Ranking, cap_per_group};
pub use var_opt::VarOpt;
pub use weighted::{Sampler, Weighted};
pub use with_replacement::{Copies, Copy};

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
