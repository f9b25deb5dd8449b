//! How much each row should count: the Boltzmann target, its log partition, and how far it is from uniform.
//!
//! ```text
//! w_i = exp(b s_i) / Z(scope of i),    Z(scope) = sum over its rows of exp(b s)
//! ```
//!
//! `s` is the score, `b` the inverse temperature: 0 is uniform, large is "the best only". A scope is what is
//! normalised together: the whole log, or each group of a partition, and then each scope has total weight 1.
//! Weights stay logarithms throughout; `exp(b s)` itself overflows at b s = 710.
//!
//! The inverse temperature is given, or found from the effective sample size (ESS) it should leave. The same
//! `b` means nothing across logs (it depends on the scale of the reward), a share of ESS means the same
//! everywhere. A target that cannot be reached is not an error: the nearest is taken, and [`Note`] says why.

mod levels;
mod temper;

pub use temper::{Tempered, temper};

use crate::error::{Error, Result, check_length, check_not_infinite, check_not_negative};
use crate::group::Groups;
use levels::Levels;

/// How the inverse temperature is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Temperature {
    /// So that the effective sample size is this share of the kept rows, in (0, 1].
    Ess(f64),
    /// Given: zero or more.
    Inverse(f64),
}

/// Why a wanted effective sample size was not reached, or what made the search idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// No row has both a score and a scope.
    NoRows,
    /// All scores are equal: every temperature gives the same weights, and 0 is taken.
    EqualScores,
    /// Scopes of uneven size are already below the share at inverse temperature 0, where it is largest.
    UnevenScopes,
    /// So many rows share the top score that the share stays above the wanted one: the smallest inverse
    /// temperature is taken whose ESS is within a millionth of the smallest there is.
    TiesAtTop,
}

impl Note {
    /// The name used in manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoRows => "no_rows",
            Self::EqualScores => "equal_scores",
            Self::UnevenScopes => "uneven_scopes",
            Self::TiesAtTop => "ties_at_top",
        }
    }
}

/// A target distribution over rows, and how concentrated it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// b of `exp(b * score)`.
    pub inverse_temperature: f64,
    /// The wanted ESS as a share of the kept rows; none where the inverse temperature was given.
    pub wanted_ess: Option<f64>,
    /// The ESS, in rows.
    pub reached_ess: f64,
    /// The ESS as a share of the kept rows; 0 for no rows.
    pub reached_share: f64,
    /// Why wanted and reached differ; none where they do not.
    pub note: Option<Note>,
    /// Log partition of each scope; minus infinity for a scope without rows.
    pub log_z: Vec<f64>,
    /// Log weight of each row, normalised within its scope; minus infinity for a dropped row.
    pub log_weights: Vec<f64>,
}

/// The largest inverse temperature that is tried, times the spread of the scores. At 1e4 a score lower by a
/// hundredth of the spread weighs exp(-100).
const CAP: f64 = 1e4;

/// Bisection halves a float interval to neighbours in fewer steps than this from any start with `CAP` above.
const STEPS: usize = 200;

/// How close to the smallest reachable ESS counts as there.
const NEAR: f64 = 1e-6;

/// The Boltzmann target of `scores` within the scopes of `partition`.
///
/// ```text
/// log w_i = b s_i - log Z(scope of i),    log Z(scope) = log sum_{j in scope} exp(b s_j)
/// ESS     = S^2 / sum_scope exp(LSE(2 b s) - 2 LSE(b s))        (S scopes, each of total weight 1)
/// ```
///
/// A row with a NaN score or without a scope is a dropped row: its log weight is minus infinity, and it is in
/// no sum. For [`Temperature::Ess`] the smallest b in `[0, 1e4 / spread]` is taken whose ESS is at most the
/// wanted share of the kept rows, by bisection down to neighbouring floats: the same bits on every machine,
/// and in whatever order the rows come.
///
/// Shapes: scores `[B]`, log weights `[B]`, log Z `[scopes]`. Cost: one sort of the scores, then about 70
/// passes over the distinct scores for a search, one for a given b.
/// References: Peters and Schaal 2007 (RWR); `FlowRL` (arXiv:2509.15207) for the name of the target; Kish 1965.
///
/// # Errors
/// [`Error::Length`] where scores and partition differ in rows; [`Error::NotFinite`] for an infinite score, a
/// spread or a log Z beyond f64, or an infinite inverse temperature; [`Error::Fraction`] for a share outside
/// (0, 1]; [`Error::Negative`] for a negative inverse temperature.
pub fn boltzmann(scores: &[f64], partition: &Groups, temperature: Temperature) -> Result<Target> {
    check_temperature(temperature)?;
    let levels = checked_levels(scores, partition)?;
    let (inverse_temperature, wanted_ess, note) = match temperature {
        Temperature::Inverse(given) => (given, None, (levels.kept == 0).then_some(Note::NoRows)),
        Temperature::Ess(wanted) => {
            let (found, note) = solve(&levels, wanted);
            (found, Some(wanted), note)
        }
    };
    let (log_z, log_weights) = weigh(&levels, scores, partition, inverse_temperature)?;
    Ok(Target {
        inverse_temperature,
        wanted_ess,
        reached_ess: levels.ess(inverse_temperature),
        reached_share: levels.share(inverse_temperature),
        note,
        log_z,
        log_weights,
    })
}

