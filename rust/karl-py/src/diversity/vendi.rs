//! Bindings of the Vendi score of n-grams of `karl_core::diversity`.

use karl_core::diversity::{self};
use numpy::{IntoPyArray, PyArray2, PyArrayMethods};
use pyo3::prelude::*;

use super::ngram::Ragged;
use crate::boundary::array::{count, threads};

/// Return the Vendi score of order 2 of sequences, by the cosine of their n-gram counts.
#[pyfunction]
pub(crate) fn vendi_ngrams(
    py: Python<'_>,
    tokens: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
    n: i64,
) -> PyResult<f64> {
    let n = count("n", n)?;
    Ragged::new(tokens, offsets)?.compute(py, |rows| diversity::vendi_ngrams(rows, n, threads()))
}

/// Return the smaller of the two matrices with the eigenvalues of the Vendi score of order 1 of sequences. [m, m]
#[pyfunction]
pub(crate) fn ngram_gram<'py>(
    py: Python<'py>,
    tokens: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    n: i64,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let n = count("n", n)?;
    let gram = Ragged::new(tokens, offsets)?.compute(py, |rows| diversity::ngram_gram(rows, n, threads()))?;
    gram.values.into_pyarray(py).reshape([gram.size, gram.size])
}
