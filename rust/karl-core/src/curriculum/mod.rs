//! Choice of the next prompts, from their success rates: those with groups of differing rewards.
//!
//! | file | content |
//! |---|---|
//! | [`rates`] | value of a success rate: mixed groups, variance, nearness to a target |
//! | [`posterior`] | estimates of success rates: one Beta distribution for each task |

pub mod posterior;
pub mod rates;

pub use posterior::BetaPosterior;
