//! States that are filled in parts, on shards that know nothing of each other, and merged: the same bytes as of the whole.
//!
//! | state | holds | merged |
//! |---|---|---|
//! | [`Top`] | the k + 1 items of the largest keys, by a [`Law`] | to the bit, in any order |
//! | [`Moments`] | exact sums of numbers and of their squares | to the bit, in any order |
//! | [`VarOpt`] | k items and what each counts for | in law: each order has its own draw |
//!
//! [`Partition`](crate::logsumexp::Partition) and [`BetaPosterior`](crate::curriculum::BetaPosterior) stand in their families and
//! are written in the same way.
//!
//! Bytes begin with their kind and version and end with a hash of all before it; every number in them is little-endian. What
//! they hold is checked when they are read, and nothing is allocated that they do not fill.

pub(crate) mod codec;
mod moments;
mod top;
mod var_opt;

pub use moments::Moments;
pub use top::{Entry, Law, Top};
pub use var_opt::VarOpt;
