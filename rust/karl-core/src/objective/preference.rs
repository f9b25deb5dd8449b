//! Preferences: losses of the margin between an answer that was preferred and one that was not, or of one answer with a
//! label.

use super::arithmetic::RealArithmetic;
use super::balance::Anchor;
use super::batch_statistics::Evaluation;
use super::ratio::Power;
use super::rollouts::{RolloutPart, Rollouts};
use super::row_sums::{RolloutGroups, RowSummary, collect_row_facts, fill_rows};
use crate::check::{check_length, check_range};
use crate::error::{Error, Result};

/// A point in the axes of preferences, for one batch.
///
/// ```text
/// s_i  = length(logp_i - anchor_i)
/// loss = sum over margins of w coef link(margin) / denominator  -  likelihood sum over chosen of mean(logp_i) / denominator
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Preference<'a> {
    /// The policy that log-probabilities are compared with: none, or the reference.
    pub anchor: Anchor,
    /// Mean or sum of the log-probabilities of an answer.
    pub length: Power,
    /// What is compared.
    pub margin: Margin<'a>,
    /// What a margin costs.
    pub link: Link,
    /// Factor of the link.
    pub coef: f64,
    /// Factor of the negative log-likelihood a token of preferred answers.
    pub likelihood: f64,
    /// True for an answer that was preferred. `[B]`
    pub preferred: &'a [bool],
    /// The number of pairs of the whole batch, or of answers where each has a margin of its own.
    pub denominator: f64,
}

/// What answers are compared with.
#[derive(Clone, Copy, Debug)]
pub enum Margin<'a> {
    /// `scale (s_chosen - s_rejected) - target` of each pair.
    Difference {
        /// The pair of each answer. `[B]`
        pairs: &'a [i64],
        /// Factor of the difference.
        scale: f64,
        /// The margin that is wanted.
        target: f64,
    },
    /// `odds(s_chosen) - odds(s_rejected)` of each pair, `odds(s) = s - ln(1 - exp(s))`.
    LogOdds {
        /// The pair of each answer. `[B]`
        pairs: &'a [i64],
    },
    /// `scale (s - baseline)` of an answer that was preferred, minus that of another: no pairs.
    Baseline {
        /// The baseline of each answer. `[B]`
        baselines: &'a [f64],
        /// Factor of the difference.
        scale: f64,
        /// The weight of preferred answers, and of others.
        weights: (f64, f64),
    },
}

/// Cost of a margin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Link {
    /// `-(1 - smoothing) ln sigmoid(margin) - smoothing ln sigmoid(-margin)`.
    LogSigmoid {
        /// The share of pairs taken to be labelled the wrong way round.
        smoothing: f64,
    },
    /// `(margin - target)^2`.
    Square {
        /// The margin without cost.
        target: f64,
    },
    /// `1 - sigmoid(margin)`.
    Sigmoid,
}

impl Link {
    /// Return the cost of a margin, and its derivative.
    fn of(self, margin: f64) -> (f64, f64) {
        match self {
            Self::LogSigmoid { smoothing } => {
                let right = (1.0 - smoothing) * softplus(-margin) + smoothing * softplus(margin);
                (right, smoothing * sigmoid(margin) - (1.0 - smoothing) * sigmoid(-margin))
            }
            Self::Square { target } => ((margin - target) * (margin - target), 2.0 * (margin - target)),
            Self::Sigmoid => (sigmoid(-margin), -sigmoid(margin) * sigmoid(-margin)),
        }
    }
}

/// Means over the answers of a batch; NaN where there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margins {
    /// Mean difference of the scaled scores of preferred answers and others, before any target: over pairs, or of the
    /// two means where there are none.
    pub margin: f64,
    /// Share of pairs whose preferred answer has the larger score, or of answers on the right side of their baseline.
    pub accuracy: f64,
    /// Mean scaled score of preferred answers.
    pub chosen: f64,
    /// Mean scaled score of the others.
    pub rejected: f64,
}

/// Facts of an answer.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    tokens: usize,
    /// The reduced log-probability over the anchor.
    score: f64,
    /// Mean log-probability of a token.
    mean: f64,
    /// Derivative by the score.
    slope: f64,
    /// Derivative by the mean.
    by_mean: f64,
}

