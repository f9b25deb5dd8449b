//! From columns to a draw, in one call.
//!
//! ```text
//!  rewards, groups ──► shaping ──► score ─┐
//!      │                                  ▼
//!      └──► rules ──► verdicts ──► scores of kept rows ──► target ──► log weights
//!                                                                         │
//!                              ranking ◄── keys ◄── seed, ids of records ◄┘
//! ```
//!
//! Scores are taken over every record that has a reward, before any rule: whether a rollout was above the mean
//! of its group does not depend on which rows are wanted afterwards. The rules then decide which rows may be
//! drawn, and the target is a distribution over those. A shaped reward is for scores alone: rules and counts see the
//! reward as it is.

mod inputs;
mod log_z;
mod weight_factors;

pub use inputs::{Population, SelectionSettings};
pub use log_z::LogZRange;

use std::borrow::Cow;

use crate::advantage::engine::constant_groups::ConstantGroups;
use crate::advantage::{Grouped, Score};
use crate::check::{check_length, check_none_infinite};
use crate::error::{Error, Result};
use crate::filter::{
    ConstantCount, Verdict, count_constant, missing_group, missing_log_weight, missing_reward,
};
use crate::group::Scopes;
use crate::sample::{Copies, Ranking, Sampler, Weighted};
use crate::target::{Boltzmann, Rows, Temperature};

/// A draw before its rows are asked for: why each row is in or out, and with which weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// The score of each row, dropped rows included, NaN where there is none; none where the score is the reward as it
    /// is. `[B]`
    pub scores: Option<Vec<f64>>,
    /// Verdict on each row. `[B]`
    pub verdicts: Vec<Verdict>,
    /// Groups without any difference in reward, dropped or not.
    pub constant: ConstantCount,
    /// The distribution over the rows that passed the rules.
    pub target: Boltzmann,
    /// Factors on the weights beside those of the score, which the target includes; None without some.
    pub factored: Option<Factored>,
}

/// Factors on the weights, and what the target was without them.
#[derive(Clone, Debug, PartialEq)]
pub struct Factored {
    /// Target of the scores alone: its temperature is that of the selection.
    pub before: Boltzmann,
    /// Logarithm of the factor of each row. `[B]`
    log_factors: Vec<f64>,
    /// Log-weight of each row up to its scope, `b s_i + log f_i`. `[B]`
    exponents: Vec<f64>,
}

/// Scores, filters and tempers the rows of a log.
///
/// A pure function of its arguments. Cost: a few passes over the rows, and one sort of the fingerprints for `dedup`. A row
/// costs a byte, and eight for a score that is not the reward.
///
/// ```
/// use karl_core::advantage::Score;
/// use karl_core::filter::Rules;
/// use karl_core::group::{Groups, Scopes};
/// use karl_core::rng::keys::Keys;
/// use karl_core::sample::Sampler;
/// use karl_core::selection::{Population, SelectionSettings, select};
/// use karl_core::target::Temperature;
///
/// let groups = Groups::from_ids(&[1, 1, 2, 2])?;
/// let population = Population {
///     keys: &Keys::of_indices(4),
///     rewards: &[1.0, 0.0, 1.0, f64::NAN],
///     groups: &groups,
///     scopes: Scopes::Whole,
///     fingerprints: None,
///     digests: None,
/// };
/// let settings = SelectionSettings {
///     shaping: None,
///     score: Score::Centre,
///     rules: Rules { drop_constant_groups: true, ..Rules::default() },
///     temperature: Temperature::Inverse(2.0),
///     sampler: Sampler::Gumbel,
///     seed: 7,
///     threads: 1,
/// };
/// let selection = select(&population, &settings)?;
/// let mut drawn = selection.ranking(&population, &settings)?.take(10);
/// drawn.sort_unstable();
/// assert_eq!(drawn, [0, 1]);
/// # Ok::<(), karl_core::Error>(())
/// ```
///
/// # Errors
/// [`Error::Length`] for columns that differ in rows, or `dedup` without fingerprints;
/// [`Error::NeedsGroups`] for a group score over rows of which none has a group; else as
/// [`Score::apply`], [`Rules::mark`](crate::filter::Rules::mark) and [`Boltzmann::fit`].
pub fn select(population: &Population, settings: &SelectionSettings) -> Result<Selection> {
    check(population, settings)?;
    let (constancy, scores) = score(population, settings)?;
    let verdicts = judge(population, settings, &constancy, None)?;
    weigh(population, settings, &constancy, scores, verdicts)
}

