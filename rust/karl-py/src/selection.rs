//! Binding of `karl_core::selection` over the columns of a log.

use crate::boundary::array::column;
use crate::boundary::error::UsageError;
use crate::boundary::release_gil::{compute, enter};
use crate::log::Log;
use crate::reward::asymmetric;
use crate::sample::sampler_by_name;
use crate::target::temperature;
use karl_core::filter::{ConstantCount, Rules, Verdict, count_other_rewards, tally};
use karl_core::replay::recency;
use karl_core::selection::{LogZRange, join_log_factors};
use karl_core::sketch::Moments;
use karl_core::stream::StreamSummary as Stream;
use karl_core::summary::Summary;
use karl_core::target::{Note, Tempered};
use karl_core::{
    Groups, Population, Sampler, Scopes, Score, SelectionSettings, select, select_scored, select_weighted,
};
use karl_log::columns::category::Category;
use pyo3::prelude::*;

/// Rows of a log that may be drawn, and their weights.
#[pyclass(frozen, module = "karl_fast._core")]
pub(crate) struct Selection {
    pub(crate) log: Py<Log>,
    pub(crate) settings: SelectionSettings,
    pub(crate) inner: karl_core::Selection,
    partition: Partition,
    /// The rewards, where they are not the log's own column.
    rewards: Option<Vec<f64>>,
    /// Number of rows of each verdict, in the order of `Verdict::ALL`.
    verdicts: [usize; 9],
    expected_reward: f64,
}

