//! Trajectory balance: a regression that is 0 where the policy is the Boltzmann target of the reward.

use super::arithmetic::{RealArithmetic, sum_of_kept_differences};
use super::batch_statistics::Evaluation;
use super::ratio::Power;
use super::rollouts::{PIECE, RolloutPart, Rollouts};
use super::row_sums::{RolloutGroups, RowSummary, collect_row_facts, fill_rows};
use crate::check::{check_length, check_range};
use crate::error::Result;

/// A point in the axes of balances.
///
/// ```text
/// residual_i = k length(logp_i - anchor_i) + log_z_i - c r_i,    loss = sum_i weight_i g(residual_i) / denominator
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Balance<'a> {
    /// The policy that the target tilts.
    pub anchor: Anchor,
    /// Mean or sum of the log-probabilities of a rollout.
    pub length: Power,
    /// k: the factor of the log ratio to the anchor.
    pub drift: f64,
    /// c: the factor of the reward.
    pub reward: f64,
    /// The log partition function.
    pub log_z: LogZ<'a>,
    /// The width beyond which the cost is a line; infinite for a square.
    pub width: f64,
    /// Distances from 1 beyond which a token that moved where its reward sends it is left out; None for all tokens.
    pub choice: Option<(f64, f64)>,
    /// Importance weight of a rollout: of the mean or the sum of its log ratios, within a floor and a ceiling.
    pub weight: Option<(Power, f64, f64)>,
    /// The number of rollouts of the whole batch.
    pub denominator: f64,
}

/// The policy that a target tilts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// None: the uniform one.
    None,
    /// The behaviour policy.
    Behaviour,
    /// The reference policy.
    Reference,
}

/// The log partition function of a balance.
#[derive(Clone, Copy, Debug)]
pub enum LogZ<'a> {
    /// 0, or in the rewards.
    None,
    /// One of each rollout's prompt; the loss has a derivative by it. `[B]`
    Learned(&'a [f64]),
    /// Minus the weighted mean of the residual over the rollout's group, as a constant: the optimum of the group. The
    /// group of each rollout, negative for none. `[B]`
    GroupOptimum(&'a [i64]),
}

/// Facts of a rollout: first sums over its tokens, then its residual.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    counted: bool,
    chosen: usize,
    residual: f64,
    weight: f64,
    slope: f64,
}

/// Compute a balance, its derivative by each log-probability, and that by each log Z.
///
/// `by_log_z` is written where log Z is learned. The statistics have in `ratio` those of tokens. Shapes: `rewards` and
/// `by_log_z` `[B]`, `coefficient` `[N]`, all of it written. Cost: two reads of the columns, one write.
///
/// # Errors
/// [`Error::Length`](crate::Error::Length) for columns that do not match; [`Error::Range`](crate::Error::Range) for a
/// denominator below 1.
pub fn balance<T: RealArithmetic>(
    rollouts: &Rollouts<'_, T>,
    rewards: &[f64],
    objective: &Balance<'_>,
    coefficient: &mut [T],
    by_log_z: &mut [f64],
    threads: usize,
) -> Result<(Evaluation, Residuals)> {
    let rows = rollouts.offsets.len();
    check_length("coefficient", coefficient.len(), rollouts.logp.len())?;
    check_length("rewards", rewards.len(), rows)?;
    check_range("denominator", objective.denominator, 1.0, f64::MAX)?;
    if let LogZ::Learned(log_z) = objective.log_z {
        check_length("log_z", log_z.len(), rows)?;
        check_length("log_z_coefficients", by_log_z.len(), rows)?;
    }
    if let LogZ::GroupOptimum(groups) = objective.log_z {
        check_length("groups", groups.len(), rows)?;
    }
    let formula = Formula { objective, rewards };
    let (mut facts, statistics) = collect_row_facts(rollouts, threads, &formula);
    add_log_z(&mut facts, objective);
    let loss = set_slopes(&mut facts, objective);
    if let LogZ::Learned(_) = objective.log_z {
        for (out, row) in by_log_z.iter_mut().zip(&facts) {
            *out = row.slope;
        }
    }
    fill_rows(rollouts, coefficient, threads, |row, part, out| {
        let Row { slope, chosen, .. } = facts[row];
        let share = if objective.length == Power::Mean { 1.0 / chosen.max(1) as f64 } else { 1.0 };
        let value = T::narrow(slope * objective.drift * share);
        match formula.choice(row) {
            None => part.spread(value, out),
            Some(choice) => {
                let mut room = [false; PIECE];
                for (piece, out) in part.pieces().zip(out.chunks_mut(PIECE)) {
                    choice.within(&piece, &mut room).spread(value, out);
                }
            }
        }
    });
    Ok((Evaluation { loss, statistics }, Residuals::of(&facts)))
}

/// Mean and standard deviation (ddof 0) of the residuals of the rollouts that count; 0 without one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residuals {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub std: f64,
}

impl Residuals {
    fn of(rows: &[Row]) -> Self {
        let counted = || rows.iter().filter(|row| row.counted).map(|row| row.residual);
        let count = counted().count().max(1) as f64;
        let mean = counted().sum::<f64>() / count;
        let squares: f64 = counted().map(|residual| (residual - mean) * (residual - mean)).sum();
        Self { mean, std: (squares / count).sqrt() }
    }
}

/// A balance and the rewards of its rollouts.
struct Formula<'a> {
    objective: &'a Balance<'a>,
    rewards: &'a [f64],
}

