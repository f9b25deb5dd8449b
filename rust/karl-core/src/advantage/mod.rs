//! Credit assignment: the score of each row, from the rewards of its group.
//!
//! | point | formula | file |
//! |---|---|---|
//! | [`Score::Raw`] | `r_i` | here |
//! | [`Score::Centre`] | `r_i - mean` | [`centre()`] |
//! | [`Score::ZScore`] | `(r_i - mean) / (std + eps)` | [`zscore()`] |
//! | [`Score::LeaveOneOut`] | `r_i - mean of the others` | [`leave_one_out()`] |
//!
//! Beside the points of that axis:
//!
//! | function | formula |
//! |---|---|
//! | [`zscore_over`] | the deviation, or mean and deviation, over all rows |
//! | [`maxrl()`] | `(r_i - mean) / (mean + eps)` |
//! | [`Gdpo`] | several rewards, each a z-score before they are added |
//! | [`shrunk()`] | a baseline between the group's mean and the mean of all |
//! | [`partition_baseline`] | `r_i - (1/b) log mean exp(b r)` |
//! | [`fixed_baseline`], [`ema_baseline`] | a number; a running mean in the order given |
//! | [`whiten()`], [`reinforce_plus_plus`], [`reinforce_plus_plus_baseline`] | over all tokens |
//! | [`discounted_returns`], [`gigpo()`], [`empg()`] | steps of trajectories |
//! | [`best_of_k()`] | what a row adds to the best of k |
//! | [`segment_weights`] | the share of each segment in a tree of calls |
//! | [`Convention`] | the advantages of a trainer, defects included |
//!
//! Groups come as codes in any order, or end to end ([`Layout`]); rewards are f64 or f32, sums always f64.
//!
//! Laws of the three group scores, each with a test:
//!
//! - the advantages of a group add up to zero;
//! - `r -> r + c` changes nothing; `r -> a r` with `a > 0` multiplies `Centre` and `LeaveOneOut` by `a`, and
//!   leaves `ZScore` with `eps = 0` as it is;
//! - a group's advantages depend on no other group, and renaming groups changes nothing;
//! - a group with equal present rewards has advantage exactly 0, and so has a group of one. Equality
//!   is tested on the rewards (max = min), never on a standard deviation that rounding may have left above 0;
//! - a missing reward (NaN) is missing, not 0: it is left out of its group's statistics and its advantage is
//!   NaN. A row without a group has advantage NaN;
//! - an infinite reward is an error that names its row.
//!
//! Sums fold the members of a group in row order.

mod baseline;
mod best_of_k;
mod empg;
pub(crate) mod engine;
mod gdpo;
mod gigpo;
mod leave_one_out;
mod maxrl;
mod returns;
mod set_score;
mod trainers;
mod tree;
mod whiten;
mod zscore;

pub use baseline::centre;
pub use baseline::partition_baseline;
pub use baseline::{Ema, ema_baseline, fixed_baseline};
pub use baseline::{Shrunk, shrunk};
pub use best_of_k::best_of_k;
pub use empg::{Empg, empg};
pub use gdpo::Gdpo;
pub use gigpo::{Credit, Gigpo, Norm, StatisticsUnit, Steps, gigpo};
pub use leave_one_out::leave_one_out;
pub use maxrl::maxrl;
pub use returns::discounted_returns;
pub use set_score::set_scores;
pub use trainers::{CONVENTIONS, Convention, Missing, Single, Singleton};
pub use tree::{TreeCredit, segment_weights, tree_roots};
pub use whiten::{Whitening, reinforce_plus_plus, reinforce_plus_plus_baseline, whiten};
pub use zscore::{DeviationScope, zscore, zscore_over};

use std::borrow::Cow;

