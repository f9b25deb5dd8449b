//! Who gets credit: the number that is tempered, from the rewards of a group.
//!
//! | point | formula | file |
//! |---|---|---|
//! | [`Score::Raw`] | `r_i` | here |
//! | [`Score::Centre`] | `r_i - mean` | [`centre()`] |
//! | [`Score::ZScore`] | `(r_i - mean) / (std + eps)` | [`zscore()`] |
//! | [`Score::LeaveOneOut`] | `r_i - mean of the others` | [`leave_one_out()`] |
//!
//! Laws of the three group scores, each with a test:
//!
//! - the advantages of a group add up to zero;
//! - `r -> r + c` changes nothing; `r -> a r` with `a > 0` multiplies `Centre` and `LeaveOneOut` by `a`, and
//!   leaves `ZScore` with `eps = 0` as it is;
//! - a group's advantages depend on no other group, and renaming groups changes nothing;
//! - a group whose present rewards are all equal has advantage exactly 0, and so has a group of one. Equality
//!   is tested on the rewards (max = min), never on a standard deviation that rounding may have left above 0;
//! - a missing reward (NaN) is missing, not 0: it is left out of its group's statistics and its advantage is
//!   NaN. A row without a group has advantage NaN;
//! - an infinite reward is an error that names its row.
//!
//! Sums fold the members of a group in row order.

mod centre;
mod leave_one_out;
mod zscore;

pub use centre::centre;
pub use leave_one_out::leave_one_out;
pub use zscore::zscore;

use crate::error::{Error, Result, check_length, check_not_infinite};
use crate::group::Groups;

/// The axis: how a reward becomes the score that is tempered into a weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Score {
    /// The reward itself.
    Raw,
    /// The reward less its group's mean (Dr. GRPO).
    Centre,
    /// Centred, and divided by the group's standard deviation (GRPO).
    ZScore {
        /// Taken from the count under the variance: 0 (mlx-lm-lora) or 1 (TRL, verl, `OpenRLHF`).
        ddof: u8,
        /// Added to the standard deviation.
        eps: f64,
    },
    /// The reward less the mean of the others of its group (RLOO).
    LeaveOneOut,
}

impl Score {
    /// The scores of all rows. Shapes: rewards `[B]`, result `[B]`.
    ///
    /// # Errors
    /// [`Error::NotFinite`] for an infinite reward or a result beyond f64; [`Error::Length`] where rewards and
    /// groups differ in rows; [`Error::Negative`] for a negative `eps`.
    pub fn apply(&self, rewards: &[f64], groups: &Groups) -> Result<Vec<f64>> {
        match *self {
            Self::Raw => check(rewards, groups).map(|()| rewards.to_vec()),
            Self::Centre => centre(rewards, groups),
            Self::ZScore { ddof, eps } => zscore(rewards, groups, ddof, eps),
            Self::LeaveOneOut => leave_one_out(rewards, groups),
        }
    }

    /// Whether the score of a row is undefined without a group.
    #[must_use]
    pub const fn needs_groups(&self) -> bool {
        !matches!(self, Self::Raw)
    }

    /// The name the command line and the manifest use.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Centre => "centre",
            Self::ZScore { .. } => "zscore",
            Self::LeaveOneOut => "leave-one-out",
        }
    }
}

/// Whether all of `rewards` are equal; true for one and for none. NaN must have been left out.
pub(crate) fn is_constant(rewards: &[f64]) -> bool {
    let max = rewards.iter().fold(f64::NEG_INFINITY, |max, &reward| max.max(reward));
    rewards.iter().all(|&reward| reward >= max)
}

/// The frame the group scores share: everything but the formula.
///
/// `fit` sees the present rewards of one group, two or more and not all equal, and gives the map from a
/// reward to its advantage. Cost: the passes of `fit`, plus two.
fn within_groups<A: Fn(f64) -> f64>(
    rewards: &[f64],
    groups: &Groups,
    fit: impl Fn(&[f64]) -> A,
) -> Result<Vec<f64>> {
    check(rewards, groups)?;
    let mut advantages = vec![f64::NAN; rewards.len()];
    let mut present = Vec::new();
    for members in groups.iter() {
        present.clear();
        present.extend(present_rewards(rewards, members));
        let advantage = (!is_constant(&present)).then(|| fit(&present));
        for row in members.iter().map(|&row| row as usize).filter(|&row| !rewards[row].is_nan()) {
            advantages[row] = match &advantage {
                Some(advantage) => finite(row, advantage(rewards[row]))?,
                None => 0.0,
            };
        }
    }
    Ok(advantages)
}

/// The rewards of `members` that are not missing, in row order.
pub(crate) fn present_rewards<'a>(rewards: &'a [f64], members: &'a [u32]) -> impl Iterator<Item = f64> + 'a {
    members.iter().map(|&row| rewards[row as usize]).filter(|reward| !reward.is_nan())
}

/// The mean of present rewards. A group of 1e308s overflows to infinity, which `finite` then reports.
fn mean(present: &[f64]) -> f64 {
    crate::numeric::sum(present.iter().copied()) / present.len() as f64
}

fn check(rewards: &[f64], groups: &Groups) -> Result<()> {
    check_length("rewards", rewards.len(), groups.rows())?;
    check_not_infinite("reward", rewards)
}

fn finite(index: usize, value: f64) -> Result<f64> {
    if value.is_finite() { Ok(value) } else { Err(Error::NotFinite { what: "advantage", index, value }) }
}