/// Compute a preference loss, its derivative by each log-probability, and the margins.
///
/// Shapes: `preferred` `[B]`, `coefficient` `[N]`, all of it written. Cost: two reads of the columns, one write.
///
/// # Errors
/// [`Error::Length`] for columns that do not match; [`Error::Range`] for a denominator below 1; [`Error::Pair`] for a
/// pair that is not one preferred answer and one other.
pub fn preference<T: RealArithmetic>(
    rollouts: &Rollouts<'_, T>,
    objective: &Preference<'_>,
    coefficient: &mut [T],
    threads: usize,
) -> Result<(Evaluation, Margins)> {
    let rows = rollouts.offsets.len();
    check_length("coefficient", coefficient.len(), rollouts.logp.len())?;
    check_length("preferred", objective.preferred.len(), rows)?;
    check_range("denominator", objective.denominator, 1.0, f64::MAX)?;
    if objective.anchor == Anchor::Reference && rollouts.reference.is_none() {
        return Err(Error::Length { what: "logp_ref", got: 0, wanted: rollouts.logp.len() });
    }
    let (mut facts, statistics) =
        collect_row_facts(rollouts, threads, &Score { anchor: objective.anchor, length: objective.length });
    let (compared, margins) = match objective.margin {
        Margin::Difference { pairs, scale, target } => {
            check_length("pairs", pairs.len(), rows)?;
            compare_pairs(&mut facts, objective, pairs, target, |score| (scale * score, scale))?
        }
        Margin::LogOdds { pairs } => {
            check_length("pairs", pairs.len(), rows)?;
            compare_pairs(&mut facts, objective, pairs, 0.0, log_odds)?
        }
        Margin::Baseline { baselines, scale, weights } => {
            check_length("baselines", baselines.len(), rows)?;
            compare_with_baselines(&mut facts, objective, baselines, scale, weights)
        }
    };
    let likelihood = add_likelihood(&mut facts, objective);
    fill_rows(rollouts, coefficient, threads, |row, part, out| {
        let Row { tokens, slope, by_mean, .. } = facts[row];
        let each = 1.0 / tokens.max(1) as f64;
        let share = if objective.length == Power::Mean { each } else { 1.0 };
        part.spread(T::narrow(slope * share + by_mean * each), out);
    });
    Ok((Evaluation { loss: (compared + likelihood) / objective.denominator, statistics }, margins))
}

/// The score of an answer: its reduced log-probability over the anchor.
struct Score {
    anchor: Anchor,
    length: Power,
}

impl<T: RealArithmetic> RowSummary<T> for Score {
    type Row = Row;

    #[inline(always)]
    fn of(&self, _: usize, part: &RolloutPart<'_, T>) -> Row {
        let (tokens, total) = (part.kept(), part.kept_sum());
        let over = match part.reference {
            Some(reference) if self.anchor == Anchor::Reference => part.kept_sum_over(reference),
            _ => total,
        };
        let count = tokens.max(1);
        Row { tokens, score: self.length.of(over, count), mean: total / count as f64, ..Row::default() }
    }
}

/// Set the slopes of the answers of each pair; return the sum of the costs, and the margins.
///
/// `scaled` returns what of a score enters the margin, and its derivative.
fn compare_pairs(
    rows: &mut [Row],
    objective: &Preference<'_>,
    pairs: &[i64],
    target: f64,
    scaled: impl Fn(f64) -> (f64, f64),
) -> Result<(f64, Margins)> {
    let (mut cost, mut sums) = (0.0, MarginSums::default());
    for members in RolloutGroups::of(pairs, |row| rows[row].tokens > 0).members() {
        let preferred = members.iter().filter(|&&row| objective.preferred[row]).count();
        let &[first, second] = members else {
            return Err(Error::Pair {
                pair: pairs[members[0]],
                preferred,
                others: members.len() - preferred,
            });
        };
        if preferred != 1 || pairs[first] < 0 {
            return Err(Error::Pair { pair: pairs[first], preferred, others: 2 - preferred });
        }
        let (chosen, rejected) = if objective.preferred[first] { (first, second) } else { (second, first) };
        let ((better, by_better), (worse, by_worse)) =
            (scaled(rows[chosen].score), scaled(rows[rejected].score));
        let (paid, slope) = objective.link.of(better - worse - target);
        cost += objective.coef * paid;
        let slope = objective.coef * slope / objective.denominator;
        rows[chosen].slope = slope * by_better;
        rows[rejected].slope = -slope * by_worse;
        sums.add(true, better, better > worse);
        sums.add(false, worse, better > worse);
    }
    Ok((cost, sums.means()))
}

