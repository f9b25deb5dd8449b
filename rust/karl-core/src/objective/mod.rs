//! Policy-gradient objectives: the ratio of the policy to the one that generated the tokens, and bounds of the
//! update.
//!
//! | axis | meaning | points | file |
//! |---|---|---|---|
//! | [`Level`] | tokens that share a ratio | token, turn, sequence (mean or product) | `level` |
//! | [`Clip`] | bounds of an update | symmetric, asymmetric, dual, capped, none | `clip` |
//! | [`Aggregate`] | aggregation of tokens to one number | four means | `aggregate` |
//!
//! ```text
//! log_ratio_t = logp_t - logp_old_t
//! loss        = sum over t of  w_t * bounded(ratio of t, A_t)
//! coefficient_t = d loss / d logp_t
//! ```
//!
//! Tokens are packed: the rollouts are concatenated, and offsets give where each begins. A masked token enters no
//! sum, whatever its value, and its coefficient is exactly 0. A rollout depends on others only through the number of
//! tokens or sequences of the mean, so that a batch may be split anywhere if that number is given.
//!
//! Ratios of tokens are computed in the type of the log-probabilities, those of turns and sequences in f64; every sum
//! is f64, over fixed lanes and a fixed tree.

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
