//! Which prompts to ask next: the ones whose groups will differ, by what is known of their success rates.
//!
//! | file | what it has |
//! |---|---|
//! | [`rates`] | what a success rate is worth: mixed groups, variance, nearness to a target |
//! | [`posterior`] | what is known of the success rates: a Beta distribution a task |

pub mod posterior;
pub mod rates;

pub use posterior::BetaPosterior;