#[pymethods]
impl Selection {
    /// Scores, judges and tempers every record of a log; where it has log-weights, those are taken instead of score,
    /// temperature and partition. `scores` stand in the place of those that `score` would give. With `half_life` weights
    /// fall with the age of a record by the order of the log; `log_factors` are added to their logarithms.
    #[new]
    #[pyo3(signature = (
        log, *, weights, shaping=None, score, scores=None, ddof, eps, min_reward=None, drop_constant_groups,
        variance_top_p=None, dedup, partition_by, ess=None, inverse_temperature=None, half_life=None, log_factors=None, sampler,
        seed, threads
    ))]
    #[allow(
        clippy::too_many_arguments,
        reason = "one keyword a setting; the Python layer holds them in one object"
    )]
    fn new(
        py: Python<'_>,
        log: Py<Log>,
        weights: Vec<f64>,
        shaping: Option<(f64, f64, f64)>,
        score: &str,
        scores: Option<&Bound<'_, PyAny>>,
        ddof: u8,
        eps: f64,
        min_reward: Option<f64>,
        drop_constant_groups: bool,
        variance_top_p: Option<f64>,
        dedup: bool,
        partition_by: &str,
        ess: Option<f64>,
        inverse_temperature: Option<f64>,
        half_life: Option<f64>,
        log_factors: Option<&Bound<'_, PyAny>>,
        sampler: &str,
        seed: u64,
        threads: usize,
    ) -> PyResult<Self> {
        let settings = SelectionSettings {
            shaping: asymmetric(shaping)?,
            score: score_by_name(score, ddof, eps)?,
            rules: Rules { min_reward, drop_constant_groups, variance_top_p, dedup },
            temperature: temperature(ess, inverse_temperature)?,
            sampler: sampler_by_name(sampler)?,
            seed,
            threads,
        };
        let (table, given) = (&log.get().inner, &log.get().log_weights);
        let partition = Partition::by_name(partition_by)?;
        let given = GivenColumns {
            log_weights: given.as_deref().map(Vec::as_slice),
            scores: scores.map(|scores| own_column("scores", scores)).transpose()?,
            half_life,
            log_factors: log_factors.map(|factors| own_column("log_factors", factors)).transpose()?,
        };
        let (rewards, inner, verdicts, expected_reward) = enter(py, None, |_| {
            let rewards = own_rewards(table, &weights)?;
            let (inner, expected) =
                with(table, partition, settings.sampler, rewards.as_deref(), |population| {
                    let inner = given.select(population, table, &settings)?;
                    let expected =
                        inner.target.expected(&inner.rows(population), population.rewards, threads);
                    Ok((inner, expected))
                })?;
            let verdicts = tally(&inner.verdicts, threads);
            Ok::<_, karl_core::Error>((rewards, inner, verdicts, expected))
        })?;
        let (inner, expected_reward) = match &table.streamed {
            // The rows that went by have their share of it too.
            Some(streamed) => (streamed.facts.retarget(inner), streamed.facts.expected_reward),
            None => (inner, expected_reward),
        };
        Ok(Self { log, settings, inner, partition, rewards, verdicts, expected_reward })
    }

    /// Number of rows that can be drawn.
    #[getter]
    fn available(&self) -> usize {
        match &self.log.get().inner.streamed {
            Some(streamed) => usize::try_from(streamed.facts.count(Verdict::Kept)).unwrap_or(usize::MAX),
            None => self.verdicts[Verdict::Kept as usize],
        }
    }

    /// Return the numbers that a manifest holds.
    fn facts(&self) -> SelectionFacts {
        let (target, table) = (&self.inner.target, &self.log.get().inner);
        let tempered = self.inner.tempered();
        SelectionFacts {
            verdicts: self.verdicts(),
            kept: self.available(),
            duplicates_with_other_reward: self.other_rewards(),
            groups: table.streamed.is_none().then(|| GroupFacts::new(table, self.inner.constant)),
            ungrouped: match &table.streamed {
                Some(streamed) => streamed.ungrouped,
                None => table.group.codes().iter().filter(|&&code| code == Groups::NONE).count() as u64,
            },
            inverse_temperature: tempered.inverse_temperature,
            wanted_ess: tempered.wanted_ess,
            tempered_share: tempered.reached_share,
            reached_ess: target.reached_ess,
            reached_share: target.reached_share,
            note: tempered.note.map(Note::name),
            log_z: self.log_z(),
            largest_weight_share: target.top_share,
            expected_reward: self.expected_reward,
        }
    }

    /// Return the target at each of some inverse temperatures.
    fn temper(&self, py: Python<'_>, inverse_temperatures: Vec<f64>) -> PyResult<Vec<TemperFacts>> {
        let fact = |row: &Tempered| TemperFacts {
            inverse_temperature: row.inverse_temperature,
            ess: row.ess,
            share: row.share,
            top_share: row.top_share,
            expected_reward: row.expected_reward,
        };
        let rows = enter(py, None, |_| {
            self.with(|population| {
                self.inner.temper(population, &inverse_temperatures, self.settings.threads)
            })
        })?;
        Ok(rows.iter().map(fact).collect())
    }

    /// Return statistics of the tempered score, over the rows that may be drawn.
    fn score_summary(&self, py: Python<'_>) -> PyResult<SummaryFacts> {
        let (scores, threads) = (self.inner.scores(self.rewards()), self.settings.threads);
        let kept = |row: usize| match self.inner.verdicts[row] {
            Verdict::Kept => scores[row],
            _ => f64::NAN,
        };
        let rows = scores.len();
        let summary = compute(py, || Summary::of(rows, threads, kept, None))?;
        Ok(SummaryFacts::new(summary))
    }

    /// Statistics of the reward, or of one component: over all rows, over those that may be drawn, and over some where those
    /// are given, with one range for all histograms.
    #[pyo3(signature = (component=None, rows=None))]
    fn summaries(
        &self,
        py: Python<'_>,
        component: Option<usize>,
        rows: Option<Vec<u32>>,
    ) -> PyResult<(SummaryFacts, SummaryFacts, Option<SummaryFacts>)> {
        let (values, threads) = (self.values(component), self.settings.threads);
        let verdicts = &self.inner.verdicts;
        let kept = |row: usize| if verdicts[row] == Verdict::Kept { values[row] } else { f64::NAN };
        let (before, kept, range) = if let Some((seen, kept)) = self.seen(component) {
            let range = (seen.count > 0).then_some((seen.min, seen.max));
            (SummaryFacts::of_stream(seen), SummaryFacts::of_stream(kept), range)
        } else {
            let all = compute(py, || Summary::of(values.len(), threads, |row| values[row], None))?;
            let range = Some(all.range());
            let kept = compute(py, || Summary::of(values.len(), threads, kept, range))?;
            (SummaryFacts::new(all), SummaryFacts::new(kept), range)
        };
        let after = rows.map(|mut rows| {
            rows.sort_unstable();
            compute(py, || Summary::of(rows.len(), threads, |at| values[rows[at] as usize], range))
        });
        Ok((before, kept, after.transpose()?.map(SummaryFacts::new)))
    }
}

