//! Credit for a trajectory, and for each of its steps among steps from the same state.

use super::baseline::centre;
use super::returns::discounted_returns;
use super::zscore::zscore;
use crate::check::{check_length, check_number};
use crate::error::Result;
use crate::group::Groups;
use crate::group::Layout;
use crate::group::offsets::Offsets;
use crate::numeric::Real;
use crate::numeric::sum::sum;

/// Unit of the statistics of trajectory advantages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatisticsUnit {
    /// Each trajectory once, as the paper has it.
    #[default]
    Trajectory,
    /// Each step once, as `ARLArena` and verl-agent do by default: longer trajectories weigh more.
    Step,
}

/// Scaling of advantages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Norm {
    /// Centred only.
    Mean,
    /// Centred, and divided by the standard deviation.
    MeanStd {
        /// Taken from the count under the variance.
        ddof: u8,
        /// Added to the standard deviation.
        eps: f64,
    },
}

impl Norm {
    fn apply(self, rewards: &[f64], layout: Layout<'_>, threads: usize) -> Result<Vec<f64>> {
        match self {
            Self::Mean => centre(rewards, layout, threads),
            Self::MeanStd { ddof, eps } => zscore(rewards, layout, ddof, eps, threads),
        }
    }
}

/// The axes of [`gigpo()`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gigpo {
    /// The discount of a step.
    pub gamma: f64,
    /// Factor of the step advantage: the paper's omega.
    pub step_weight: f64,
    /// Unit of the statistics of trajectory advantages.
    pub unit: StatisticsUnit,
    /// Scaling of both advantages.
    pub norm: Norm,
}

/// The steps of trajectories, and which of them begin in the same state.
#[derive(Clone, Copy, Debug)]
pub struct Steps<'a, R> {
    /// The reward of each step. `[U]`
    pub rewards: &'a [R],
    /// Offsets of the steps of each trajectory. `[N + 1]`
    pub trajectories: Offsets<'a>,
    /// The group of each trajectory. `[N]`
    pub groups: &'a Groups<'a>,
    /// The state each step begins in; one without is like no other. `[U]`
    pub states: &'a Groups<'a>,
}

/// The advantages of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Credit {
    /// Advantage of the trajectory, for each step. `[U]`
    pub episode: Vec<f64>,
    /// Advantage of the step among the steps from the same state. `[U]`
    pub step: Vec<f64>,
    /// `episode + step_weight * step`. `[U]`
    pub joint: Vec<f64>,
}

/// Compute group-in-group advantages.
///
/// ```text
/// R_k   = r_k + gamma R_{k+1}                            within a trajectory
/// A^E   = norm of sum_k r_k    in the group of the trajectory
/// A^S_k = norm of R_k          among the steps of the group that begin in the same state
/// A_k   = A^E + step_weight A^S_k
/// ```
///
/// States are shared within a group only. A^S is 0 where no other step of the group begins in the same state, and A^E
/// is 0 for a trajectory alone in its group; a trajectory that returns to a state is compared with itself. `ARLArena`
/// gives a trajectory alone in its group its raw return. Shapes: see [`Steps`]; results `[U]`. Cost: linear, and one
/// sort.
/// Reference: Feng et al. 2025, `GiGPO` (arXiv:2505.10978), equations 3 and 5 to 8.
///
/// # Errors
/// As [`discounted_returns`], [`centre`] and [`zscore`]; [`Error::Length`](crate::Error::Length) where columns
/// differ; [`Error::Number`](crate::Error::Number) for a step weight that is not finite.
pub fn gigpo<R: Real>(steps: Steps<'_, R>, how: Gigpo, threads: usize) -> Result<Credit> {
    let Steps { rewards, trajectories, groups, states } = steps;
    check_length("group_ids", groups.rows(), trajectories.len())?;
    check_length("state_ids", states.rows(), rewards.len())?;
    check_number("step_weight", how.step_weight)?;
    let returns = discounted_returns(rewards, trajectories, how.gamma, threads)?;
    let owner = spread(trajectories);
    let episode = episode(steps, &owner, how, threads)?;
    let anchors = anchors(groups, states, &owner)?;
    let mut step = how.norm.apply(&returns, Layout::from(&anchors), threads)?;
    for (at, advantage) in step.iter_mut().enumerate() {
        let alone = states.code(at).is_none() && groups.code(owner[at] as usize).is_some();
        if alone && !returns[at].is_nan() {
            *advantage = 0.0;
        }
    }
    let joint = episode.iter().zip(&step).map(|(episode, step)| episode + how.step_weight * step).collect();
    Ok(Credit { episode, step, joint })
}

/// Return the trajectory of each step.
fn spread(trajectories: Offsets<'_>) -> Vec<u32> {
    let mut owner = Vec::with_capacity(trajectories.values());
    for (number, steps) in (0..).zip(trajectories.rows()) {
        owner.resize(steps.end, number);
    }
    owner
}

/// Return the advantage of the trajectory of each step.
fn episode<R: Real>(steps: Steps<'_, R>, owner: &[u32], how: Gigpo, threads: usize) -> Result<Vec<f64>> {
    let total = |steps_of: std::ops::Range<usize>| {
        let rewards = &steps.rewards[steps_of];
        sum(rewards.iter().map(|reward| reward.widen()))
    };
    let totals: Vec<f64> = steps.trajectories.rows().map(total).collect();
    let each = |values: &[f64]| owner.iter().map(|&number| values[number as usize]).collect::<Vec<f64>>();
    match how.unit {
        StatisticsUnit::Trajectory => {
            Ok(each(&how.norm.apply(&totals, Layout::from(steps.groups), threads)?))
        }
        StatisticsUnit::Step => {
            let code = |&number: &u32| code(steps.groups, number as usize);
            let codes: Vec<u32> = owner.iter().map(code).collect();
            let groups = Groups::from_codes(codes, steps.groups.len())?;
            how.norm.apply(&each(&totals), Layout::from(&groups), threads)
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "a code of groups is a u32")]
fn code(groups: &Groups<'_>, row: usize) -> u32 {
    groups.code(row).map_or(Groups::NONE, |code| code as u32)
}

/// Steps of one group that begin in one state.
fn anchors(groups: &Groups<'_>, states: &Groups<'_>, owner: &[u32]) -> Result<Groups<'static>> {
    let count = i64::try_from(states.len()).unwrap_or(i64::MAX);
    let pair = |(step, &number): (usize, &u32)| {
        let (group, state) = (code(groups, number as usize), code(states, step));
        let none = group == Groups::NONE || state == Groups::NONE;
        if none { -1 } else { i64::from(group) * count + i64::from(state) }
    };
    Groups::from_ids(&owner.iter().enumerate().map(pair).collect::<Vec<i64>>())
}