use crate::check::{check_length, check_not_infinite, check_not_negative};
use crate::error::Result;
use crate::group::{Groups, Layout};
use crate::numeric::Real;
use crate::numeric::radix::Scratch;
use baseline::Centre;
use engine::constant_groups::ConstantGroups;
use engine::stats::Formula;
use engine::{check, fill, score};
use leave_one_out::LeaveOneOut;
use zscore::ZScore;

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
    /// Return the scores of all rows; for [`Score::Raw`] the rewards themselves. Shapes: rewards `[B]`, result `[B]`.
    ///
    /// # Errors
    /// [`Error::NotFinite`](crate::Error::NotFinite) for an infinite reward or a result beyond f64;
    /// [`Error::Length`](crate::Error::Length) where rewards and groups differ in rows;
    /// [`Error::Negative`](crate::Error::Negative) for a negative `eps`.
    pub fn apply<'a>(&self, rewards: &'a [f64], groups: &Groups, threads: usize) -> Result<Cow<'a, [f64]>> {
        let layout = Layout::from(groups);
        layout.check("rewards", rewards.len())?;
        match *self {
            Self::Raw => check_not_infinite("rewards", rewards).map(|()| Cow::Borrowed(rewards)),
            Self::Centre => score(rewards, layout, &Centre, threads).map(Cow::Owned),
            Self::ZScore { ddof, eps } => zscore(rewards, layout, ddof, eps, threads).map(Cow::Owned),
            Self::LeaveOneOut => score(rewards, layout, &LeaveOneOut, threads).map(Cow::Owned),
        }
    }

    /// Write the scores of all rows into `scores`. `room` is scratch for [`Layout::scratch_rows`] rows; smaller scratch is not
    /// used. Shapes: rewards and `scores` `[B]`.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); [`Error::Length`](crate::Error::Length) too for a column of another length. What the
    /// column holds is then undefined.
    pub fn fill<'a, R: Real>(
        &self,
        rewards: &[R],
        groups: impl Into<Layout<'a>>,
        scores: &mut [f64],
        room: Scratch<'_>,
        threads: usize,
    ) -> Result<()> {
        let (layout, memory) = (groups.into(), (scores, room));
        match *self {
            Self::Raw => copy(rewards, layout, memory.0),
            Self::Centre => fill(rewards, layout, &Centre, memory, threads),
            Self::ZScore { ddof, eps } => {
                check_not_negative("eps", eps)?;
                fill(rewards, layout, &ZScore { ddof, eps }, memory, threads)
            }
            Self::LeaveOneOut => fill(rewards, layout, &LeaveOneOut, memory, threads),
        }
    }

    /// Return the scores of all rows, and which groups are constant.
    pub(crate) fn with_constancy<'a>(
        &self,
        grouped: Grouped<'a, '_>,
    ) -> Result<(ConstantGroups, Cow<'a, [f64]>)> {
        let Grouped { rewards, groups, threads } = grouped;
        match *self {
            Self::Raw => Ok((ConstantGroups::of(rewards, groups, threads), Cow::Borrowed(rewards))),
            Self::Centre => grouped.score(&Centre),
            Self::ZScore { ddof, eps } => {
                check_not_negative("eps", eps)?;
                grouped.score(&ZScore { ddof, eps })
            }
            Self::LeaveOneOut => grouped.score(&LeaveOneOut),
        }
    }

    /// Return whether the score of a row is undefined without a group.
    #[must_use]
    pub const fn needs_groups(&self) -> bool {
        !matches!(self, Self::Raw)
    }

    /// Return the name the command line and the manifest use.
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

fn copy<R: Real>(rewards: &[R], layout: Layout<'_>, scores: &mut [f64]) -> Result<()> {
    layout.check("rewards", rewards.len())?;
    check_length("scores", scores.len(), rewards.len())?;
    check_not_infinite("rewards", rewards)?;
    scores.iter_mut().zip(rewards).for_each(|(score, reward)| *score = reward.widen());
    Ok(())
}

/// Rewards, and the group of each.
#[derive(Clone, Copy)]
pub(crate) struct Grouped<'a, 'g> {
    pub(crate) rewards: &'a [f64],
    pub(crate) groups: &'g Groups<'g>,
    pub(crate) threads: usize,
}

impl<'a> Grouped<'a, '_> {
    fn score<F: Formula>(self, formula: &F) -> Result<(ConstantGroups, Cow<'a, [f64]>)> {
        let Self { rewards, groups, threads } = self;
        let mut advantages = vec![0.0; rewards.len()];
        let (constancy, fine) =
            ConstantGroups::and_scores(rewards, groups, formula, &mut advantages, threads);
        if !fine {
            check(&advantages, rewards, groups.into())?;
        }
        Ok((constancy, Cow::Owned(advantages)))
    }
}