/// Select rows as [`select`] does, by given log-weights: `log w_i = given_i - log sum exp(given)`.
///
/// This is the Boltzmann target of the given numbers at inverse temperature 1, and they are the scores of the
/// selection; the shaping, score and temperature of the settings are ignored. A row with NaN or minus infinity is
/// dropped.
///
/// # Errors
/// [`Error::Length`] for columns that differ in rows; [`Error::NotFinite`] for plus infinity; else as [`select`].
pub fn select_weighted(
    population: &Population,
    log_weights: &[f64],
    settings: &SelectionSettings,
) -> Result<Selection> {
    let settings =
        SelectionSettings { score: Score::Raw, temperature: Temperature::Inverse(1.0), ..*settings };
    check(population, &settings)?;
    let constancy = ConstantGroups::of(population.rewards, population.groups, settings.threads);
    let verdicts = judge(population, &settings, &constancy, Some(log_weights))?;
    let score = |&given: &f64| if given == f64::NEG_INFINITY { f64::NAN } else { given };
    weigh(population, &settings, &constancy, log_weights.iter().map(score).collect(), verdicts)
}

/// Select rows as [`select`] does, by given scores, such as advantages over a baseline. `[B]`
///
/// The shaping of the settings is ignored, and of their score only whether it needs groups matters: rows without a group
/// are dropped then. A row with a reward that passes the rules needs a score.
///
/// # Errors
/// [`Error::Length`] for columns that differ in rows; else as [`select`].
pub fn select_scored(
    population: &Population,
    scores: &[f64],
    settings: &SelectionSettings,
) -> Result<Selection> {
    check(population, settings)?;
    check_length("scores", scores.len(), population.rewards.len())?;
    let constancy = ConstantGroups::of(population.rewards, population.groups, settings.threads);
    let verdicts = judge(population, settings, &constancy, None)?;
    weigh(population, settings, &constancy, Cow::Owned(scores.to_vec()), verdicts)
}

/// Return which groups are constant, and the score of every row: from its shaped reward where there is a shaping.
fn score<'a>(
    population: &Population<'a>,
    settings: &SelectionSettings,
) -> Result<(ConstantGroups, Cow<'a, [f64]>)> {
    let (rewards, groups, threads) = (population.rewards, population.groups, settings.threads);
    let Some(shaping) = settings.shaping else {
        return settings.score.with_constancy(Grouped { rewards, groups, threads });
    };
    let (constancy, shaped) = (ConstantGroups::of(rewards, groups, threads), shaping.apply(rewards)?);
    if settings.score == Score::Raw {
        return Ok((constancy, Cow::Owned(shaped)));
    }
    let (_, scores) = settings.score.with_constancy(Grouped { rewards: &shaped, groups, threads })?;
    Ok((constancy, Cow::Owned(scores.into_owned())))
}

/// Return the target over the rows that passed.
fn weigh(
    population: &Population,
    settings: &SelectionSettings,
    constancy: &ConstantGroups,
    scores: Cow<'_, [f64]>,
    verdicts: Vec<Verdict>,
) -> Result<Selection> {
    let constant = count_constant(population.rewards, constancy, settings.threads);
    let rows = Rows { scores: &scores, verdicts: &verdicts, scopes: population.scopes };
    let target = fit(rows, settings.temperature, settings)?;
    let scores = if let Cow::Owned(scores) = scores { Some(scores) } else { None };
    Ok(Selection { scores, verdicts, constant, target, factored: None })
}

