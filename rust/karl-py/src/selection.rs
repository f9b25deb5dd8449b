//! Binding of `karl_core::selection` over the columns of a log.

use karl_core::filter::{ConstantCount, Rules, Verdict, constant_groups, tally};
use karl_core::reward::composite;
use karl_core::summary::Summary;
use karl_core::target::{Note, temper};
use karl_core::{Groups, Population, Sampler, Score, Settings, select, select_weighted};
use karl_log::category::Category;
use pyo3::prelude::*;

use crate::enter::enter;
use crate::error::{UsageError, to_python};
use crate::log::Log;
use crate::target::temperature;

/// Which rows of a log may be drawn, how much each weighs, and in which order they come.
#[pyclass(frozen, module = "karl_fast._core")]
pub(crate) struct Selection {
    pub(crate) log: Py<Log>,
    pub(crate) rewards: Vec<f64>,
    pub(crate) inner: karl_core::Selection,
    groups: Groups,
    scopes: Groups,
}

/// The numbers of a selection, as a dictionary.
#[derive(IntoPyObject)]
struct Facts {
    verdicts: Vec<(&'static str, usize)>,
    kept: usize,
    groups: usize,
    ungrouped: usize,
    comparable_groups: usize,
    constant_at_top: usize,
    constant_at_bottom: usize,
    constant_other: usize,
    inverse_temperature: f64,
    wanted_ess: Option<f64>,
    reached_ess: f64,
    reached_share: f64,
    note: Option<&'static str>,
    log_z: Vec<f64>,
    largest_weight_share: f64,
    expected_reward: f64,
}

/// A column's statistics, as a dictionary.
#[derive(IntoPyObject)]
struct SummaryFacts {
    count: u64,
    mean: f64,
    std: f64,
    min: f64,
    max: f64,
    edges: Vec<f64>,
    counts: Vec<u64>,
}

impl SummaryFacts {
    fn new(summary: karl_core::Result<Summary>) -> PyResult<Self> {
        let Summary { count, mean, std, min, max, histogram } =
            summary.map_err(|error| to_python(error.into()))?;
        Ok(Self { count, mean, std, min, max, edges: histogram.edges, counts: histogram.counts })
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
        partition_by, ess=None, inverse_temperature=None, sampler, seed
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
    ) -> PyResult<Self> {
        let settings = Settings {
            score: score_by_name(score, ddof, eps)?,
            rules: Rules { min_reward, drop_constant_groups, dedup },
            temperature: temperature(ess, inverse_temperature)?,
            sampler: sampler_by_name(sampler)?,
            seed,
        };
        let (table, given) = (&log.get().inner, &log.get().log_weights);
        let scopes = scopes_by_name(partition_by, table)?;
        let (rewards, groups, scopes, inner) = enter(py, None, |_| {
            let components: Vec<&[f64]> = table.components.iter().map(Vec::as_slice).collect();
            let rewards = if components.is_empty() { Vec::new() } else { composite(&components, &weights)? };
            let (groups, scopes) = (as_groups(&table.group)?, scopes()?);
            let fingerprints = table.fingerprints.as_deref();
            let population = Population {
                keys: &table.keys,
                rewards: &rewards,
                groups: &groups,
                scopes: &scopes,
                fingerprints,
            };
            let inner = match given.as_deref() {
                Some(given) => select_weighted(&population, given, settings.rules, settings.sampler, seed)?,
                None => select(&population, &settings)?,
            };
            Ok::<_, karl_core::Error>((rewards, groups, scopes, inner))
        })?;
        Ok(Self { log, rewards, inner, groups, scopes })
    }

    /// How many rows can be drawn.
    #[getter]
    fn available(&self) -> usize {
        self.inner.ranking.remaining()
    }

    /// The numbers that a manifest holds.
    fn facts(&self) -> PyResult<Facts> {
        let counts = constant_groups(&self.rewards, &self.groups).map_err(|error| to_python(error.into()))?;
        let [now] = self.temper_at(&[self.inner.target.inverse_temperature])?[..] else {
            return Err(UsageError::new_err("the target has no temperature"));
        };
        Ok(self.facts_with(counts, now))
    }

