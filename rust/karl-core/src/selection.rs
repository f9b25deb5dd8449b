//! From columns to a draw, in one call.
//!
//! ```text
//!  rewards, groups ──► score ─────────────┐
//!      │                                  ▼
//!      └──► rules ──► verdicts ──► scores of kept rows ──► target ──► log weights
//!                                                                         │
//!                              ranking ◄── keys ◄── seed, ids of records ◄┘
//! ```
//!
//! Scores are taken over every record that has a reward, before any rule: whether a rollout was above the mean
//! of its group does not depend on which rows are wanted afterwards. The rules then decide which rows may be
//! drawn, and the target is a distribution over those.

use crate::advantage::Score;
use crate::error::{Error, Result, check_length};
use crate::filter::{Rules, Verdict, missing_group, missing_log_weight, missing_reward};
use crate::group::Groups;
use crate::keys::Keys;
use crate::sample::{Ranking, Sampler};
use crate::target::{Target, Temperature, boltzmann};

/// The columns of a log, one element a row, rows in the canonical order of their ids.
#[derive(Clone, Copy, Debug)]
pub struct Population<'a> {
    /// What each record is to the random numbers. `[B]`
    pub keys: &'a Keys,
    /// NaN where the reward is missing. `[B]`
    pub rewards: &'a [f64],
    /// The prompt each row is a rollout of.
    pub groups: &'a Groups,
    /// What is normalised together: [`Groups::whole`], the groups, or a field. Give a row without a group its
    /// own code; a row without a scope is dropped as [`Verdict::MissingGroup`].
    pub scopes: &'a Groups,
    /// The content of each row, for [`Rules::dedup`]. `[B]`
    pub fingerprints: Option<&'a [u128]>,
}

/// The choices of a draw: one point on each axis, and the seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// What is tempered.
    pub score: Score,
    /// Which rows may be drawn.
    pub rules: Rules,
    /// How sharply.
    pub temperature: Temperature,
    /// By which law.
    pub sampler: Sampler,
    /// Which of all draws.
    pub seed: u64,
}

/// A draw: why each row is in or out, with which weight, and in which order.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// The score of each row, dropped rows included; NaN where there is none. `[B]`
    pub scores: Vec<f64>,
    /// What became of each row. `[B]`
    pub verdicts: Vec<Verdict>,
    /// The distribution over the rows that passed the rules.
    pub target: Target,
    /// The kept rows in the order of the draw.
    pub ranking: Ranking,
}

/// Scores, filters, tempers and ranks the rows of a log.
///
/// A pure function of its arguments. Cost: linear, plus one sort of the scores (and of the fingerprints for
/// `dedup`); the ranking sorts what is taken from it.
///
/// ```
/// use karl_core::advantage::Score;
/// use karl_core::filter::Rules;
/// use karl_core::group::Groups;
/// use karl_core::keys::Keys;
/// use karl_core::sample::Sampler;
/// use karl_core::selection::{Population, Settings, select};
/// use karl_core::target::Temperature;
///
/// let groups = Groups::from_ids(&[1, 1, 2, 2])?;
/// let population = Population {
///     keys: &Keys::of_indices(4),
///     rewards: &[1.0, 0.0, 1.0, f64::NAN],
///     groups: &groups,
///     scopes: &Groups::whole(4)?,
///     fingerprints: None,
/// };
/// let settings = Settings {
///     score: Score::Centre,
///     rules: Rules { drop_constant_groups: true, ..Rules::default() },
///     temperature: Temperature::Inverse(2.0),
///     sampler: Sampler::Gumbel,
///     seed: 7,
/// };
/// let mut selection = select(&population, &settings)?;
/// let mut drawn = selection.ranking.take(10);
/// drawn.sort_unstable();
/// assert_eq!(drawn, [0, 1]);
/// # Ok::<(), karl_core::Error>(())
/// ```
///
/// # Errors
/// [`Error::Length`] for columns that differ in rows, or `dedup` without fingerprints;
/// [`Error::NeedsGroups`] for a group score over rows of which none has a group; else as
/// [`Score::apply`], [`Rules::mark`] and [`boltzmann`].
pub fn select(population: &Population, settings: &Settings) -> Result<Selection> {
    check(population, settings)?;
    let scores = settings.score.apply(population.rewards, population.groups)?;
    let verdicts = judge(population, settings, None)?;
    rank(population, settings, scores, verdicts)
}