/// Set the slope of each answer by its own baseline; return the sum of the costs, and the margins.
fn compare_with_baselines(
    rows: &mut [Row],
    objective: &Preference<'_>,
    baselines: &[f64],
    scale: f64,
    (desirable, undesirable): (f64, f64),
) -> (f64, Margins) {
    let (mut cost, mut sums) = (0.0, MarginSums::default());
    for ((row, &baseline), &preferred) in rows.iter_mut().zip(baselines).zip(objective.preferred) {
        if row.tokens == 0 {
            continue;
        }
        let (sign, weight) = if preferred { (1.0, desirable) } else { (-1.0, undesirable) };
        let margin = sign * scale * (row.score - baseline);
        let (paid, slope) = objective.link.of(margin);
        cost += weight * objective.coef * paid;
        row.slope = weight * objective.coef * slope * sign * scale / objective.denominator;
        sums.add(preferred, scale * row.score, margin > 0.0);
    }
    (cost, sums.means())
}

/// Add the log-likelihood of preferred answers; return the sum of its costs.
fn add_likelihood(rows: &mut [Row], objective: &Preference<'_>) -> f64 {
    let mut cost = 0.0;
    if objective.likelihood == 0.0 {
        return cost;
    }
    for (row, _) in
        rows.iter_mut().zip(objective.preferred).filter(|(row, preferred)| row.tokens > 0 && **preferred)
    {
        cost -= objective.likelihood * row.mean;
        row.by_mean = -objective.likelihood / objective.denominator;
    }
    cost
}

/// Sums over the answers of a batch.
#[derive(Default)]
struct MarginSums {
    chosen: (f64, u64),
    rejected: (f64, u64),
    right: u64,
}

impl MarginSums {
    fn add(&mut self, preferred: bool, score: f64, right: bool) {
        let side = if preferred { &mut self.chosen } else { &mut self.rejected };
        side.0 += score;
        side.1 += 1;
        self.right += u64::from(right);
    }

    fn means(&self) -> Margins {
        let mean = |(total, count): (f64, u64)| total / count as f64;
        let (chosen, rejected) = (mean(self.chosen), mean(self.rejected));
        let accuracy = mean((self.right as f64, self.chosen.1 + self.rejected.1));
        Margins { margin: chosen - rejected, accuracy, chosen, rejected }
    }
}

/// Return `ln(1 + exp(x))`, which is `-ln sigmoid(-x)`.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + libm::log1p(libm::exp(-x.abs()))
}

fn sigmoid(x: f64) -> f64 {
    // Of the side on which exp does not overflow.
    let less = libm::exp(-x.abs());
    if x >= 0.0 { 1.0 / (1.0 + less) } else { less / (1.0 + less) }
}

/// Return the log odds of a probability by its logarithm, and their derivative by it.
fn log_odds(logp: f64) -> (f64, f64) {
    // A probability of 1 has infinite odds, and a slope of infinity times 0: the next smaller one has finite ones.
    let logp = logp.min(-f64::EPSILON);
    let other = -libm::expm1(logp);
    // Mächler 2012, "Accurately computing log(1 - exp(-|a|))": exact on both sides of ln 2.
    let log_other =
        if logp > -std::f64::consts::LN_2 { libm::log(other) } else { libm::log1p(-libm::exp(logp)) };
    (logp - log_other, 1.0 / other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_and_slopes_at_any_margin() {
        let links = [Link::LogSigmoid { smoothing: 0.1 }, Link::Square { target: 5.0 }, Link::Sigmoid];
        for link in links {
            for margin in [-30.0, -2.0, -1e-3, 0.0, 0.7, 4.0, 30.0] {
                let step = 1e-5;
                let slope = (link.of(margin + step).0 - link.of(margin - step).0) / (2.0 * step);
                assert!((link.of(margin).1 - slope).abs() < 1e-6, "{link:?} at {margin}");
            }
            assert!(link.of(f64::NAN).0.is_nan() && link.of(f64::NAN).1.is_nan());
        }
        assert_eq!(Link::LogSigmoid { smoothing: 0.0 }.of(-1e4), (1e4, -1.0));
        assert_eq!(Link::LogSigmoid { smoothing: 0.0 }.of(1e4), (0.0, 0.0));
    }

    #[test]
    fn log_odds_are_finite_up_to_certainty() {
        for logp in [-700.0, -3.0, -0.7, -0.6, -1e-9] {
            let p = libm::exp(logp);
            let (odds, slope) = log_odds(logp);
            assert!((odds - libm::log(p / -libm::expm1(logp))).abs() < 1e-9 * odds.abs().max(1.0), "{logp}");
            assert!((slope * -libm::expm1(logp) - 1.0).abs() < 1e-12);
        }
        assert!(log_odds(0.0).0.is_finite() && log_odds(0.0).1.is_finite());
    }
}
