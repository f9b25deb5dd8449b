//! The columns of a log in the form that the core takes.

use karl_core::{Groups, Population, Sampler, Scopes};
use karl_log::columns::category::Category;
use pyo3::prelude::*;

use crate::boundary::error::UsageError;

/// Scope of log Z.
#[derive(Clone, Copy)]
pub(super) enum Partition {
    Global,
    Group,
    Field,
}

impl Partition {
    pub(super) fn by_name(name: &str) -> PyResult<Self> {
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
pub(super) fn own_rewards(log: &karl_log::Log, weights: &[f64]) -> karl_core::Result<Option<Vec<f64>>> {
    if log.reward.is_some() || (log.components.len() == 1 && weights == [1.0]) {
        return Ok(None);
    }
    log.composite(weights).map(Some)
}

pub(super) fn rewards<'a>(log: &'a karl_log::Log, own: Option<&'a [f64]>) -> &'a [f64] {
    let read = log.reward.as_ref().or_else(|| log.components.first());
    own.unwrap_or_else(|| read.map_or(&[], Vec::as_slice))
}

pub(super) fn with<T, E: From<karl_core::Error>>(
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
