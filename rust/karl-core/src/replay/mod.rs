//! Replay of past rollouts: weights by age, priorities, and their importance corrections.
//!
//! Everything is a column of log-weights or of priorities, so that a draw takes it as it takes any other:
//!
//! ```text
//! log w_i = alpha log(priority_i) + age_log_weight_i        ──► sample ──► importance correction
//! ```

mod age;
mod priority;

pub use age::{AgeDistribution, Decay, age_distribution, recency};
pub use priority::{
    accuracy_error, delight, delight_gate, importance_log_weights, kondo_price, largest, prioritised,
    surprisal,
};