/// As [`select`], with log-weights that somebody else made: `log w_i = given_i - log sum exp(given)`.
///
/// That is the Boltzmann target of the given numbers at inverse temperature 1, and they stand as the scores of the
/// selection. A row whose number is NaN or minus infinity is dropped.
///
/// # Errors
/// [`Error::Length`] for columns that differ in rows; [`Error::NotFinite`] for plus infinity; else as [`select`].
pub fn select_weighted(
    population: &Population,
    log_weights: &[f64],
    rules: Rules,
    sampler: Sampler,
    seed: u64,
) -> Result<Selection> {
    let settings =
        Settings { score: Score::Raw, rules, temperature: Temperature::Inverse(1.0), sampler, seed };
    check(population, &settings)?;
    let verdicts = judge(population, &settings, Some(log_weights))?;
    let score = |&given: &f64| if given == f64::NEG_INFINITY { f64::NAN } else { given };
    rank(population, &settings, log_weights.iter().map(score).collect(), verdicts)
}

fn rank(
    population: &Population,
    settings: &Settings,
    scores: Vec<f64>,
    verdicts: Vec<Verdict>,
) -> Result<Selection> {
    let target = boltzmann(&kept_scores(&scores, &verdicts), population.scopes, settings.temperature)?;
    let keys = settings.sampler.keys(&target.log_weights, population.keys, settings.seed)?;
    Ok(Selection { scores, verdicts, target, ranking: Ranking::new(keys)? })
}

impl Selection {
    /// The score of each row in the target, and NaN for the rows that the rules dropped: what
    /// [`temper`](crate::target::temper) takes.
    #[must_use]
    pub fn kept_scores(&self) -> Vec<f64> {
        let kept = |(&score, &log): (&f64, &f64)| if log > f64::NEG_INFINITY { score } else { f64::NAN };
        self.scores.iter().zip(&self.target.log_weights).map(kept).collect()
    }
}

fn check(population: &Population, settings: &Settings) -> Result<()> {
    let rows = population.rewards.len();
    check_length("keys", population.keys.len(), rows)?;
    check_length("groups", population.groups.rows(), rows)?;
    check_length("scopes", population.scopes.rows(), rows)?;
    if settings.score.needs_groups() && rows > 0 && population.groups.grouped() == 0 {
        return Err(Error::NeedsGroups { what: settings.score.name() });
    }
    Ok(())
}

/// The verdicts of the rules that come before the draw.
fn judge(population: &Population, settings: &Settings, log_weights: Option<&[f64]>) -> Result<Vec<Verdict>> {
    let mut verdicts = vec![Verdict::Kept; population.rewards.len()];
    missing_reward(&mut verdicts, population.rewards)?;
    missing_group(&mut verdicts, population.scopes)?;
    if settings.score.needs_groups() {
        missing_group(&mut verdicts, population.groups)?;
    }
    if let Some(log_weights) = log_weights {
        missing_log_weight(&mut verdicts, log_weights)?;
    }
    settings.rules.mark(&mut verdicts, population.rewards, population.groups, population.fingerprints)?;
    Ok(verdicts)
}

/// The scores of kept rows, and NaN for the others, which the target takes as dropped.
fn kept_scores(scores: &[f64], verdicts: &[Verdict]) -> Vec<f64> {
    let kept = |(&score, &verdict)| if verdict == Verdict::Kept { score } else { f64::NAN };
    scores.iter().zip(verdicts).map(kept).collect()
}