impl Selection {
    /// Return the number of duplicates with another reward than the row that was kept; None where duplicates are not
    /// dropped, or where a stream was not held.
    fn other_rewards(&self) -> Option<u64> {
        let log = &self.log.get().inner;
        if !self.settings.rules.dedup || log.streamed.is_some() {
            return None;
        }
        let fingerprints = log.fingerprints.as_deref()?;
        let verdicts = &self.inner.verdicts;
        let count = |population: &Population<'_>| {
            count_other_rewards(verdicts, fingerprints, population.groups, population.rewards)
        };
        self.with(count).ok()
    }

    /// Return the number of rows of each verdict.
    fn verdicts(&self) -> Vec<(&'static str, u64)> {
        let named = |(verdict, count): (Verdict, u64)| (verdict.name(), count);
        match &self.log.get().inner.streamed {
            Some(streamed) => streamed.facts.verdicts.iter().copied().map(named).collect(),
            None => {
                Verdict::ALL.into_iter().zip(self.verdicts.map(|count| count as u64)).map(named).collect()
            }
        }
    }

    /// Return the reward of each row, or one component of it.
    fn values(&self, component: Option<usize>) -> &[f64] {
        let components = &self.log.get().inner.components;
        component.and_then(|at| components.get(at)).map_or(self.rewards(), Vec::as_slice)
    }

    /// Return the same of the rows that went by, and of those that may be drawn, where the log is what was held of a
    /// stream.
    fn seen(&self, component: Option<usize>) -> Option<(&Moments, &Moments)> {
        let Stream { reward, components, kept, .. } = &self.log.get().inner.streamed.as_ref()?.facts;
        let of = |all: &'_ Vec<Moments>| component.filter(|&at| at < all.len());
        Some(match of(components) {
            Some(at) => (&components[at], &kept.1[at]),
            None => (reward, &kept.0),
        })
    }

    /// Return the reward of each row.
    pub(crate) fn rewards(&self) -> &[f64] {
        rewards(&self.log.get().inner, self.rewards.as_deref())
    }

    /// Hand the columns of the log to `work` in the form the core takes.
    pub(crate) fn with<T, E: From<karl_core::Error>>(
        &self,
        work: impl FnOnce(&Population<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        with(&self.log.get().inner, self.partition, self.settings.sampler, self.rewards.as_deref(), work)
    }

    fn log_z(&self) -> LogZSummary {
        let codes = self.log.get().inner.group.codes();
        let LogZRange { scopes, min, max, numbered } = self.inner.log_z_range(self.rewards(), &codes);
        let logs = || self.inner.target.log_z();
        let values = (numbered && logs().count() <= SCOPES_TOLD).then(|| logs().collect());
        LogZSummary { scopes, min, max, values }
    }
}

/// What the caller gives in place of scores, and besides them.
struct GivenColumns<'a> {
    log_weights: Option<&'a [f64]>,
    scores: Option<Vec<f64>>,
    half_life: Option<f64>,
    log_factors: Option<Vec<f64>>,
}

impl GivenColumns<'_> {
    /// Select the rows of a log.
    fn select(
        self,
        population: &Population<'_>,
        log: &karl_log::Log,
        settings: &SelectionSettings,
    ) -> karl_core::Result<karl_core::Selection> {
        let selection = match (self.log_weights, &self.scores) {
            (Some(given), _) => select_weighted(population, given, settings)?,
            (None, Some(scores)) => select_scored(population, scores, settings)?,
            (None, None) => select(population, settings)?,
        };
        let times = log.order.as_deref().unwrap_or_default();
        let aged = self.half_life.map(|half_life| recency(times, half_life, settings.threads)).transpose()?;
        let factors = match (aged, self.log_factors) {
            (Some(aged), Some(factors)) => Some(join_log_factors(&aged, &factors)?),
            (aged, factors) => aged.or(factors),
        };
        match factors {
            Some(factors) => selection.times(population, factors, settings),
            None => Ok(selection),
        }
    }
}

/// Return a copy of a column. `[B]`
fn own_column(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    column::<f64>(name, object).and_then(|column| Ok(column.as_slice()?.to_vec()))
}

fn score_by_name(name: &str, ddof: u8, eps: f64) -> PyResult<Score> {
    match name {
        "raw" => Ok(Score::Raw),
        "centre" => Ok(Score::Centre),
        "zscore" => Ok(Score::ZScore { ddof, eps }),
        "leave-one-out" => Ok(Score::LeaveOneOut),
        _ => Err(UsageError::new_err(format!(
            "score is {name:?}, wanted raw, centre, zscore or leave-one-out"
        ))),
    }
}

/// Scope of log Z.
#[derive(Clone, Copy)]
enum Partition {
    Global,
    Group,
    Field,
}

impl Partition {
    fn by_name(name: &str) -> PyResult<Self> {
        match name {
            "global" => Ok(Self::Global),
            "group" => Ok(Self::Group),
            "field" => Ok(Self::Field),
            _ => Err(UsageError::new_err(format!("partition_by is {name:?}, wanted global, group or field"))),
        }
    }
}