    /// The target at each of some inverse temperatures.
    fn temper(&self, inverse_temperatures: Vec<f64>) -> PyResult<Vec<TemperFacts>> {
        let fact = |row: &karl_core::target::Tempered| TemperFacts {
            inverse_temperature: row.inverse_temperature,
            ess: row.ess,
            share: row.share,
            top_share: row.top_share,
            expected_reward: row.expected_reward,
        };
        Ok(self.temper_at(&inverse_temperatures)?.iter().map(fact).collect())
    }

    /// Statistics of what is tempered, over the rows that may be drawn.
    fn score_summary(&self) -> PyResult<SummaryFacts> {
        SummaryFacts::new(summarise(&self.inner.kept_scores(), None))
    }

    /// Statistics of the reward, or of one component, over all rows or some.
    #[pyo3(signature = (component=None, rows=None))]
    fn summary(&self, component: Option<usize>, rows: Option<Vec<u32>>) -> PyResult<SummaryFacts> {
        let log = self.log.get();
        let values = component.and_then(|at| log.inner.components.get(at)).unwrap_or(&self.rewards);
        SummaryFacts::new(summarise(values, rows))
    }
}

impl Selection {
    fn facts_with(&self, constant: ConstantCount, now: karl_core::target::Tempered) -> Facts {
        let target = &self.inner.target;
        let counts = tally(&self.inner.verdicts);
        Facts {
            verdicts: Verdict::ALL.iter().map(|verdict| verdict.name()).zip(counts).collect(),
            kept: counts[Verdict::Kept as usize],
            groups: self.groups.len(),
            ungrouped: self.rewards.len() - self.groups.grouped(),
            comparable_groups: constant.groups,
            constant_at_top: constant.all_max,
            constant_at_bottom: constant.all_min,
            constant_other: constant.other,
            inverse_temperature: target.inverse_temperature,
            wanted_ess: target.wanted_ess,
            reached_ess: target.reached_ess,
            reached_share: target.reached_share,
            note: target.note.map(Note::name),
            log_z: target.log_z.clone(),
            largest_weight_share: now.top_share,
            expected_reward: now.expected_reward,
        }
    }

    fn temper_at(&self, inverse_temperatures: &[f64]) -> PyResult<Vec<karl_core::target::Tempered>> {
        let scores = self.inner.kept_scores();
        temper(&scores, &self.scopes, &self.rewards, inverse_temperatures)
            .map_err(|error| to_python(error.into()))
    }
}

/// Over the range of the whole column, so that the histograms of its parts line up.
fn summarise(values: &[f64], rows: Option<Vec<u32>>) -> karl_core::Result<Summary> {
    let (low, high) = karl_core::summary::range(values);
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

fn sampler_by_name(name: &str) -> PyResult<Sampler> {
    match name {
        "gumbel" => Ok(Sampler::Gumbel),
        "all" => Ok(Sampler::All),
        _ => Err(UsageError::new_err(format!("sampler is {name:?}, wanted gumbel or all"))),
    }
}

type Scopes<'a> = Box<dyn FnOnce() -> karl_core::Result<Groups> + Send + 'a>;

/// What log Z is taken over: all rows, each group (a row without one for itself), or each name of a field.
fn scopes_by_name<'a>(name: &str, log: &'a karl_log::Log) -> PyResult<Scopes<'a>> {
    match name {
        "global" => Ok(Box::new(|| Groups::whole(log.len()))),
        "group" => Ok(Box::new(|| as_groups(&log.group)?.with_singles())),
        "field" => Ok(Box::new(|| as_groups(&log.partition))),
        _ => Err(UsageError::new_err(format!("partition_by is {name:?}, wanted global, group or field"))),
    }
}

fn as_groups(category: &Category) -> karl_core::Result<Groups> {
    Groups::from_codes(category.codes().to_vec(), category.names().len())
}
