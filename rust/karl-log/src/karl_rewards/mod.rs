//! Rewards of KARL's engine from JSON lines.

mod backfill;
mod calls;
mod fast_path;
mod lazy;
mod rewards;

pub use backfill::{Backfill, Backfilled, backfill};
pub use lazy::{Raw, within};
pub use rewards::{Stored, StoredReward, rewards, rewards_in, stored, stored_rewards};