/// Sums over the tokens of a rollout that count.
#[derive(Clone, Copy, Default)]
struct ChosenSums {
    tokens: usize,
    /// Log-probability over the anchor.
    length: f64,
    /// Log ratio.
    moved: f64,
}

impl ChosenSums {
    #[inline(always)]
    fn of<T: RealArithmetic>(part: &RolloutPart<'_, T>, anchor: Anchor) -> Self {
        let other = match anchor {
            Anchor::None => None,
            Anchor::Behaviour => part.old,
            Anchor::Reference => part.reference,
        };
        let length = match other {
            Some(other) => sum_of_kept_differences(part.logp, other, part.keep),
            None => part.kept_sum(),
        };
        Self { tokens: part.kept(), length, moved: part.sum_log_ratio() }
    }

    fn add(self, other: Self) -> Self {
        Self {
            tokens: self.tokens + other.tokens,
            length: self.length + other.length,
            moved: self.moved + other.moved,
        }
    }
}

impl Formula<'_> {
    /// Return the choice among the tokens of a rollout; None for all.
    fn choice(&self, row: usize) -> Option<TokenChoice> {
        self.objective.choice.and_then(|distances| TokenChoice::of(distances, self.rewards[row]))
    }
}

impl<T: RealArithmetic> RowSummary<T> for Formula<'_> {
    type Row = Row;

    #[inline(always)]
    fn of(&self, row: usize, part: &RolloutPart<'_, T>) -> Row {
        let objective = self.objective;
        let chosen = match self.choice(row) {
            None => ChosenSums::of(part, objective.anchor),
            Some(choice) => {
                let (mut chosen, mut room) = (ChosenSums::default(), [false; PIECE]);
                for piece in part.pieces() {
                    let piece = choice.within(&piece, &mut room);
                    chosen = chosen.add(ChosenSums::of(&piece, objective.anchor));
                }
                chosen
            }
        };
        let count = chosen.tokens.max(1);
        let drift = objective.drift * objective.length.of(chosen.length, count);
        let weight = objective.weight.map_or(1.0, |(power, floor, ceiling)| {
            let ratio = libm::exp(power.of(chosen.moved, count));
            if ratio < floor {
                floor
            } else if ratio > ceiling {
                ceiling
            } else {
                ratio
            }
        });
        let residual = drift - objective.reward * self.rewards[row];
        Row { counted: part.kept() > 0, chosen: chosen.tokens, residual, weight, slope: 0.0 }
    }
}

/// Add log Z to the residuals, which come without it.
fn add_log_z(rows: &mut [Row], objective: &Balance<'_>) {
    match objective.log_z {
        LogZ::None => {}
        LogZ::Learned(log_z) => {
            for (row, log_z) in rows.iter_mut().zip(log_z) {
                row.residual += log_z;
            }
        }
        LogZ::GroupOptimum(groups) => {
            let groups = RolloutGroups::of(groups, |row| rows[row].counted);
            for members in groups.members() {
                let weights: f64 = members.iter().map(|&row| rows[row].weight).sum();
                let total: f64 = members.iter().map(|&row| rows[row].weight * rows[row].residual).sum();
                let mean = if weights == 0.0 { total } else { total / weights };
                for &row in members {
                    rows[row].residual -= mean;
                }
            }
        }
    }
}

/// Set the slope of each residual, and return the loss.
fn set_slopes(rows: &mut [Row], objective: &Balance<'_>) -> f64 {
    let (width, mut loss) = (objective.width, 0.0);
    for row in rows {
        if !row.counted {
            row.residual = 0.0;
            continue;
        }
        let size = row.residual.abs();
        let near = size <= width || size.is_nan();
        let cost = if near { row.residual * row.residual } else { width * (2.0 * size - width) };
        let slope = if near { 2.0 * row.residual } else { 2.0 * width * row.residual.signum() };
        loss += row.weight * cost;
        row.slope = row.weight * slope / objective.denominator;
    }
    loss / objective.denominator
}

/// The tokens of a rollout that a balance takes: those with a log ratio that is not beyond a bound, where its reward sends
/// it.
#[derive(Clone, Copy)]
enum TokenChoice {
    AtMost(f64),
    AtLeast(f64),
}

impl TokenChoice {
    /// Return the choice for a reward, by the distances of the ratio from 1; None, for all tokens, where it is 0.
    fn of((low, high): (f64, f64), reward: f64) -> Option<Self> {
        if reward > 0.0 {
            Some(Self::AtMost(libm::log1p(high)))
        } else if reward < 0.0 {
            Some(Self::AtLeast(libm::log1p(-low)))
        } else {
            None
        }
    }

    /// Return a piece with the mask of the tokens that are left in.
    #[inline(always)]
    fn within<'a, T: RealArithmetic>(
        self,
        piece: &RolloutPart<'a, T>,
        room: &'a mut [bool; PIECE],
    ) -> RolloutPart<'a, T> {
        let Some(old) = piece.old else { return *piece };
        let given = piece.logp.iter().zip(old).zip(piece.keep);
        for (chosen, ((&logp, &old), &keep)) in room.iter_mut().zip(given) {
            let log_ratio = logp - old;
            let beyond = match self {
                Self::AtMost(bound) => log_ratio > T::narrow(bound),
                Self::AtLeast(bound) => log_ratio < T::narrow(bound),
            };
            *chosen = keep & !beyond;
        }
        RolloutPart { keep: &room[..piece.len()], ..*piece }
    }
}
