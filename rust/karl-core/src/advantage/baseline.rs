//! The reward less a baseline: the mean of its group ([`centre()`]), a mean between the group's and that of all ([`shrunk()`]),
//! the soft maximum of the group ([`partition_baseline`]), a number ([`fixed_baseline`]), or a running mean ([`ema_baseline`]).

use super::engine::stats::{AffineMap, Formula, GlobalStats, GroupStats, square};
use super::engine::{check, score};
use crate::check::{
    check_finite, check_length, check_not_infinite, check_not_negative, check_number, check_positive,
    check_range,
};
use crate::error::{Error, Result};
use crate::group::{Groups, Layout};
use crate::logsumexp::soft_value;
use crate::numeric::{Real, parallel};

/// Compute the centred advantage within each group.
///
/// ```text
/// A_i = r_i - mean_g
/// ```
///
/// `mean_g` is over the present rewards of the group of i. There is no division by a standard deviation, so
/// groups of every difficulty keep their own scale. Degenerate cases: see the [module](super).
/// Shapes: rewards `[B]`, result `[B]`. Cost: linear. Reference: Liu et al. 2025, Dr. GRPO (arXiv:2503.20783).
///
/// # Errors
/// [`Error::NotFinite`] for an infinite reward or an advantage beyond f64;
/// [`Error::Length`] where rewards and groups differ in rows.
pub fn centre<'a, R: Real>(rewards: &[R], groups: impl Into<Layout<'a>>, threads: usize) -> Result<Vec<f64>> {
    score(rewards, groups.into(), &Centre, threads)
}

pub(super) struct Centre;

impl Formula for Centre {
    #[inline(always)]
    fn line(&self, group: &GroupStats, mean: f64, _terms: f64) -> AffineMap {
        if group.is_constant() { AffineMap::zero(group) } else { AffineMap::less(mean) }
    }
}

/// The numbers of [`shrunk()`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shrunk {
    /// Number of rewards at the overall mean that are added to each group.
    pub strength: f64,
    /// The least a deviation may be.
    pub floor: f64,
    /// The least present rewards for a group to have a deviation of its own.
    pub min_count: u32,
}

impl Default for Shrunk {
    fn default() -> Self {
        // karl, HEAD c41d1c5, karl/reward_engine.py:685, 698-705.
        Self { strength: 10.0, floor: 0.02, min_count: 5 }
    }
}

/// Advantage against a baseline that is shrunk to the mean of all rows, for groups of uneven and small size (domains).
///
/// ```text
/// b_g = (n mean_g + strength * mean) / (n + strength)
/// s_g = max(std_g, floor) where n >= min_count, else max(std, floor)
/// A_i = (r_i - b_g) / s_g
/// ```
///
/// Deviations have ddof 0; `mean` and `std` are over all rows that have a reward and a group. Since the baseline is not
/// the group's alone, a group of one and a group of equal rewards are not 0 here: they are judged by the rest. With a
/// strength of 0 the baseline is the group's mean. Shapes: rewards `[B]`, result `[B]`. Cost: four passes.
/// Reference: the reward engine of karl at HEAD; the baseline is the posterior mean of Gelman et al. 2013, section 2.5.
///
/// # Errors
/// [`Error::NotFinite`] for an infinite reward or an advantage beyond f64 (a floor of 0 and equal
/// rewards); [`Error::Negative`] for a negative strength or floor; [`Error::Number`] for an infinite strength;
/// [`Error::Length`] where rewards and groups differ in rows.
pub fn shrunk<'a, R: Real>(
    rewards: &[R],
    groups: impl Into<Layout<'a>>,
    how: Shrunk,
    threads: usize,
) -> Result<Vec<f64>> {
    check_not_negative("strength", how.strength)?;
    check_number("strength", how.strength)?;
    check_not_negative("floor", how.floor)?;
    let layout = groups.into();
    layout.check("rewards", rewards.len())?;
    check_not_infinite("rewards", rewards)?;
    let whole = GlobalStats::of(rewards, |row| if layout.has(row) { 1.0 } else { 0.0 }, threads);
    score(rewards, layout, &Posterior { how, whole }, threads)
}

struct Posterior {
    how: Shrunk,
    whole: GlobalStats,
}

impl Formula for Posterior {
    const TERMS: bool = true;

    #[inline(always)]
    fn term(&self, reward: f64, mean: f64) -> f64 {
        square(reward, mean)
    }

    #[inline(always)]
    fn line(&self, group: &GroupStats, mean: f64, squares: f64) -> AffineMap {
        if group.count == 0 {
            return AffineMap::zero(group);
        }
        let Shrunk { strength, floor, min_count } = self.how;
        let (count, own) = (group.size(), group.count >= min_count);
        let deviation = if own { group.deviation(squares, 0) } else { self.whole.deviation(0) };
        AffineMap {
            baseline: (count * mean + strength * self.whole.mean) / (count + strength),
            factor: 1.0,
            // Not f64::max, which would take the floor where the deviation overflowed.
            divisor: if deviation < floor { floor } else { deviation },
        }
    }
}

