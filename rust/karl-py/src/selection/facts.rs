//! The numbers of a selection, as dictionaries.

use karl_core::filter::ConstantCount;
use karl_core::sketch::Moments;
use karl_core::summary::Summary;
use pyo3::prelude::*;

/// The groups of a log; those of a stream are not known.
#[derive(IntoPyObject)]
pub(super) struct GroupFacts {
    pub(super) count: usize,
    pub(super) comparable: usize,
    pub(super) constant_at_top: usize,
    pub(super) constant_at_bottom: usize,
    pub(super) constant_other: usize,
}

impl GroupFacts {
    pub(super) fn new(log: &karl_log::Log, constant: ConstantCount) -> Self {
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
pub(super) struct SelectionFacts {
    pub(super) verdicts: Vec<(&'static str, u64)>,
    pub(super) kept: usize,
    /// Duplicates with another reward than the row that was kept; None where duplicates are not dropped.
    pub(super) duplicates_with_other_reward: Option<u64>,
    pub(super) groups: Option<GroupFacts>,
    pub(super) ungrouped: u64,
    pub(super) inverse_temperature: f64,
    pub(super) wanted_ess: Option<f64>,
    /// ESS of the scores alone, as a share of the kept rows.
    pub(super) tempered_share: f64,
    pub(super) reached_ess: f64,
    pub(super) reached_share: f64,
    pub(super) note: Option<&'static str>,
    pub(super) log_z: LogZSummary,
    pub(super) largest_weight_share: f64,
    pub(super) expected_reward: f64,
}

/// log Z of the scopes that have rows, as a dictionary: how many, between what, and each by number where they are few.
#[derive(IntoPyObject)]
pub(super) struct LogZSummary {
    pub(super) scopes: usize,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) values: Option<Vec<f64>>,
}

/// Largest number of log Z that are listed one by one.
pub(super) const SCOPES_TOLD: usize = 100;

/// A column's statistics, as a dictionary.
#[derive(IntoPyObject)]
pub(super) struct SummaryFacts {
    pub(super) count: u64,
    pub(super) mean: f64,
    pub(super) std: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    /// Edges and counts; None for a stream, since its range is known only at the end.
    pub(super) histogram: Option<(Vec<f64>, Vec<u64>)>,
}

impl SummaryFacts {
    pub(super) fn new(summary: Summary) -> Self {
        let Summary { count, mean, std, min, max, histogram } = summary;
        Self { count, mean, std, min, max, histogram: Some((histogram.edges, histogram.counts)) }
    }

    pub(super) fn of_stream(seen: &Moments) -> Self {
        let Moments { count, min, max, .. } = *seen;
        Self { count, mean: seen.mean(), std: seen.std(), min, max, histogram: None }
    }
}

/// One line of the table of temperatures, as a dictionary.
#[derive(IntoPyObject)]
pub(super) struct TemperFacts {
    pub(super) inverse_temperature: f64,
    pub(super) ess: f64,
    pub(super) share: f64,
    pub(super) top_share: f64,
    pub(super) expected_reward: f64,
}
