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

use std::borrow::Cow;

use crate::advantage::engine::constant_groups::ConstantGroups;
use crate::advantage::{Grouped, Score};
use crate::check::{check_finite, check_length, check_none_infinite};
use crate::error::{Error, Result};
use crate::filter::{
    ConstantCount, Rules, Verdict, count_constant, missing_group, missing_log_weight, missing_reward,
};
use crate::group::{Groups, Scopes};
use crate::reward::AsymmetricScale;
use crate::rng::keys::Keys;
use crate::sample::{Copies, Ranking, Sampler, Weighted};
use crate::target::{Boltzmann, Rows, Temperature, Tempered, temper};

/// The columns of a log, one element a row, rows in the canonical order of their ids.
#[derive(Clone, Copy, Debug)]
pub struct Population<'a> {
    /// The key of each record for random numbers. `[B]`
    pub keys: &'a Keys,
    /// NaN where the reward is missing. `[B]`
    pub rewards: &'a [f64],
    /// The prompt each row is a rollout of.
    pub groups: &'a Groups<'a>,
    /// Scopes that are normalised together. A row without a scope is dropped as [`Verdict::MissingGroup`].
    pub scopes: Scopes<'a>,
    /// The content of each row, for [`Rules::dedup`]. `[B]`
    pub fingerprints: Option<&'a [u128]>,
    /// A hash of each record's bytes. [`Sampler::WeightedReservoir`] tells records of one id apart by it, for their ranks
    /// are not known in one pass; other samplers do not look at it. `[B]`
    pub digests: Option<&'a [u64]>,
}