fn checked_levels(scores: &[f64], partition: &Groups) -> Result<Levels> {
    check_length("scores", scores.len(), partition.rows())?;
    check_not_infinite("score", scores)?;
    Levels::new(scores, partition)
}

fn check_temperature(temperature: Temperature) -> Result<()> {
    match temperature {
        Temperature::Ess(share) if share > 0.0 && share <= 1.0 => Ok(()),
        Temperature::Ess(value) => Err(Error::Fraction { what: "ess", value }),
        Temperature::Inverse(value) => check_inverse_temperature(0, value),
    }
}

fn check_inverse_temperature(index: usize, value: f64) -> Result<()> {
    if value == f64::INFINITY {
        return Err(Error::NotFinite { what: "inverse_temperature", index, value });
    }
    check_not_negative("inverse_temperature", value)
}

/// The inverse temperature for a wanted share, and what stood in the way.
fn solve(levels: &Levels, wanted: f64) -> (f64, Option<Note>) {
    if levels.kept == 0 {
        return (0.0, Some(Note::NoRows));
    }
    if levels.spread <= 0.0 {
        return (0.0, Some(Note::EqualScores));
    }
    let uniform = levels.share(0.0);
    if uniform <= wanted {
        return (0.0, (uniform < wanted).then_some(Note::UnevenScopes));
    }
    let cap = (CAP / levels.spread).min(f64::MAX);
    if levels.share(cap) > wanted {
        let least = levels.ess(cap) * (1.0 + NEAR);
        return (smallest(cap, |b| levels.ess(b) <= least), Some(Note::TiesAtTop));
    }
    (smallest(cap, |b| levels.share(b) <= wanted), None)
}

/// The smallest b in `[0, cap]` for which `there` holds, given that it holds at `cap` and from b on upwards.
///
/// Newton or secant steps would need fewer passes, but end on a neighbour that depends on where they began.
fn smallest(cap: f64, there: impl Fn(f64) -> bool) -> f64 {
    if there(0.0) {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, cap);
    for _ in 0..STEPS {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if there(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// log Z of each scope and the log weight of each row.
///
/// A weight is taken relative to the top of its scope, `b (s - top) - log sum exp(b (s - top))`, which is
/// `b s - log Z` without the two large numbers that cancel.
fn weigh(levels: &Levels, scores: &[f64], partition: &Groups, b: f64) -> Result<(Vec<f64>, Vec<f64>)> {
    let mut log_z = vec![f64::NEG_INFINITY; partition.len()];
    let mut log_weights = vec![f64::NEG_INFINITY; scores.len()];
    for (scope, (members, sums)) in partition.iter().zip(levels.sums(b)).enumerate() {
        let Some(sums) = sums else { continue };
        let (top, log_sum) = (levels.top(scope), sums.log());
        log_z[scope] = b * top + log_sum;
        for row in members.iter().map(|&row| row as usize).filter(|&row| !scores[row].is_nan()) {
            log_weights[row] = b * (scores[row] - top) - log_sum;
        }
    }
    match log_z.iter().position(|value| value.is_nan() || *value == f64::INFINITY) {
        Some(index) => Err(Error::NotFinite { what: "log_z", index, value: log_z[index] }),
        None => Ok((log_z, log_weights)),
    }
}

/// Refuses a list of inverse temperatures that holds one [`boltzmann`] would refuse.
fn check_inverse_temperatures(values: &[f64]) -> Result<()> {
    values.iter().enumerate().try_for_each(|(index, &value)| check_inverse_temperature(index, value))
}
