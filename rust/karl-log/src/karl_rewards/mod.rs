//! Rewards of KARL's engine from JSON lines.

mod annotate;
mod backfill;
mod calls;
mod fast;
mod fields;
mod interner;
mod lazy;
mod rewards;
mod store;
mod text;

pub use annotate::Backfill;
pub use backfill::{Backfilled, backfill};
pub use lazy::{Raw, within};
pub use rewards::{rewards, rewards_in};
pub use store::{Stored, StoredReward, stored, stored_rewards};
