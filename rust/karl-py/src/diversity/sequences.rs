//! The variety of ragged sequences.

use karl_core::Groups;
use karl_core::diversity::{self, Sequences, Smoothing};
use numpy::{IntoPyArray, PyArray2, PyArrayMethods};
use pyo3::prelude::*;

use super::Floats;
use crate::boundary::array::{Column, column, count, groups, threads};
use crate::boundary::enter::compute;
use crate::boundary::error::UsageError;

/// Ragged token ids, borrowed.
struct Ragged<'py> {
    tokens: Groups<'static>,
    offsets: Column<'py, i64>,
}

impl<'py> Ragged<'py> {
    fn new(tokens: &Bound<'py, PyAny>, offsets: &Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(Self { tokens: groups("tokens", tokens)?, offsets: column("offsets", offsets)? })
    }

    /// Runs a kernel over the sequences.
    fn compute<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(Sequences<'_>) -> karl_core::Result<T> + Send,
    ) -> PyResult<T> {
        let (tokens, offsets) = (&self.tokens, self.offsets.as_slice()?);
        compute(py, || work(Sequences::new(tokens, offsets)?))
    }
}

/// distinct-n: the share of different n-grams among all of them, pooled over the sequences.
///
/// ```text
/// distinct_n = (number of different n-grams) / (number of n-grams)
/// ```
///
/// An n-gram never spans two sequences. The larger a set is, the lower the number, at the same variety: compare sets of
/// like size.
///
/// Args:
///     tokens: ids of tokens, tools or actions, end to end, none below 0; or names, in an Arrow column. [T]
///     offsets: where each sequence begins, and where the last one ends. [B + 1]
///     n: the length of an n-gram, 1 or more.
///
/// Returns:
///     A number in (0, 1]; NaN where no sequence has n tokens.
///
/// Raises:
///     ArgumentError: a token id below 0 or null, or an n below 1.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: Li et al. 2016 (arXiv:1510.03055).
#[pyfunction]
#[pyo3(signature = (tokens, offsets, n=2))]
pub(crate) fn distinct_n(
    py: Python<'_>,
    tokens: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
    n: i64,
) -> PyResult<f64> {
    let n = count("n", n)?;
    Ragged::new(tokens, offsets)?.compute(py, |rows| diversity::distinct_n(rows, n, threads()))
}

/// self-BLEU: the BLEU of each sequence with all others as its references. Lower is more diverse.
///
/// ```text
/// BLEU_i = min(1, exp(1 - r_i / c_i)) * (prod_{k=1..n} p_ik)^(1/n)
/// p_ik   = sum_g min(count_i(g), max_{j != i} count_j(g)) / (number of k-grams of i),   g over the k-grams of i
/// ```
///
/// c_i is the length of sequence i, and r_i the length closest to it among the others, the shorter of two. All orders
/// from 1 to n weigh the same. The two largest counts of each n-gram stand for all references, so that the cost is
/// linear in the tokens.
///
/// Args:
///     tokens: ids of tokens, tools or actions, end to end, none below 0; or names, in an Arrow column. [T]
///     offsets: where each sequence begins, and where the last one ends. [B + 1]
///     n: the longest n-gram, 1 or more.
///     smoothing: ``none``: a sequence that shares no n-gram of some order, or has none, is 0; ``add-one``: orders from
///         2 on count one match and one n-gram more (Lin and Och 2004).
///
/// Returns:
///     The BLEU of each sequence, 0 to 1; their mean is the number of the set. NaN where there is one sequence alone.
///     [B]
///
/// Raises:
///     ArgumentError: a token id below 0 or null, or an n below 1.
///     UsageError: a smoothing that there is not.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: Zhu et al. 2018, Texygen (arXiv:1802.01886); Papineni et al. 2002, BLEU.
#[pyfunction]
#[pyo3(signature = (tokens, offsets, n=4, *, smoothing="none"))]
pub(crate) fn self_bleu<'py>(
    py: Python<'py>,
    tokens: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    n: i64,
    smoothing: &str,
) -> PyResult<Floats<'py>> {
    let n = count("n", n)?;
    let smoothing = match smoothing {
        "none" => Smoothing::None,
        "add-one" => Smoothing::AddOne,
        _ => return Err(UsageError::new_err(format!("smoothing is {smoothing:?}, wanted none or add-one"))),
    };
    let ragged = Ragged::new(tokens, offsets)?;
    let scores = ragged.compute(py, |rows| diversity::self_bleu(rows, n, smoothing, threads()))?;
    Ok(scores.into_pyarray(py))
}

/// The Vendi score of order 2 of sequences, by the cosine of their n-gram counts.
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

/// The smaller of the two matrices whose eigenvalues make the Vendi score of order 1 of sequences. [m, m]
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