/// Fit a target, summed as the sampler sums it.
fn fit(rows: Rows<'_>, temperature: Temperature, settings: &SelectionSettings) -> Result<Boltzmann> {
    let target = Boltzmann::fit(rows, temperature, settings.threads)?;
    if settings.sampler == Sampler::WeightedReservoir { target.of_stream(rows) } else { Ok(target) }
}

impl Selection {
    /// Return the tempered score of each row. `[B]`
    #[must_use]
    pub fn scores<'a>(&'a self, rewards: &'a [f64]) -> &'a [f64] {
        self.scores.as_deref().unwrap_or(rewards)
    }

    /// Return the rows as the target sees them.
    #[must_use]
    pub fn rows<'a>(&'a self, population: &Population<'a>) -> Rows<'a> {
        Rows {
            scores: self.exponents(population.rewards),
            verdicts: &self.verdicts,
            scopes: population.scopes,
        }
    }

    /// Return the rows with their weights and keys, for a sampler.
    ///
    /// # Errors
    /// [`Error::Length`] for a population of another number of rows.
    pub fn weighted<'a>(&'a self, population: &Population<'a>) -> Result<Weighted<'a>> {
        check_length("rewards", population.rewards.len(), self.verdicts.len())?;
        Weighted::by_target(self.rows(population), &self.target, population.keys)
    }

    /// Return the kept rows in the order of a draw without replacement.
    ///
    /// # Errors
    /// As [`Weighted::ranking`].
    pub fn ranking<'a>(
        &'a self,
        population: &Population<'a>,
        settings: &SelectionSettings,
    ) -> Result<Ranking<'a>> {
        let mut rows = self.weighted(population)?;
        if let Some(digests) = population.digests.filter(|_| settings.sampler == Sampler::WeightedReservoir) {
            rows = rows.by_digest(digests)?;
        }
        rows.ranking(settings.sampler, settings.seed, settings.threads)
    }

    /// Return a draw of `count` with replacement.
    ///
    /// # Errors
    /// As [`Copies::new`].
    pub fn copies<'a>(
        &'a self,
        population: &Population<'a>,
        settings: &SelectionSettings,
        count: usize,
    ) -> Result<Copies<'a>> {
        Copies::new(self.weighted(population)?, settings.sampler, count, settings.seed, settings.threads)
    }
}

fn check(population: &Population, settings: &SelectionSettings) -> Result<()> {
    let rows = population.rewards.len();
    check_length("keys", population.keys.len(), rows)?;
    check_length("groups", population.groups.rows(), rows)?;
    check_length("scopes", population.scopes.rows().unwrap_or(rows), rows)?;
    check_none_infinite("rewards", population.rewards, settings.threads)?;
    if settings.score.needs_groups() && rows > 0 && population.groups.grouped() == 0 {
        return Err(Error::NeedsGroups { what: settings.score.name() });
    }
    Ok(())
}

/// Return the verdicts of the rules that come before the draw.
fn judge(
    population: &Population,
    settings: &SelectionSettings,
    constancy: &ConstantGroups,
    log_weights: Option<&[f64]>,
) -> Result<Vec<Verdict>> {
    let Population { rewards, groups, fingerprints, .. } = *population;
    let threads = settings.threads;
    let mut verdicts = vec![Verdict::Kept; rewards.len()];
    missing_reward(&mut verdicts, rewards, threads)?;
    if let Scopes::Of(scopes) = population.scopes {
        missing_group(&mut verdicts, scopes, threads)?;
    }
    if settings.score.needs_groups() {
        missing_group(&mut verdicts, groups, threads)?;
    }
    if let Some(log_weights) = log_weights {
        missing_log_weight(&mut verdicts, log_weights, threads)?;
    }
    settings.rules.mark_with(&mut verdicts, rewards, groups, fingerprints, constancy, threads)?;
    Ok(verdicts)
}
