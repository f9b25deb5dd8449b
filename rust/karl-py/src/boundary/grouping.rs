//! Groups of rows from Python arguments: ids, or offsets.

use karl_core::group::Layout;
use karl_core::{Groups, Offsets};
use pyo3::prelude::*;

use crate::boundary::array::{Column, column, groups, groups_in_any_order};
use crate::boundary::error::{UsageError, to_python};

/// The groups of rows: exactly one of the two was given.
pub(crate) enum Grouping<'py> {
    Ids(Groups<'static>),
    Offsets(Column<'py, i64>),
}

/// An argument that may be left out.
pub(crate) type OptionalArgument<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

impl<'py> Grouping<'py> {
    /// Groups in order of first appearance.
    pub(crate) fn in_order(
        group_ids: OptionalArgument<'_, 'py>,
        offsets: OptionalArgument<'_, 'py>,
    ) -> PyResult<Self> {
        Self::named(["group_ids", "offsets"], groups, group_ids, offsets)
    }

    /// Return the same for what does not depend on the order of groups, which costs less.
    pub(crate) fn in_any_order(
        group_ids: OptionalArgument<'_, 'py>,
        offsets: OptionalArgument<'_, 'py>,
    ) -> PyResult<Self> {
        Self::named(["group_ids", "offsets"], groups_in_any_order, group_ids, offsets)
    }

    /// Groups by arguments of these names.
    pub(crate) fn named(
        [of_ids, of_offsets]: [&'static str; 2],
        number: fn(&str, &Bound<'_, PyAny>) -> PyResult<Groups<'static>>,
        group_ids: OptionalArgument<'_, 'py>,
        offsets: OptionalArgument<'_, 'py>,
    ) -> PyResult<Self> {
        match (group_ids, offsets) {
            (Some(ids), None) => number(of_ids, ids).map(Self::Ids),
            (None, Some(offsets)) => column(of_offsets, offsets).map(Self::Offsets),
            _ => Err(UsageError::new_err(format!("give either {of_ids} or {of_offsets}"))),
        }
    }

    /// Return a code a row, whichever was given; `name` is that of the offsets.
    pub(crate) fn codes(self, name: &'static str, rows: usize) -> PyResult<Groups<'static>> {
        match self {
            Self::Ids(groups) => Ok(groups),
            Self::Offsets(column) => {
                let offsets = ragged(name, &column, rows)?;
                Groups::from_offsets(&offsets).map_err(|error| to_python(error.into()))
            }
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
        let rewards = $crate::boundary::array::reals("rewards", $rewards)?;
        let grouping = $crate::boundary::grouping::Grouping::in_any_order($ids, $offsets)?;
        let out = $crate::boundary::array::with_reals!(&rewards, |$values| {
            let $layout = grouping.layout($values.len())?;
            $crate::boundary::release_gil::compute($py, || $work)?
        });
        Ok(numpy::IntoPyArray::into_pyarray(out, $py))
    }};
}
pub(crate) use score;
