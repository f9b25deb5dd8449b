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
//! [`pps`] threshold. [`inclusion`] has the probabilities of a draw without replacement.

pub mod a_expj;
pub mod algorithm_l;
mod alias;
pub mod gumbel;
pub mod inclusion;
pub mod pps;
pub mod priority;
mod ranking;
pub mod reservoir;
mod sampler;
pub mod strata;
mod threshold_scan;
mod top_k;
pub mod var_opt;
mod weighted;
mod with_replacement;

pub use alias::Alias;
pub use pps::Estimated;
pub use sampler::Sampler;
pub use top_k::{Keyed, Ranked, Ranking, cap_per_group};
pub use var_opt::VarOpt;
pub use weighted::Weighted;
pub use with_replacement::{Copies, Copy};