/// Compute the advantage against the log-partition of the group.
///
/// ```text
/// A_i = r_i - V_g,    V_g = (1 / b) log( (1 / n) sum_j exp(b r_j) )
/// ```
///
/// `b` is the inverse temperature: as it goes to 0 `V_g` goes to the mean, and as it grows to the largest reward.
/// `V_g` is [`soft_value`] at the temperature `1 / b`; it is never below the mean, so the advantages of a group do
/// not add up to zero. `exp(b A_i) / n` is the Boltzmann target of the group. Degenerate cases: see the
/// [module](super).
/// Shapes: rewards `[B]`, result `[B]`. Cost: one `expm1` a row, one `log1p` a group.
/// References: Richemond et al. 2024, DRO (arXiv:2405.19107); OAPL (arXiv:2602.19362), where beta is `1 / b`.
///
/// # Errors
/// [`Error::NotFinite`] for an infinite reward or an advantage beyond f64;
/// [`Error::Positive`] for an inverse temperature that is not a finite number above 0;
/// [`Error::Length`] where rewards and groups differ in rows.
pub fn partition_baseline<'a, R: Real>(
    rewards: &[R],
    groups: impl Into<Layout<'a>>,
    inverse_temperature: f64,
    threads: usize,
) -> Result<Vec<f64>> {
    check_positive("inverse_temperature", inverse_temperature)?;
    let layout = groups.into();
    let mut advantages = soft_value(rewards, layout, 1.0 / inverse_temperature, threads)?;
    parallel::fill(&mut advantages, threads, |first, block| {
        block.iter_mut().zip(&rewards[first..]).for_each(|(value, reward)| *value = reward.widen() - *value);
    });
    check(&advantages, rewards, layout).map(|()| advantages)
}

/// Return the reward less a number.
///
/// ```text
/// A_i = (r_i - baseline) / temperature
/// ```
///
/// A missing reward stays missing.
/// Shapes: rewards `[B]`, result `[B]`. Cost: one pass.
/// Reference: karl 1.0.0, `karl/reward_engine.py:235-247`, with a baseline of 0.5 and a temperature of 1.
///
/// # Errors
/// [`Error::NotFinite`] for an infinite reward or an advantage beyond f64; [`Error::Number`] for a baseline that is not
/// finite; [`Error::Positive`] for a temperature that is not a finite number above 0.
pub fn fixed_baseline<R: Real>(rewards: &[R], baseline: f64, temperature: f64) -> Result<Vec<f64>> {
    check_number("baseline", baseline)?;
    check_positive("temperature", temperature)?;
    check_not_infinite("rewards", rewards)?;
    let advantages: Vec<f64> =
        rewards.iter().map(|reward| (reward.widen() - baseline) / temperature).collect();
    match advantages.iter().position(|advantage| advantage.is_infinite()) {
        Some(index) => Err(Error::NotFinite { what: "advantage", index, value: advantages[index] }),
        None => Ok(advantages),
    }
}

/// The running baseline of each group that was seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ema {
    /// The ids of the groups, each once. `[P]`
    pub ids: Vec<i64>,
    /// Their baselines. `[P]`
    pub baselines: Vec<f64>,
}

/// Return each reward less a running mean of the earlier rewards of its group.
///
/// ```text
/// A_i = r_i - b_g,    then  b_g <- (1 - alpha) b_g + alpha r_i
/// ```
///
/// Rows are in order of time: this is the only score that depends on their order. A group that is not in the state
/// begins at `start`. A missing reward and a row without a group have no advantage and do not change the state. The
/// returned state has the old groups first, then the new ones in order of appearance.
/// Shapes: rewards `[B]`, ids `[B]`, result `[B]`. Cost: linear where ids are dense, else one sort.
/// Reference: the skill weights of karl 1.0.0 (`karl/weight_updater.py:25-38`, alpha 0.1), which are `b_g + 0.5`.
///
/// # Errors
/// [`Error::NotFinite`] for an infinite reward, or a baseline of the state that is not finite; [`Error::Number`] for
/// a `start` that is not finite; [`Error::Range`] for an alpha outside 0 to 1; [`Error::Row`] for an id of the state
/// that is negative or occurs twice; [`Error::Length`] where columns differ in rows.
pub fn ema_baseline<R: Real>(
    rewards: &[R],
    ids: &[i64],
    (alpha, start): (f64, f64),
    mut state: Ema,
) -> Result<(Vec<f64>, Ema)> {
    check_length("group_ids", ids.len(), rewards.len())?;
    check_range("alpha", alpha, 0.0, 1.0)?;
    check_number("start", start)?;
    check_not_infinite("rewards", rewards)?;
    let known = state.ids.len();
    let groups = number_groups(&mut state, ids, start)?;
    let mut advantage = |(at, reward): (usize, &R)| {
        let Some(baseline) = groups.code(known + at).map(|group| &mut state.baselines[group]) else {
            return f64::NAN;
        };
        let advantage = reward.widen() - *baseline;
        if !advantage.is_nan() {
            *baseline = (1.0 - alpha) * *baseline + alpha * reward.widen();
        }
        advantage
    };
    let advantages = rewards.iter().enumerate().map(&mut advantage).collect();
    Ok((advantages, state))
}

/// Return the groups of the state and, behind them, of the rows. New groups are added to the state.
fn number_groups(state: &mut Ema, ids: &[i64], start: f64) -> Result<Groups<'static>> {
    check_length("state.baselines", state.baselines.len(), state.ids.len())?;
    check_finite("state.baselines", &state.baselines)?;
    let all = [state.ids.as_slice(), ids].concat();
    let groups = Groups::from_ids(&all)?;
    let known = state.ids.len();
    if let Some(index) = (0..known).find(|&at| groups.code(at) != Some(at)) {
        return Err(Error::Row { index, row: state.ids[index], count: known });
    }
    for (row, &id) in ids.iter().enumerate() {
        if groups.code(known + row) == Some(state.ids.len()) {
            state.ids.push(id);
            state.baselines.push(start);
        }
    }
    Ok(groups)
}