/// The choices of a draw: one point on each axis, and the seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelectionSettings {
    /// Shaping of a reward before it is scored; None to score it unchanged.
    pub shaping: Option<AsymmetricScale>,
    /// Score that is tempered.
    pub score: Score,
    /// Rules for the rows that may be drawn.
    pub rules: Rules,
    /// Temperature of the target.
    pub temperature: Temperature,
    /// Law of the draw.
    pub sampler: Sampler,
    /// Seed of the draw.
    pub seed: u64,
    /// Number of threads; it changes only the time.
    pub threads: usize,
}

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
    let verdicts = apply_rules(population, settings, &constancy, None)?;
    fit_target(population, settings, &constancy, scores, verdicts)
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
    let verdicts = apply_rules(population, &settings, &constancy, Some(log_weights))?;
    let score = |&given: &f64| if given == f64::NEG_INFINITY { f64::NAN } else { given };
    fit_target(population, &settings, &constancy, log_weights.iter().map(score).collect(), verdicts)
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
    let verdicts = apply_rules(population, settings, &constancy, None)?;
    fit_target(population, settings, &constancy, Cow::Owned(scores.to_vec()), verdicts)
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
fn fit_target(
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
fn apply_rules(
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

/// log Z over the scopes that have rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogZRange {
    /// The number of scopes that have rows.
    pub scopes: usize,
    /// The smallest log Z; none without such scopes.
    pub min: Option<f64>,
    /// The largest log Z; none without such scopes.
    pub max: Option<f64>,
    /// True if every such scope is numbered; else rows without a group are scopes of their own.
    pub numbered: bool,
}

impl Selection {
    /// Return the range of log Z.
    ///
    /// ```text
    /// log Z = b * score    of a row that is a scope of its own
    /// ```
    ///
    /// `rewards` are those of the population, `codes` the codes of its groups. Shapes: `[B]` each. Cost: one pass over the
    /// scopes; one over the rows too, where some are scopes of their own.
    #[must_use]
    pub fn log_z_range(&self, rewards: &[f64], codes: &[u32]) -> LogZRange {
        let filled = self.target.filled;
        let finite = || self.target.log_z().filter(|log| log.is_finite());
        let numbered = finite().count() == filled;
        let rows = if numbered { 0 } else { self.verdicts.len() };
        let scores = self.exponents(rewards);
        let is_alone = |&row: &usize| codes[row] == Groups::NONE && self.verdicts[row] == Verdict::Kept;
        let alone = || (0..rows).filter(is_alone).map(|row| self.target.inverse_temperature * scores[row]);
        LogZRange {
            scopes: filled,
            min: finite().chain(alone()).reduce(f64::min),
            max: finite().chain(alone()).reduce(f64::max),
            numbered,
        }
    }
}

impl Selection {
    /// Multiply the weight of each row by a factor.
    ///
    /// ```text
    /// log w_i = b s_i + log f_i - log Z,    log Z = log sum exp(b s + log f) over the scope of i
    /// ```
    ///
    /// The temperature stays that of the scores: with factors the ESS is no longer monotone in b, so that a wanted ESS may
    /// have several answers or none. The ESS reached is that of the product.
    /// Shapes: log-factors `[B]`. Cost: a few passes over the rows, and two numbers a row.
    ///
    /// # Errors
    /// [`Error::Length`] for another number of rows;
    /// [`Error::NotFinite`] for a log-factor that is not finite, or a log-weight beyond f64.
    pub fn times(
        self,
        population: &Population<'_>,
        log_factors: Vec<f64>,
        settings: &SelectionSettings,
    ) -> Result<Self> {
        check_length("log_factors", log_factors.len(), self.verdicts.len())?;
        check_finite("log_factors", &log_factors)?;
        let b = self.target.inverse_temperature;
        let exponents = exponents(self.scores(population.rewards), &log_factors, b);
        let rows = Rows { scores: &exponents, verdicts: &self.verdicts, scopes: population.scopes };
        let target = fit(rows, Temperature::Inverse(1.0), settings)?;
        let factored = Factored { before: self.target, log_factors, exponents };
        Ok(Self { target, factored: Some(factored), ..self })
    }

    /// Return the target of the scores alone.
    #[must_use]
    pub fn tempered(&self) -> &Boltzmann {
        self.factored.as_ref().map_or(&self.target, |factored| &factored.before)
    }

    /// Return the target at each of some inverse temperatures, with the factors.
    ///
    /// # Errors
    /// As [`temper`].
    pub fn temper(
        &self,
        population: &Population<'_>,
        inverse_temperatures: &[f64],
        threads: usize,
    ) -> Result<Vec<Tempered>> {
        let (rows, rewards) = (self.rows(population), population.rewards);
        let Some(Factored { log_factors, .. }) = &self.factored else {
            return temper(rows, rewards, inverse_temperatures, threads);
        };
        let at = |&b: &f64| {
            let exponents = exponents(self.scores(rewards), log_factors, b);
            let table = temper(Rows { scores: &exponents, ..rows }, rewards, &[1.0], threads)?;
            Ok(table.into_iter().map(move |one| Tempered { inverse_temperature: b, ..one }))
        };
        Ok(inverse_temperatures.iter().map(at).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Return what the inverse temperature of the target multiplies: the scores, or with factors whole log-weights.
    fn exponents<'a>(&'a self, rewards: &'a [f64]) -> &'a [f64] {
        self.factored.as_ref().map_or_else(|| self.scores(rewards), |factored| &factored.exponents)
    }
}

/// Return the log-factors of each row by two reasons.
///
/// ```text
/// log f_i = log left_i + log right_i
/// ```
///
/// Shapes: all `[B]`.
///
/// # Errors
/// [`Error::Length`] for another number of rows.
pub fn join_log_factors(left: &[f64], right: &[f64]) -> Result<Vec<f64>> {
    check_length("log_factors", right.len(), left.len())?;
    Ok(left.iter().zip(right).map(|(left, right)| left + right).collect())
}

/// Return `b s_i + log f_i` of each row; NaN where there is no score.
fn exponents(scores: &[f64], log_factors: &[f64], b: f64) -> Vec<f64> {
    scores.iter().zip(log_factors).map(|(score, factor)| b * score + factor).collect()
}
