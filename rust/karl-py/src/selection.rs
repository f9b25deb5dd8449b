//! Binding of `karl_core::selection` over the columns of a log.

use karl_core::filter::{ConstantCount, Rules, Verdict, tally};
use karl_core::reward::composite;
use karl_core::state::Moments;
use karl_core::stream::Facts as Stream;
use karl_core::summary::Summary;
use karl_core::target::{Note, Tempered, temper};
use karl_core::{Groups, Population, Scopes, Score, Settings, select, select_weighted};
use karl_log::category::Category;
use pyo3::prelude::*;

use crate::enter::enter;
use crate::error::{UsageError, to_python};
use crate::log::Log;
use crate::sample::sampler_by_name;
use crate::target::temperature;

/// Which rows of a log may be drawn, and how much each weighs.
#[pyclass(frozen, module = "karl_fast._core")]
pub(crate) struct Selection {
    pub(crate) log: Py<Log>,
    pub(crate) settings: Settings,
    pub(crate) inner: karl_core::Selection,
    partition: Partition,
    /// The rewards, where they are not the log's own column.
    rewards: Option<Vec<f64>>,
    expected_reward: f64,
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

/// What log Z is taken over.
#[derive(Clone, Copy)]
enum Partition {
    Global,
    Group,
    Field,
}

/// The numbers of a selection, as a dictionary.
#[derive(IntoPyObject)]
struct Facts {
    verdicts: Vec<(&'static str, u64)>,
    kept: usize,
    groups: Option<GroupFacts>,
    ungrouped: u64,
    inverse_temperature: f64,
    wanted_ess: Option<f64>,
    reached_ess: f64,
    reached_share: f64,
    note: Option<&'static str>,
    log_z: LogZ,
    largest_weight_share: f64,
    expected_reward: f64,
}

/// log Z of the scopes that have rows, as a dictionary: how many, between what, and each by number where they are few.
#[derive(IntoPyObject)]
struct LogZ {
    scopes: usize,
    min: Option<f64>,
    max: Option<f64>,
    values: Option<Vec<f64>>,
}

/// Up to so many log Z are told one by one.
const SCOPES_TOLD: usize = 100;

/// A column's statistics, as a dictionary.
#[derive(IntoPyObject)]
struct SummaryFacts {
    count: u64,
    mean: f64,
    std: f64,
    min: f64,
    max: f64,
    /// Edges and counts; none of a stream, whose range is known when it is over.
    histogram: Option<(Vec<f64>, Vec<u64>)>,
}

impl SummaryFacts {
    fn new(summary: karl_core::Result<Summary>) -> PyResult<Self> {
        let Summary { count, mean, std, min, max, histogram } =
            summary.map_err(|error| to_python(error.into()))?;
        Ok(Self { count, mean, std, min, max, histogram: Some((histogram.edges, histogram.counts)) })
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

#[pymethods]
impl Selection {
    /// Scores, judges and tempers every record of a log; where it has log-weights, those are taken instead of score,
    /// temperature and partition.
    #[new]
    #[pyo3(signature = (
        log, *, weights, score, ddof, eps, min_reward=None, drop_constant_groups, dedup,
        partition_by, ess=None, inverse_temperature=None, sampler, seed, threads
    ))]
    #[allow(
        clippy::too_many_arguments,
        reason = "one keyword a setting; the Python layer holds them in one object"
    )]
    fn new(
        py: Python<'_>,
        log: Py<Log>,
        weights: Vec<f64>,
        score: &str,
        ddof: u8,
        eps: f64,
        min_reward: Option<f64>,
        drop_constant_groups: bool,
        dedup: bool,
        partition_by: &str,
        ess: Option<f64>,
        inverse_temperature: Option<f64>,
        sampler: &str,
        seed: u64,
        threads: usize,
    ) -> PyResult<Self> {
        let settings = Settings {
            score: score_by_name(score, ddof, eps)?,
            rules: Rules { min_reward, drop_constant_groups, dedup },
            temperature: temperature(ess, inverse_temperature)?,
            sampler: sampler_by_name(sampler)?,
            seed,
            threads,
        };
        let (table, given) = (&log.get().inner, &log.get().log_weights);
        let partition = Partition::by_name(partition_by)?;
        let (rewards, inner, expected_reward) = enter(py, None, |_| {
            let rewards = own_rewards(table, &weights)?;
            let (inner, expected) = with(table, partition, rewards.as_deref(), |population| {
                let inner = match given.as_deref() {
                    Some(given) => select_weighted(population, given, &settings)?,
                    None => select(population, &settings)?,
                };
                let expected = inner.target.expected(&inner.rows(population), population.rewards, threads);
                Ok((inner, expected))
            })?;
            Ok::<_, karl_core::Error>((rewards, inner, expected))
        })?;
        let (inner, expected_reward) = match &table.streamed {
            // The rows that went by have their share of it too.
            Some(streamed) => {
                let Stream { target, expected_reward, .. } = &streamed.facts;
                (karl_core::Selection { target: target.clone(), ..inner }, *expected_reward)
            }
            None => (inner, expected_reward),
        };
        Ok(Self { log, settings, inner, partition, rewards, expected_reward })
    }

    /// How many rows can be drawn.
    #[getter]
    fn available(&self) -> usize {
        match &self.log.get().inner.streamed {
            Some(streamed) => usize::try_from(streamed.facts.count(Verdict::Kept)).unwrap_or(usize::MAX),
            None => self.inner.kept(),
        }
    }

    /// The numbers that a manifest holds.
    fn facts(&self) -> Facts {
        let (target, table) = (&self.inner.target, &self.log.get().inner);
        Facts {
            verdicts: self.verdicts(),
            kept: self.available(),
            groups: table.streamed.is_none().then(|| GroupFacts::new(table, self.inner.constant)),
            ungrouped: match &table.streamed {
                Some(streamed) => streamed.ungrouped,
                None => table.group.codes().iter().filter(|&&code| code == Groups::NONE).count() as u64,
            },
            inverse_temperature: target.inverse_temperature,
            wanted_ess: target.wanted_ess,
            reached_ess: target.reached_ess,
            reached_share: target.reached_share,
            note: target.note.map(Note::name),
            log_z: self.log_z(),
            largest_weight_share: target.top_share,
            expected_reward: self.expected_reward,
        }
    }

    /// The target at each of some inverse temperatures.
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
                let rows = self.inner.rows(population);
                temper(rows, population.rewards, &inverse_temperatures, self.settings.threads)
            })
        })?;
        Ok(rows.iter().map(fact).collect())
    }

    /// Statistics of what is tempered, over the rows that may be drawn.
    fn score_summary(&self) -> PyResult<SummaryFacts> {
        let scores = self.inner.scores(self.rewards());
        let kept = scores.iter().zip(&self.inner.verdicts).filter(|&(_, &verdict)| verdict == Verdict::Kept);
        SummaryFacts::new(summarise(kept.map(|(&score, _)| score)))
    }

    /// Statistics of the reward, or of one component, over all rows or some.
    #[pyo3(signature = (component=None, rows=None))]
    fn summary(&self, component: Option<usize>, rows: Option<Vec<u32>>) -> PyResult<SummaryFacts> {
        let log = self.log.get();
        let streamed = log.inner.streamed.as_ref().map(|streamed| {
            let Stream { reward, components, .. } = &streamed.facts;
            component.and_then(|at| components.get(at)).unwrap_or(reward)
        });
        if let (Some(seen), None) = (streamed, &rows) {
            return Ok(SummaryFacts::of_stream(seen));
        }
        let values =
            component.and_then(|at| log.inner.components.get(at)).map_or(self.rewards(), Vec::as_slice);
        // Over the range of the whole column, so that the histograms of its parts line up.
        let range = match streamed {
            Some(seen) if seen.count > 0 => (seen.min, seen.max),
            _ => karl_core::summary::range(values.iter().copied()),
        };
        SummaryFacts::new(summarise_rows(values, rows, range))
    }
}

