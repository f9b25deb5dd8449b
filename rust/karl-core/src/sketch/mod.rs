//! Mergeable states: filled in parts, on shards that know nothing of each other, and merged.
//!
//! | state | holds | merged |
//! |---|---|---|
//! | [`TopK`] | the k + 1 items of the largest keys, by a [`Law`] | to the bit, in any order |
//! | [`Moments`] | exact sums of numbers and of their squares | to the bit, in any order |
//! | [`LogSumExp`] | the exact sum of exponentials | to the bit, in any order |
//! | [`VarOptSketch`] | k items and the estimate of each | in law: each order has its own draw |
//!
//! [`BetaPosterior`](crate::curriculum::BetaPosterior) is with its family and is written in the same way.
//!
//! Bytes begin with their kind and version and end with a hash of all before it; every number in them is little-endian. Their
//! contents are checked when they are read, and nothing is allocated that they do not fill.

pub(crate) mod codec;
mod log_sum_exp;
mod moments;
mod top;
mod var_opt;

pub use log_sum_exp::LogSumExp;
pub use moments::Moments;
pub use top::{Law, TopEntry, TopK};
pub use var_opt::VarOptSketch;
