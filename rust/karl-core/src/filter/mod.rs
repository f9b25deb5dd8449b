//! Filters of rows, with a reason for each dropped row. A filter drops or keeps; it never reweights.
//!
//! | file | what it has |
//! |---|---|
//! | `row_rules` | the rules of the pipeline: one [`Verdict`] a row, in a fixed order; how many groups are constant |
//! | [`groups`] | groups without a difference in outcome; what a filter leaves of groups |
//! | [`variance`] | the groups that hold most of the variance of reward (RAGEN-2) |
//! | [`rollouts`] | rollouts of a policy too old; those that fill the limit of tokens, and the soft penalty before it (DAPO) |
//! | [`tokens`] | rollouts and tokens that the policy has moved too far from (SAMPO, DPPO) |
//!
//! The functions of the last four are pure: columns in, one [`MaskReason`] a row (or a token) out. Nothing is dropped
//! twice and nothing unnamed, so rows = kept + the counts of all reasons.

pub mod groups;
pub mod rollouts;
mod row_rules;
pub mod tokens;
pub mod variance;

pub use row_rules::{
    ConstantCount, Rules, Verdict, below_minimum, constant_group, constant_groups, count_other_rewards,
    duplicate, missing_group, missing_log_weight, missing_reward, tally,
};

pub(crate) use row_rules::count_constant;

use crate::numeric::parallel;

/// Reason for which a mask drops a row or a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MaskReason {
    /// It is not dropped.
    #[default]
    Kept,
    /// It has no group.
    MissingGroup,
    /// It has no outcome to be judged by.
    MissingOutcome,
    /// It has no reward.
    MissingReward,
    /// It has no advantage.
    MissingAdvantage,
    /// All outcomes of its group are equal.
    ConstantGroup,
    /// All outcomes of its group are equal, though its shaped rewards are not.
    PhantomGroup,
    /// Every rollout of its group is right.
    AllRight,
    /// No rollout of its group is right.
    AllWrong,
    /// Other groups hold more of the variance.
    LowVariance,
    /// It fills the limit of tokens, or was cut there.
    Overlong,
    /// The policy it came from is too old.
    Stale,
    /// Its advantage is negative and its ratio small.
    LowRatio,
    /// Its advantage is positive and the policy has raised its probability enough.
    AboveHigh,
    /// Its advantage is negative and the policy has lowered its probability enough.
    BelowLow,
}

impl MaskReason {
    /// All reasons; `MaskReason::ALL[r as usize] == r`.
    pub const ALL: [Self; 15] = [
        Self::Kept,
        Self::MissingGroup,
        Self::MissingOutcome,
        Self::MissingReward,
        Self::MissingAdvantage,
        Self::ConstantGroup,
        Self::PhantomGroup,
        Self::AllRight,
        Self::AllWrong,
        Self::LowVariance,
        Self::Overlong,
        Self::Stale,
        Self::LowRatio,
        Self::AboveHigh,
        Self::BelowLow,
    ];

    /// Return the name used in counts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::MissingGroup => "missing_group",
            Self::MissingOutcome => "missing_outcome",
            Self::MissingReward => "missing_reward",
            Self::MissingAdvantage => "missing_advantage",
            Self::ConstantGroup => "constant_group",
            Self::PhantomGroup => "phantom_group",
            Self::AllRight => "all_right",
            Self::AllWrong => "all_wrong",
            Self::LowVariance => "low_variance",
            Self::Overlong => "overlong",
            Self::Stale => "stale",
            Self::LowRatio => "low_ratio",
            Self::AboveHigh => "above_high",
            Self::BelowLow => "below_low",
        }
    }
}

/// Count the rows of each reason, in the order of [`MaskReason::ALL`]. The counts add up to the rows. Cost: linear.
#[must_use]
pub fn counts(reasons: &[MaskReason]) -> [usize; 15] {
    // Four tables, so that a run of one reason is not one chain of additions to one place.
    let mut tables = [[0; 15]; 4];
    for four in reasons.chunks(4) {
        for (table, &reason) in tables.iter_mut().zip(four) {
            table[reason as usize] += 1;
        }
    }
    std::array::from_fn(|at| tables.iter().map(|table| table[at]).sum())
}

/// Return the reason of each row.
pub(super) fn each_reason(
    rows: usize,
    threads: usize,
    reason: impl Fn(usize) -> MaskReason + Sync,
) -> Vec<MaskReason> {
    let mut reasons = vec![MaskReason::Kept; rows];
    parallel::fill(&mut reasons, threads, |first, block| {
        block.iter_mut().zip(first..).for_each(|(own, row)| *own = reason(row));
    });
    reasons
}
