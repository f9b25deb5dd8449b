//! Bindings of `karl_core::diversity`.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use crate::boundary::array::{Column, column, count, groups, reals, threads, with_reals};
use crate::boundary::error::UsageError;
use crate::boundary::grouping::{Grouping, OptionalArgument};
use crate::boundary::release_gil::compute;
use karl_core::Groups;
use karl_core::diversity::{self, Sequences, Smoothing};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;

type Floats<'py> = Bound<'py, PyArray1<f64>>;

/// Compute pass@k: the probability that at least one of k attempts at a prompt is right, from n of which c are.
///
/// ```text
/// pass@k = 1 - C(n - c, k) / C(n, k) = 1 - prod_{i=n-c+1}^{n} (1 - k / i)
/// ```
///
/// It is unbiased, where ``1 - (1 - c/n)^k`` is too low. It is computed as a product of min(c, k) factors.
///
/// Args:
///     rollouts: n of each prompt. [P]
///     successes: c of each prompt. [P]
///     k: 1 or more.
///
/// Returns:
///     A chance for each prompt; NaN where n < k, for so few attempts say nothing of k. [P]
///
/// Raises:
///     ArgumentError: a negative count, more successes than rollouts, columns that differ in length, or a k below 1.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Chen et al. 2021 (arXiv:2107.03374).
#[pyfunction]
#[pyo3(signature = (rollouts, successes, k))]
pub(crate) fn pass_at_k<'py>(
    py: Python<'py>,
    rollouts: &Bound<'py, PyAny>,
    successes: &Bound<'py, PyAny>,
    k: i64,
) -> PyResult<Floats<'py>> {
    let k = count("k", k)?;
    let rollouts = column::<i64>("rollouts", rollouts)?;
    let successes = column::<i64>("successes", successes)?;
    let (n, c) = (rollouts.as_slice()?, successes.as_slice()?);
    Ok(compute(py, || diversity::pass_at_k(n, c, k, threads()))?.into_pyarray(py))
}

/// Compute best@k: the expected largest reward of k rollouts of a group, drawn from it without replacement.
///
/// ```text
/// best@k = sum_{i=k}^{n} C(i - 1, k - 1) / C(n, k) * r_(i),   r_(1) <= ... <= r_(n)
/// ```
///
/// The n present rewards of a group count. k = 1 is the mean, k = n the largest; of rewards 0 and 1 it is pass@k.
///
/// Args:
///     rewards: one a rollout; NaN where missing. float64 or float32. [B]
///     group_ids: the prompt of each rollout, negative for none; or names, in an Arrow column. [B]
///     offsets: instead of ids, where each group begins, for groups end to end. [P + 1]
///     k: 1 or more.
///
/// Returns:
///     One number a group, in order of first appearance, or by row of the offsets; NaN where fewer than k rewards are
///     present. [P]
///
/// Raises:
///     ArgumentError: an infinite reward, columns that differ in length, or a k below 1.
///     UsageError: both or neither of group_ids and offsets.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: the order statistics of Chen et al. 2021 (arXiv:2107.03374).
#[pyfunction]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None, k))]
pub(crate) fn best_at_k<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: OptionalArgument<'_, 'py>,
    offsets: OptionalArgument<'_, 'py>,
    k: i64,
) -> PyResult<Floats<'py>> {
    let (k, rewards) = (count("k", k)?, reals("rewards", rewards)?);
    let grouping = Grouping::in_order(group_ids, offsets)?;
    let best = with_reals!(&rewards, |values| {
        let groups = grouping.codes("offsets", values.len())?;
        compute(py, || diversity::best_at_k(values, &groups, k, threads()))
    })?;
    Ok(best.into_pyarray(py))
}

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

/// Compute distinct-n: the share of different n-grams among all of them, pooled over the sequences.
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

/// Compute the entropy of categories, in nats.
///
/// ```text
/// H = -sum p ln p,   p = w / sum w
/// ```
///
/// Args:
///     weights: rows or weight of each category, 0 for one that was not used. float64 or float32. [K]
///
/// Returns:
///     0 (one category has everything) to ln K (all alike); NaN where nothing has weight.
///
/// Raises:
///     ArgumentError: a weight that is negative, NaN or infinite.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Shannon 1948.
#[pyfunction]
pub(crate) fn entropy(py: Python<'_>, weights: &Bound<'_, PyAny>) -> PyResult<f64> {
    with_reals!(&reals("weights", weights)?, |values| compute(py, || diversity::entropy(values)))
}