impl Selection {
    /// How many rows have each verdict.
    fn verdicts(&self) -> Vec<(&'static str, u64)> {
        let named = |(verdict, count): (Verdict, u64)| (verdict.name(), count);
        match &self.log.get().inner.streamed {
            Some(streamed) => streamed.facts.verdicts.iter().copied().map(named).collect(),
            None => Verdict::ALL
                .into_iter()
                .zip(tally(&self.inner.verdicts).map(|count| count as u64))
                .map(named)
                .collect(),
        }
    }

    /// The reward of each row.
    pub(crate) fn rewards(&self) -> &[f64] {
        rewards(&self.log.get().inner, self.rewards.as_deref())
    }

    /// Hands the columns of the log to `work` in the form the core takes.
    pub(crate) fn with<T, E: From<karl_core::Error>>(
        &self,
        work: impl FnOnce(&Population<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        with(&self.log.get().inner, self.partition, self.rewards.as_deref(), work)
    }

    fn log_z(&self) -> LogZ {
        let logs = || self.inner.target.log_z();
        let filled = self.inner.target.filled;
        let finite = |log: f64| log.is_finite().then_some(log);
        let numbered = logs().filter_map(finite).count();
        // A row that is a scope of its own has b times its score.
        let alone = || {
            let rows = if filled > numbered { self.inner.verdicts.len() } else { 0 };
            let (scores, codes) = (self.inner.scores(self.rewards()), self.log.get().inner.group.codes());
            (0..rows)
                .filter(move |&row| codes[row] == Groups::NONE && self.inner.verdicts[row] == Verdict::Kept)
                .map(move |row| self.inner.target.inverse_temperature * scores[row])
        };
        LogZ {
            scopes: filled,
            min: logs().filter_map(finite).chain(alone()).reduce(f64::min),
            max: logs().filter_map(finite).chain(alone()).reduce(f64::max),
            values: (filled == numbered && logs().count() <= SCOPES_TOLD).then(|| logs().collect()),
        }
    }
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

/// The composite reward; none where it is the log's own column.
#[allow(clippy::float_cmp, reason = "the weight is 1 to the bit, or the product is made")]
fn own_rewards(log: &karl_log::Log, weights: &[f64]) -> karl_core::Result<Option<Vec<f64>>> {
    if log.components.len() == 1 && weights == [1.0] {
        return Ok(None);
    }
    let components: Vec<&[f64]> = log.components.iter().map(Vec::as_slice).collect();
    if components.is_empty() { Ok(Some(Vec::new())) } else { composite(&components, weights).map(Some) }
}

fn rewards<'a>(log: &'a karl_log::Log, own: Option<&'a [f64]>) -> &'a [f64] {
    own.unwrap_or_else(|| log.components.first().map_or(&[], Vec::as_slice))
}

fn with<T, E: From<karl_core::Error>>(
    log: &karl_log::Log,
    partition: Partition,
    own: Option<&[f64]>,
    work: impl FnOnce(&Population<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let (groups, field) = (as_groups(&log.group)?, as_groups(&log.partition)?);
    let scopes = match partition {
        Partition::Global => Scopes::Whole,
        Partition::Group => Scopes::OfOrAlone(&groups),
        Partition::Field => Scopes::Of(&field),
    };
    let fingerprints = log.fingerprints.as_deref();
    work(&Population {
        keys: &log.keys,
        rewards: rewards(log, own),
        groups: &groups,
        scopes,
        fingerprints,
        digests: Some(&log.digests),
    })
}

/// Over the range of the values themselves.
fn summarise(values: impl Iterator<Item = f64> + Clone) -> karl_core::Result<Summary> {
    let (low, high) = karl_core::summary::range(values.clone());
    Summary::of(values, low, high)
}

fn summarise_rows(
    values: &[f64],
    rows: Option<Vec<u32>>,
    (low, high): (f64, f64),
) -> karl_core::Result<Summary> {
    match rows {
        None => Summary::of(values.iter().copied(), low, high),
        Some(mut rows) => {
            rows.sort_unstable();
            Summary::of(rows.iter().map(|&row| values[row as usize]), low, high)
        }
    }
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

fn as_groups(category: &Category) -> karl_core::Result<Groups<'_>> {
    Groups::from_codes(category.codes(), category.names().len())
}