/// Return the composite reward; none where it is the log's own column.
#[allow(clippy::float_cmp, reason = "the weight is 1 to the bit, or the product is made")]
fn own_rewards(log: &karl_log::Log, weights: &[f64]) -> karl_core::Result<Option<Vec<f64>>> {
    if log.reward.is_some() || (log.components.len() == 1 && weights == [1.0]) {
        return Ok(None);
    }
    log.composite(weights).map(Some)
}

fn rewards<'a>(log: &'a karl_log::Log, own: Option<&'a [f64]>) -> &'a [f64] {
    let read = log.reward.as_ref().or_else(|| log.components.first());
    own.unwrap_or_else(|| read.map_or(&[], Vec::as_slice))
}

fn with<T, E: From<karl_core::Error>>(
    log: &karl_log::Log,
    partition: Partition,
    sampler: Sampler,
    own: Option<&[f64]>,
    work: impl FnOnce(&Population<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let groups = as_groups(&log.group)?;
    let field = if let Partition::Field = partition { Some(as_groups(&log.partition)?) } else { None };
    let scopes = match (partition, &field) {
        (Partition::Group, _) => Scopes::OfOrAlone(&groups),
        (_, Some(field)) => Scopes::Of(field),
        _ => Scopes::Whole,
    };
    let fingerprints = log.fingerprints.as_deref();
    // Other samplers do not look at them.
    let digests = (sampler == Sampler::WeightedReservoir).then(|| log.digests());
    work(&Population {
        keys: &log.keys,
        rewards: rewards(log, own),
        groups: &groups,
        scopes,
        fingerprints,
        digests: digests.as_deref(),
    })
}

fn as_groups(category: &Category) -> karl_core::Result<Groups<'_>> {
    Groups::from_codes(category.codes(), category.names().len())
}

/// The groups of a log; those of a stream are not known.
#[derive(IntoPyObject)]
struct GroupFacts {
    count: usize,
    comparable: usize,
    constant_at_top: usize,
    constant_at_bottom: usize,
    constant_other: usize,
}

impl GroupFacts {
    fn new(log: &karl_log::Log, constant: ConstantCount) -> Self {
        Self {
            count: log.group.names().len(),
            comparable: constant.groups,
            constant_at_top: constant.all_max,
            constant_at_bottom: constant.all_min,
            constant_other: constant.other,
        }
    }
}

/// The numbers of a selection, as a dictionary.
#[derive(IntoPyObject)]
struct SelectionFacts {
    verdicts: Vec<(&'static str, u64)>,
    kept: usize,
    /// Duplicates with another reward than the row that was kept; None where duplicates are not dropped.
    duplicates_with_other_reward: Option<u64>,
    groups: Option<GroupFacts>,
    ungrouped: u64,
    inverse_temperature: f64,
    wanted_ess: Option<f64>,
    /// ESS of the scores alone, as a share of the kept rows.
    tempered_share: f64,
    reached_ess: f64,
    reached_share: f64,
    note: Option<&'static str>,
    log_z: LogZSummary,
    largest_weight_share: f64,
    expected_reward: f64,
}

/// log Z of the scopes that have rows, as a dictionary: how many, between what, and each by number where they are few.
#[derive(IntoPyObject)]
struct LogZSummary {
    scopes: usize,
    min: Option<f64>,
    max: Option<f64>,
    values: Option<Vec<f64>>,
}

/// Largest number of log Z that are listed one by one.
const SCOPES_TOLD: usize = 100;

/// A column's statistics, as a dictionary.
#[derive(IntoPyObject)]
struct SummaryFacts {
    count: u64,
    mean: f64,
    std: f64,
    min: f64,
    max: f64,
    /// Edges and counts; None for a stream, since its range is known only at the end.
    histogram: Option<(Vec<f64>, Vec<u64>)>,
}

impl SummaryFacts {
    fn new(summary: Summary) -> Self {
        let Summary { count, mean, std, min, max, histogram } = summary;
        Self { count, mean, std, min, max, histogram: Some((histogram.edges, histogram.counts)) }
    }

    fn of_stream(seen: &Moments) -> Self {
        let Moments { count, min, max, .. } = *seen;
        Self { count, mean: seen.mean(), std: seen.std(), min, max, histogram: None }
    }
}

/// One line of the table of temperatures, as a dictionary.
#[derive(IntoPyObject)]
struct TemperFacts {
    inverse_temperature: f64,
    ess: f64,
    share: f64,
    top_share: f64,
    expected_reward: f64,
}
