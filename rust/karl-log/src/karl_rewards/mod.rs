//! Rewards of KARL's engine from JSON lines.

mod backfill;
mod calls;
mod fast_path;
mod lazy;
mod rewards;

pub use backfill::Backfill;
pub use backfill::{Backfilled, backfill};
pub use lazy::{Raw, within};
pub use rewards::{Stored, StoredReward, stored, stored_rewards};
pub use rewards::{rewards, rewards_in};
