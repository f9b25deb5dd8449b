//! Which rows are one group, as Python says it: by ids, or by offsets.

use karl_core::advantage::Layout;
use karl_core::{Groups, Offsets};
use pyo3::prelude::*;

use crate::array::{Column, column, groups_in_any_order};
use crate::error::{UsageError, to_python};

/// The groups of rows: exactly one of the two was given.
pub(crate) enum Grouping<'py> {
    Ids(Groups<'static>),
    Offsets(Column<'py, i64>),
}

impl<'py> Grouping<'py> {
    pub(crate) fn new(
        group_ids: Option<&Bound<'py, PyAny>>,
        offsets: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        match (group_ids, offsets) {
            (Some(ids), None) => groups_in_any_order("group_ids", ids).map(Self::Ids),
            (None, Some(offsets)) => column("offsets", offsets).map(Self::Offsets),
            _ => Err(UsageError::new_err("give either group_ids or offsets")),
        }
    }

    pub(crate) fn layout(&self, rows: usize) -> PyResult<Layout<'_>> {
        match self {
            Self::Ids(groups) => Ok(Layout::Coded(groups)),
            Self::Offsets(column) => ragged("offsets", column, rows).map(Layout::Ragged),
        }
    }
}

/// Offsets over `values` values.
pub(crate) fn ragged<'a>(
    name: &'static str,
    column: &'a Column<'_, i64>,
    values: usize,
) -> PyResult<Offsets<'a>> {
    Offsets::new(name, column.as_slice()?, values).map_err(|error| to_python(error.into()))
}

/// Borrow, refuse, enter, own, for a score of rewards and groups:
/// `score!(py, rewards, (group_ids, offsets), |values, layout| kernel(values, layout))`.
macro_rules! score {
    ($py:ident, $rewards:ident, ($ids:ident, $offsets:ident), |$values:ident, $layout:ident| $work:expr) => {{
        let rewards = $crate::array::reals("rewards", $rewards)?;
        let grouping = $crate::advantage::grouping::Grouping::new($ids, $offsets)?;
        let out = $crate::array::with_reals!(&rewards, |$values| {
            let $layout = grouping.layout($values.len())?;
            $crate::enter::compute($py, || $work)?
        });
        Ok(numpy::IntoPyArray::into_pyarray(out, $py))
    }};
}
pub(crate) use score;
