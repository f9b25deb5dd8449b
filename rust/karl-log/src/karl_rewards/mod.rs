//! Rewards of KARL's engine from JSON lines.

mod annotate;
mod backfill;
mod blocks;
mod calls;
mod fast_path;
mod fields;
mod interner;
mod lazy;
mod rewards;
mod store;

pub use annotate::Backfill;
pub use backfill::{Backfilled, backfill};
pub use lazy::{Raw, within};
pub use rewards::{rewards, rewards_in};
pub use store::{Stored, StoredReward, stored, stored_rewards};
