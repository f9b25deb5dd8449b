//! Rewards of KARL's engine from JSON lines.

mod calls;
mod fast;
mod interner;
mod lazy;
mod rewards;
mod store;

pub use lazy::{Raw, within};
pub use rewards::{rewards, rewards_in};
pub use store::{Stored, stored};
