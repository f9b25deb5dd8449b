//! Objectives: losses of the log-probabilities of tokens, each with its exact derivative by every one of them.
//!
//! | family | loss | file |
//! |---|---|---|
//! | [`PolicyGradient`] | credit times the log-probability, under an [`Update`] rule and a [`Penalty`] | `policy_gradient` |
//! | [`Balance`] | regression to the Boltzmann target, with log Z | `balance` |
//! | [`TargetPolicy`] | cross-entropy to a target over the candidates of a prompt | `target_policy` |
//! | [`WeightedLikelihood`] | likelihood of logged rows at their weights | `likelihood` |
//! | [`Preference`] | margin between preferred answers and others | `preference` |
//!
//! Each takes [`Rollouts`] and the denominator of the whole batch, so that the losses of its parts add up, and returns
//! an [`Evaluation`]. [`linear_term`] is for entropies and divergences of full distributions. What is not finite in a
//! token that counts makes these losses infinite or NaN.
//!
//! GSPO is the policy gradient with [`Ratio::Sequence`] under a [`Clip`]. [`policy_loss`] is the policy gradient that refuses numbers which are not finite. The axes of policy gradients:
//!
//! | axis | meaning | points | file |
//! |---|---|---|---|
//! | [`Ratio`] | tokens that share a ratio | none, token, turn, sequence (mean: GSPO; or product) | `ratio` |
//! | [`Update`] | what a token adds to the loss, and its bounds ([`Clip`]) | eight rules | `update`, `clip` |
//! | [`Penalty`] | divergence from the reference | none, k2, k3 | `policy_gradient` |
//! | [`Aggregate`] | aggregation of tokens to one number | four means | `aggregate` |
//! | [`Correction`] | weight of tokens that another arithmetic drew | truncate or mask, at three levels | `correction` |
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
mod arithmetic;
mod balance;
mod batch_statistics;
mod clip;
mod correction;
mod likelihood;
mod policy_gradient;
mod preference;
mod ratio;
mod rollouts;
mod row_sums;
mod target_policy;
mod turns;
mod update;

pub use advantages::{Advantages, Per};
pub use aggregate::{Aggregate, token_weights};
pub use arithmetic::RealArithmetic;
pub use balance::{Anchor, Balance, LogZ, Residuals, balance};
pub use batch_statistics::{Evaluation, Statistics};
pub use clip::{Bounds, Clip};
pub use correction::{Correction, CorrectionLevel, Mismatch, correction_weights};
pub use likelihood::{Gate, WeightedLikelihood, linear_term, weighted_likelihood};
pub use policy_gradient::{Penalty, PolicyGradient, policy_gradient, policy_loss};
pub use preference::{Link, Margin, Margins, Preference, preference};
pub use ratio::{Power, Ratio, row_log_ratio, token_log_ratio};
pub use rollouts::Rollouts;
pub use target_policy::{TargetPolicy, target_policy};
pub use turns::Turns;
pub use update::Update;
