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

use std::borrow::Cow;

use crate::blocks;
use crate::error::{Error, Result, check_length, check_not_infinite};
use crate::group::Groups;
use crate::numeric::Compensated;

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
    /// The scores of all rows; for [`Score::Raw`] the rewards themselves. Shapes: rewards `[B]`, result `[B]`.
    ///
    /// # Errors
    /// [`Error::NotFinite`] for an infinite reward or a result beyond f64; [`Error::Length`] where rewards and
    /// groups differ in rows; [`Error::Negative`] for a negative `eps`.
    pub fn apply<'a>(&self, rewards: &'a [f64], groups: &Groups, threads: usize) -> Result<Cow<'a, [f64]>> {
        check(rewards, groups)?;
        let spreads = if self.needs_groups() { spreads(rewards, groups, threads) } else { Vec::new() };
        self.within(Grouped { rewards, groups, spreads: &spreads, threads })
    }

    /// The same where the spread of each group is known.
    pub(crate) fn within<'a>(&self, grouped: Grouped<'a, '_>) -> Result<Cow<'a, [f64]>> {
        match *self {
            Self::Raw => Ok(Cow::Borrowed(grouped.rewards)),
            Self::Centre => centre::within(grouped).map(Cow::Owned),
            Self::ZScore { ddof, eps } => zscore::within(grouped, ddof, eps).map(Cow::Owned),
            Self::LeaveOneOut => leave_one_out::within(grouped).map(Cow::Owned),
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

/// The present rewards of a group, seen one after another in row order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    /// How many.
    pub(crate) count: u32,
    pub(crate) min: f64,
    pub(crate) max: f64,
    total: Compensated,
}

impl Spread {
    pub(crate) fn push(&mut self, reward: f64) {
        if !reward.is_nan() {
            self.count += 1;
            self.min = self.min.min(reward);
            self.max = self.max.max(reward);
            self.total.add(reward);
        }
    }

    /// Whether all are equal; true for one and for none.
    pub(crate) fn is_constant(&self) -> bool {
        self.min >= self.max || self.count == 0
    }

    /// Their mean. A group of 1e308s overflows to infinity, which `check_advantages` then reports.
    fn mean(&self) -> f64 {
        self.total.value() / f64::from(self.count)
    }
}

/// The spread of each group.
pub(crate) fn spreads(rewards: &[f64], groups: &Groups, threads: usize) -> Vec<Spread> {
    let empty =
        Spread { count: 0, min: f64::INFINITY, max: f64::NEG_INFINITY, total: Compensated::default() };
    groups.fold(threads, empty, |spread, _, row| spread.push(rewards[row]))
}

/// Rewards, the group of each, and the spread of each group.
#[derive(Clone, Copy)]
pub(crate) struct Grouped<'a, 'g> {
    pub(crate) rewards: &'a [f64],
    pub(crate) groups: &'g Groups<'g>,
    pub(crate) spreads: &'g [Spread],
    pub(crate) threads: usize,
}

/// The frame the group scores share: everything but the formula.
///
/// `fits` holds, for each group with two or more present rewards that are not all equal, the map from a reward to its
/// advantage. Cost: one pass.
fn within_groups<A: Fn(f64) -> f64 + Sync>(
    Grouped { rewards, groups, threads, .. }: Grouped<'_, '_>,
    fits: &[Option<A>],
) -> Result<Vec<f64>> {
    let advantage = |row: usize| match groups.code(row).map(|group| &fits[group]) {
        Some(None) if !rewards[row].is_nan() => 0.0,
        Some(Some(advantage)) => advantage(rewards[row]),
        _ => f64::NAN,
    };
    let mut advantages = vec![0.0; rewards.len()];
    blocks::fill(&mut advantages, threads, |first, block| {
        block.iter_mut().zip(first..).for_each(|(value, row)| *value = advantage(row));
    });
    check_advantages(&advantages, rewards, groups).map(|()| advantages)
}

/// One fit for each group whose rewards differ.
fn fit<A>(spreads: &[Spread], one: impl Fn(usize, &Spread) -> A) -> Vec<Option<A>> {
    let fit = |(group, spread): (usize, &Spread)| (!spread.is_constant()).then(|| one(group, spread));
    spreads.iter().enumerate().map(fit).collect()
}

fn check(rewards: &[f64], groups: &Groups) -> Result<()> {
    check_length("rewards", rewards.len(), groups.rows())?;
    check_not_infinite("reward", rewards)
}

/// A row that has a reward and a group has an advantage, unless f64 has no such number.
fn check_advantages(advantages: &[f64], rewards: &[f64], groups: &Groups) -> Result<()> {
    let wrong =
        |row: usize| !advantages[row].is_finite() && !rewards[row].is_nan() && groups.code(row).is_some();
    match (0..advantages.len()).find(|&row| wrong(row)) {
        Some(index) => Err(Error::NotFinite { what: "advantage", index, value: advantages[index] }),
        None => Ok(()),
    }
}