/// Compute the entropy as a share of the largest that the list of categories allows.
///
/// ```text
/// evenness = H / ln K
/// ```
///
/// K counts every category of the list. Over the used ones alone, a policy that forgets a category would look more
/// even.
///
/// Args:
///     weights: rows or weight of each category, 0 for one that was not used. float64 or float32. [K]
///
/// Returns:
///     0 to 1; 0 where K = 1, which leaves no choice; NaN where nothing has weight.
///
/// Raises:
///     ArgumentError: a weight that is negative, NaN or infinite.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Pielou 1966.
#[pyfunction]
pub(crate) fn evenness(py: Python<'_>, weights: &Bound<'_, PyAny>) -> PyResult<f64> {
    with_reals!(&reals("weights", weights)?, |values| compute(py, || diversity::evenness(values)))
}

/// Compute the effective number of categories (Hill number): as many equally used ones are as diverse.
///
/// ```text
/// order 0: number with weight,   1: exp(H),   2: 1 / sum p^2
/// ```
///
/// Args:
///     weights: rows or weight of each category, 0 for one that was not used. float64 or float32. [K]
///     order: 0, 1 or 2; 2 is the ESS of the weights.
///
/// Returns:
///     1 to the number of categories with weight; NaN where nothing has weight.
///
/// Raises:
///     ArgumentError: a weight that is negative, NaN or infinite, or another order.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Hill 1973.
#[pyfunction]
#[pyo3(signature = (weights, *, order=1))]
pub(crate) fn effective_number(py: Python<'_>, weights: &Bound<'_, PyAny>, order: i64) -> PyResult<f64> {
    let order = count("order", order)?;
    with_reals!(&reals("weights", weights)?, |values| compute(py, || diversity::effective_number(
        values, order
    )))
}

/// Compute the Gini coefficient of the weights of categories: half their mean absolute difference over their mean.
///
/// ```text
/// G = sum_i (2 i - K - 1) w_(i) / (K sum w),   w_(1) <= ... <= w_(K)
/// ```
///
/// Args:
///     weights: rows or weight of each category, 0 for one that was not used. float64 or float32. [K]
///
/// Returns:
///     0 (all alike) to (K - 1) / K (one has everything); NaN where nothing has weight.
///
/// Raises:
///     ArgumentError: a weight that is negative, NaN or infinite.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Gini 1912.
#[pyfunction]
pub(crate) fn gini(py: Python<'_>, weights: &Bound<'_, PyAny>) -> PyResult<f64> {
    with_reals!(&reals("weights", weights)?, |values| compute(py, || diversity::gini(values)))
}

/// Return the share of the given categories that have any weight.
///
/// ```text
/// coverage = (number of categories with w > 0) / K
/// ```
///
/// Args:
///     weights: rows or weight of each category, 0 for one that was not used. float64 or float32. [K]
///
/// Returns:
///     0 to 1; NaN for an empty list.
///
/// Raises:
///     ArgumentError: a weight that is negative, NaN or infinite.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
#[pyfunction]
pub(crate) fn coverage(py: Python<'_>, weights: &Bound<'_, PyAny>) -> PyResult<f64> {
    with_reals!(&reals("weights", weights)?, |values| compute(py, || diversity::coverage(values)))
}

/// Result of `mutual_information`, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Information {
    rows: usize,
    mutual_nats: f64,
    input_entropy_nats: f64,
    output_entropy_nats: f64,
    within_entropy_nats: f64,
    bias_nats: f64,
}

/// Compute the mutual information of inputs and outputs, over the rows that have both.
#[pyfunction]
pub(crate) fn mutual_information(
    py: Python<'_>,
    inputs: &Bound<'_, PyAny>,
    outputs: &Bound<'_, PyAny>,
) -> PyResult<Information> {
    let inputs = groups("inputs", inputs)?;
    let outputs = groups("outputs", outputs)?;
    let found = compute(py, || diversity::mutual_information(&inputs, &outputs, threads()))?;
    Ok(Information {
        rows: found.rows,
        mutual_nats: found.mutual,
        input_entropy_nats: found.input_entropy,
        output_entropy_nats: found.output_entropy,
        within_entropy_nats: found.within_entropy,
        bias_nats: found.bias,
    })
}

/// Ragged token ids, borrowed.
struct Ragged<'py> {
    tokens: Groups<'static>,
    offsets: Column<'py, i64>,
}

impl<'py> Ragged<'py> {
    fn new(tokens: &Bound<'py, PyAny>, offsets: &Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(Self { tokens: groups("tokens", tokens)?, offsets: column("offsets", offsets)? })
    }

    /// Run a kernel over the sequences.
    fn compute<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(Sequences<'_>) -> karl_core::Result<T> + Send,
    ) -> PyResult<T> {
        let (tokens, offsets) = (&self.tokens, self.offsets.as_slice()?);
        compute(py, || work(Sequences::new(tokens, offsets)?))
    }
}

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
