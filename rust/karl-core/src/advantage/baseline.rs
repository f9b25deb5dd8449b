//! Baselines that do not come from the rewards they are taken off.

use crate::check::{
    check_finite, check_length, check_not_infinite, check_number, check_positive, check_range,
};
use crate::error::{Error, Result};
use crate::group::Groups;
use crate::numeric::float::Real;

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
    let groups = numbered(&mut state, ids, start)?;
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
fn numbered(state: &mut Ema, ids: &[i64], start: f64) -> Result<Groups<'static>> {
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
