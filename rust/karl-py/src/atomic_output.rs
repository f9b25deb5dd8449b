//! Binding of `karl_log::atomic_output`.

use std::path::PathBuf;

use karl_log::atomic_output;
use karl_log::atomic_output::PARQUET;
use karl_log::export::directory;
use karl_transcripts::convert;
use karl_transcripts::karl_records;
use karl_transcripts::pairs;
use pyo3::prelude::*;

use crate::boundary::release_gil::enter;

/// The place of an output, and what was there when this was made.
#[pyclass(frozen, module = "karl_fast._core", name = "Target")]
pub(crate) struct OutputTarget {
    pub(crate) inner: atomic_output::OutputTarget,
}

#[pymethods]
impl OutputTarget {
    /// Return the place of a data set, a directory.
    #[staticmethod]
    #[pyo3(signature = (path, *, force))]
    fn data_set(py: Python<'_>, path: PathBuf, force: bool) -> PyResult<Self> {
        enter(py, None, |_| directory::target(&path, force)).map(|inner| Self { inner })
    }

    /// Return the place of a file of trajectories.
    #[staticmethod]
    #[pyo3(signature = (path, *, force))]
    fn trajectories(py: Python<'_>, path: PathBuf, force: bool) -> PyResult<Self> {
        enter(py, None, |_| convert::target(&path, force)).map(|inner| Self { inner })
    }

    /// Return the place of a file of KARL's records.
    #[staticmethod]
    #[pyo3(signature = (path, *, force))]
    fn karl_records(py: Python<'_>, path: PathBuf, force: bool) -> PyResult<Self> {
        enter(py, None, |_| karl_records::target(&path, force)).map(|inner| Self { inner })
    }

    /// Return the place of a file of preference pairs.
    #[staticmethod]
    #[pyo3(signature = (path, *, force))]
    fn pairs(py: Python<'_>, path: PathBuf, force: bool) -> PyResult<Self> {
        enter(py, None, |_| pairs::target(&path, force)).map(|inner| Self { inner })
    }

    /// Return the place of a Parquet file.
    #[staticmethod]
    #[pyo3(signature = (path, *, force))]
    fn parquet(py: Python<'_>, path: PathBuf, force: bool) -> PyResult<Self> {
        enter(py, None, |_| atomic_output::OutputTarget::look(&path, &PARQUET, force))
            .map(|inner| Self { inner })
    }

    /// The path as it was given.
    #[getter]
    fn path(&self) -> PathBuf {
        self.inner.shown().to_path_buf()
    }

    /// Put a finished file beside it in its place; whatever happens, the file is no longer where it was.
    fn put(&self, py: Python<'_>, file: PathBuf) -> PyResult<()> {
        enter(py, None, |_| self.inner.put_file(file))
    }
}
