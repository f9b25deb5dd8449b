//! Columns of a table that a log's settings need.

use karl_log::format::{Fields, Overrides, by_keys};
use pyo3::prelude::*;

use super::wishes;
use crate::boundary::error::to_python;

/// The columns of a table that are looked into; none where records are known by all of theirs, for want of an id.
#[pyfunction]
#[pyo3(signature = (
    columns, *, format=None, id=None, group=None, reward=None, messages=None, prompt=None, completion=None, domain=None, partition=None, order=None
))]
#[allow(clippy::too_many_arguments, reason = "as those of read")]
pub(crate) fn columns_needed(
    columns: Vec<String>,
    format: Option<&str>,
    id: Option<String>,
    group: Option<String>,
    reward: Option<Vec<String>>,
    messages: Option<String>,
    prompt: Option<String>,
    completion: Option<String>,
    domain: Option<String>,
    partition: Option<String>,
    order: Option<String>,
) -> PyResult<Option<Vec<String>>> {
    let overrides = Overrides { id, group, reward, messages, prompt, completion, domain, partition, order };
    let wishes = wishes(format, overrides, 0)?;
    let format = wishes.format.unwrap_or_else(|| by_keys(&columns));
    let fields = Fields::new(format, &wishes.overrides, Some(1)).map_err(to_python)?;
    let identified = fields.id.iter().any(|path| columns.iter().any(|column| *column == path.segments()[0]));
    Ok(identified.then(|| fields.roots().into_iter().map(str::to_owned).collect()))
}
