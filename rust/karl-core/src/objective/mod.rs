//! How far the policy has moved from the one that wrote the tokens, and what bounds the update for it.
//!
//! | axis | question | points | file |
//! |---|---|---|---|
//! | [`Level`] | over what is the ratio taken | token, turn, sequence (mean or product) | `level` |
//! | [`Clip`] | what bounds an update | symmetric, asymmetric, dual, capped, none | `clip` |
//! | [`Aggregate`] | how tokens become one number | four means | `aggregate` |
//!
//! ```text
//! log_ratio_t = logp_t - logp_old_t
//! loss        = sum over t of  w_t * bounded(ratio of t, A_t)
//! coefficient_t = d loss / d logp_t
//! ```
//!
//! Tokens are packed: the rollouts stand end to end, and offsets say where each begins. A masked token is read by no
//! sum, whatever it holds, and its coefficient is exactly 0. A rollout's numbers depend on no other rollout but through
//! the number of tokens or sequences that the mean is over, so that a batch may be cut anywhere once that is given.
//!
//! Ratios of tokens are computed in the type of the log-probabilities, those of turns and sequences in f64; every sum is
//! f64, over fixed lanes and a fixed tree.

mod advantages;
mod aggregate;
mod chunks;
mod clip;
mod lane;
mod level;
mod loss;
mod shared_ratio;
mod stats;
mod token_loss;
mod tokens;

pub use advantages::{Advantages, Per};
pub use aggregate::{Aggregate, token_weights};
pub use clip::{Bounds, Clip};
pub use lane::Lane;
pub use level::{Level, Power, row_log_ratio, token_log_ratio};
pub use loss::{Objective, PolicyLoss, policy_loss};
pub use tokens::Tokens;
