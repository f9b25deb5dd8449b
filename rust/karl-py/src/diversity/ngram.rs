//! Ragged token ids as the sequences of `karl_core::diversity`.

use crate::boundary::array::{Column, column, groups};
use crate::boundary::release_gil::compute;
use karl_core::Groups;
use karl_core::diversity::Sequences;
use pyo3::prelude::*;

/// Ragged token ids, borrowed.
pub(super) struct Ragged<'py> {
    tokens: Groups<'static>,
    offsets: Column<'py, i64>,
}

impl<'py> Ragged<'py> {
    pub(super) fn new(tokens: &Bound<'py, PyAny>, offsets: &Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(Self { tokens: groups("tokens", tokens)?, offsets: column("offsets", offsets)? })
    }

    /// Run a kernel over the sequences.
    pub(super) fn compute<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(Sequences<'_>) -> karl_core::Result<T> + Send,
    ) -> PyResult<T> {
        let (tokens, offsets) = (&self.tokens, self.offsets.as_slice()?);
        compute(py, || work(Sequences::new(tokens, offsets)?))
    }
}
