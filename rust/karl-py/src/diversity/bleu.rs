//! Binding of self-BLEU of `karl_core::diversity`.

use karl_core::diversity::{self, Smoothing};
use numpy::IntoPyArray;
use pyo3::prelude::*;

use super::Floats;
use super::ngram::Ragged;
use crate::boundary::array::{count, threads};
use crate::boundary::error::UsageError;

/// Compute self-BLEU: the BLEU of each sequence with all others as its references. Lower is more diverse.
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
