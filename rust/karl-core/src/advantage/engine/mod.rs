//! The engine of the group scores: a formula applied to all rows, by the layout of their groups.
//!
//! One pass sums each group, a second where a sum needs the mean first, and a last one maps each reward to its advantage.

pub(in crate::advantage) mod by_id;
pub(crate) mod constant_groups;
pub(in crate::advantage) mod contiguous;
pub(in crate::advantage) mod stats;

use crate::check::{check_length, check_not_infinite};
use crate::error::{Error, Result};
use crate::group::Layout;
use crate::numeric::Real;
use crate::numeric::radix::Scratch;
use stats::Formula;

/// Return the advantages of all rows under one formula. Infinite rewards and advantages beyond f64 are refused.
pub(in crate::advantage) fn score<R: Real, F: Formula>(
    rewards: &[R],
    layout: Layout<'_>,
    formula: &F,
    threads: usize,
) -> Result<Vec<f64>> {
    let mut advantages = vec![0.0; rewards.len()];
    fill(rewards, layout, formula, (&mut advantages, Scratch::default()), threads)?;
    Ok(advantages)
}

/// Compute [`score`] into an existing column.
pub(in crate::advantage) fn fill<R: Real, F: Formula>(
    rewards: &[R],
    layout: Layout<'_>,
    formula: &F,
    (advantages, room): (&mut [f64], Scratch<'_>),
    threads: usize,
) -> Result<()> {
    layout.check("rewards", rewards.len())?;
    check_length("advantages", advantages.len(), rewards.len())?;
    let fine = match layout {
        Layout::Coded(groups) => by_id::fill(rewards, groups, formula, (advantages, room), threads),
        Layout::Ragged(offsets) => contiguous::fill(rewards, offsets, formula, advantages, threads),
    };
    if fine { Ok(()) } else { check(advantages, rewards, layout) }
}

/// A row that has a reward and a group has an advantage, unless f64 has no such number.
pub(in crate::advantage) fn check<R: Real>(
    advantages: &[f64],
    rewards: &[R],
    layout: Layout<'_>,
) -> Result<()> {
    check_not_infinite("rewards", rewards)?;
    let wrong =
        |row: usize| !advantages[row].is_finite() && !rewards[row].widen().is_nan() && layout.has(row);
    match (0..advantages.len()).find(|&row| wrong(row)) {
        Some(index) => Err(Error::NotFinite { what: "advantage", index, value: advantages[index] }),
        None => Ok(()),
    }
}
