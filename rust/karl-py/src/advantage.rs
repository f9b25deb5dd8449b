//! Bindings of `karl_core::advantage`: scores of rewards within groups, baselines, and scores over tokens,
//! steps and time.

#![allow(clippy::doc_markdown, reason = "these are docstrings of Python")]

use crate::boundary::array::{
    Column, Reals, column, count, flags, freedom, fresh, groups, groups_in_any_order, reals, threads,
    with_reals,
};
use crate::boundary::error::{ArgumentError, UsageError};
use crate::boundary::grouping::{Grouping, OptionalArgument, ragged, score};
use crate::boundary::release_gil::compute;
use karl_core::Scratch;
use karl_core::advantage::{
    self, CONVENTIONS, Convention, DeviationScope, Ema, Empg, Gdpo, Gigpo, Norm, Score, Shrunk,
    StatisticsUnit, Steps, TreeCredit, Whitening, set_scores as set_scores_of,
};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

pub(crate) type Scores<'py> = Bound<'py, PyArray1<f64>>;

/// Return a point of the axis, in an array of its own.
fn scored<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    (group_ids, offsets): (OptionalArgument<'_, 'py>, OptionalArgument<'_, 'py>),
    score: Score,
) -> PyResult<Scores<'py>> {
    let (rewards, grouping) = (reals("rewards", rewards)?, Grouping::in_any_order(group_ids, offsets)?);
    with_reals!(&rewards, |values| {
        let layout = grouping.layout(values.len())?;
        let mut scores = fresh::<f64>(py, values.len())?;
        let (mut groups, mut dealt) = (fresh(py, layout.scratch_rows())?, fresh(py, layout.scratch_rows())?);
        let (column, room) =
            (scores.as_slice_mut()?, Scratch::new(groups.as_slice_mut()?, dealt.as_slice_mut()?));
        compute(py, || score.fill(values, layout, column, room, threads()))?;
        Ok((**scores).clone())
    })
}

/// Subtract a number from each reward.
///
///     A_i = (r_i - baseline) / temperature
///
/// Args:
///     rewards: float64 or float32, an array of NumPy or an Arrow column; NaN or null is missing. [B]
///     baseline: the number; 0.5 is that of karl 1.0.0.
///     temperature: what the difference is divided by, above 0.
///
/// Returns:
///     The advantages; NaN where the reward is missing. [B]
///
/// Raises:
///     ArgumentError: an infinite reward, a baseline that is not finite, or a temperature that is not above 0.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: karl 1.0.0, ``reward_engine.compute_advantage``.
#[pyfunction]
#[pyo3(signature = (rewards, *, baseline=0.5, temperature=1.0))]
pub(crate) fn fixed_baseline<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    baseline: f64,
    temperature: f64,
) -> PyResult<Scores<'py>> {
    let rewards = reals("rewards", rewards)?;
    let out = with_reals!(&rewards, |values| {
        compute(py, || advantage::fixed_baseline(values, baseline, temperature))?
    });
    Ok(out.into_pyarray(py))
}

/// Result of ema_baseline, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Running<'py> {
    advantages: Scores<'py>,
    ids: Bound<'py, PyArray1<i64>>,
    baselines: Scores<'py>,
}

/// Subtract a running mean of the earlier rewards of its group from each reward.
#[pyfunction]
#[pyo3(signature = (rewards, group_ids, *, offsets, alpha, start, ids, baselines))]
#[allow(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn ema_baseline<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: OptionalArgument<'_, 'py>,
    offsets: OptionalArgument<'_, 'py>,
    alpha: f64,
    start: f64,
    ids: &Bound<'py, PyAny>,
    baselines: &Bound<'py, PyAny>,
) -> PyResult<Running<'py>> {
    let rewards = reals("rewards", rewards)?;
    let ids: Column<'_, i64> = column("ids", ids)?;
    let baselines: Column<'_, f64> = column("baselines", baselines)?;
    let state = Ema { ids: ids.as_slice()?.to_vec(), baselines: baselines.as_slice()?.to_vec() };
    let (advantages, state) = with_reals!(&rewards, |values| {
        let groups = numbers(group_ids, offsets, values.len())?;
        let groups = groups.as_slice()?;
        compute(py, || advantage::ema_baseline(values, groups, (alpha, start), state))?
    });
    Ok(Running {
        advantages: advantages.into_pyarray(py),
        ids: state.ids.into_pyarray(py),
        baselines: state.baselines.into_pyarray(py),
    })
}

/// Return the number by which a state knows the group of each row: its id, or its row of the offsets.
fn numbers<'py>(
    group_ids: OptionalArgument<'_, 'py>,
    offsets: OptionalArgument<'_, 'py>,
    rows: usize,
) -> PyResult<Column<'py, i64>> {
    match (group_ids, offsets) {
        (Some(ids), None) => column("group_ids", ids),
        (None, Some(offsets)) => {
            let offsets = column("offsets", offsets)?;
            let offsets = ragged("offsets", &offsets, rows)?;
            let numbers = offsets.rows().zip(0..).flat_map(|(rows, number)| rows.map(move |_| number));
            Ok(Column::Arrow(numbers.collect()))
        }
        _ => Err(UsageError::new_err("give either group_ids or offsets")),
    }
}

/// Subtract the mean of its group from each reward (Dr. GRPO).
///
///     A_i = r_i - mean_g
///
/// Statistics are over the present rewards of a group. A group of equal rewards has advantage exactly 0, and so has a
/// group of one; a missing reward (NaN) and a row without a group have NaN.
///
/// Args:
///     rewards: float64 or float32, an array of NumPy or an Arrow column; NaN or null is missing. [B]
///     group_ids: the group of each row in any order, negative for none; or names, in an Arrow column. [B]
///     offsets: instead of ids, where each group begins, for groups end to end. [P + 1]
///
/// Returns:
///     The advantages. [B]
///
/// Raises:
///     ArgumentError: an infinite reward, columns that differ in rows, or an advantage beyond float64.
///     UsageError: both or neither of group_ids and offsets.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: Liu et al. 2025 (arXiv:2503.20783).
#[pyfunction]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None))]
pub(crate) fn centre<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
) -> PyResult<Scores<'py>> {
    scored(py, rewards, (group_ids, offsets), Score::Centre)
}

/// Scale advantages of steps up where the policy was certain and down where it was not (EMPG).
///
///     h_k = (H_k - min H) / (max H - min H + eps),    g_k = exp(-fade h_k) / (mean_j exp(-fade h_j) + eps)
///     A_k <- A_k g_k + bonus exp(-bonus_fade h_{k+1})      (no bonus for the last step of a trajectory)
///     A_k <- A_k - mean_j A_j
///
/// Args:
///     advantages: of each step, of all trajectories end to end; float64 or float32, NaN is missing. [U]
///     entropies: the mean entropy of the tokens of each step, in nats, zero or more; float64 or
///         float32. [U]
///     offsets: where the steps of each trajectory begin. [N + 1]
///     fade: the rate at which the gradient falls with entropy (k of the paper).
///     bonus_fade: the rate at which the bonus falls with the entropy of the next step (k').
///     bonus: the largest bonus, of a step before the step of least entropy (zeta).
///     eps: added to both denominators.
///
/// Returns:
///     The modulated advantages, with mean 0. Entropies that are all equal have h = 0. [U]
///
/// Raises:
///     ArgumentError: an infinite advantage, an entropy that is not finite or negative, another negative number,
///         columns that differ in length.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: EMPG (arXiv:2509.09265), equations 8 to 12; the defaults are those of ARLArena.
#[pyfunction]
#[pyo3(signature = (advantages, entropies, offsets, *, fade=1.0, bonus_fade=1.0, bonus=0.05, eps=1e-8))]
#[allow(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn empg<'py>(
    py: Python<'py>,
    advantages: &Bound<'py, PyAny>,
    entropies: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    fade: f64,
    bonus_fade: f64,
    bonus: f64,
    eps: f64,
) -> PyResult<Scores<'py>> {
    let (advantages, entropies) = (reals("advantages", advantages)?, reals("entropies", entropies)?);
    let offsets = column::<i64>("offsets", offsets)?;
    let how = Empg { fade, bonus_fade, bonus, eps };
    let out = with_reals!(&advantages, |values| {
        let steps = ragged("offsets", &offsets, values.len())?;
        with_reals!(&entropies, |entropies| {
            compute(py, || advantage::empg(values, entropies, steps, how))?
        })
    });
    Ok(out.into_pyarray(py))
}

/// Normalise each of several rewards in its group, then add them (GDPO).
///
///     z_id = (r_id - mean_gd) / (std_gd + eps),    s_i = sum_d weight_d z_id
///     A_i  = s_i / (std + eps)
///
/// The sums of a batch have mean 0, so that no mean is subtracted: a group of equal rewards has exactly 0.
///
/// Args:
///     rewards: D columns as in :func:`centre`; a missing reward is left out of its row's sum. D x [B]
///     weights: one a reward. [D]
///     group_ids, offsets: as in :func:`centre`.
///     ddof, eps: of both normalisations; the defaults are TRL's.
///     batch: whether the sums are normalised over the batch, as the paper has it.
///
/// Returns:
///     The advantages; NaN where a row has none of the rewards. [B]
///
/// Raises:
///     As :func:`zscore`; ArgumentError for a weight that is not finite, or weights that are not one a reward.
///
/// Reference: GDPO (arXiv:2601.05242).
#[pyfunction]
#[pyo3(signature = (rewards, weights, group_ids=None, *, offsets=None, ddof=1, eps=1e-4, batch=true))]
#[allow(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn gdpo<'py>(
    py: Python<'py>,
    rewards: Vec<Bound<'py, PyAny>>,
    weights: Vec<f64>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    ddof: i64,
    eps: f64,
    batch: bool,
) -> PyResult<Scores<'py>> {
    let one = |(at, column): (usize, &Bound<'py, PyAny>)| reals(&format!("rewards[{at}]"), column);
    let columns: Vec<_> = rewards.iter().enumerate().map(one).collect::<PyResult<_>>()?;
    if columns.is_empty() || columns.len() != weights.len() {
        let (got, wanted) = (weights.len(), columns.len().max(1));
        return Err(ArgumentError::new_err(format!(
            "weights has length {got}, wanted {wanted}, one a reward"
        )));
    }
    let grouping = Grouping::in_any_order(group_ids, offsets)?;
    let rows = with_reals!(&columns[0], |values| values.len());
    let (layout, ddof) = (grouping.layout(rows)?, freedom(ddof)?);
    let mut gdpo = compute(py, || Gdpo::new(layout, ddof, eps, threads()))?;
    for (at, (column, weight)) in columns.iter().zip(weights).enumerate() {
        with_reals!(column, |values| {
            same_rows(at, values.len(), rows)?;
            compute(py, || gdpo.add(values, weight)).map_err(|error| of_column(py, error, at))?;
        });
    }
    let out = compute(py, || if batch { gdpo.normalised() } else { Ok(gdpo.sum()) })?;
    Ok(out.into_pyarray(py))
}

fn same_rows(at: usize, got: usize, wanted: usize) -> PyResult<()> {
    let refused = || ArgumentError::new_err(format!("rewards[{at}] has length {got}, wanted {wanted}"));
    if got == wanted { Ok(()) } else { Err(refused()) }
}

/// Add the column to an error of its values.
fn of_column(py: Python<'_>, error: PyErr, at: usize) -> PyErr {
    if !error.is_instance_of::<ArgumentError>(py) {
        return error;
    }
    ArgumentError::new_err(format!("{} (reward {at})", error.value(py)))
}

fn unit_named(name: &str) -> PyResult<StatisticsUnit> {
    match name {
        "trajectory" => Ok(StatisticsUnit::Trajectory),
        "step" => Ok(StatisticsUnit::Step),
        _ => Err(UsageError::new_err(format!("unit is {name:?}, wanted trajectory or step"))),
    }
}

fn norm_named(name: &str, ddof: u8, eps: f64) -> PyResult<Norm> {
    match name {
        "mean" => Ok(Norm::Mean),
        "mean_std" => Ok(Norm::MeanStd { ddof, eps }),
        _ => Err(UsageError::new_err(format!("norm is {name:?}, wanted mean_std or mean"))),
    }
}

/// Result of gigpo, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Credit<'py> {
    episode: Scores<'py>,
    step: Scores<'py>,
    joint: Scores<'py>,
}

/// Compute the credit for a trajectory, and for each of its steps among those from the same state.
#[pyfunction]
#[pyo3(signature = (
    rewards, offsets, group_ids, state_ids, *, group_offsets, gamma, step_weight, unit, norm, ddof, eps
))]
#[allow(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn gigpo<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    group_ids: OptionalArgument<'_, 'py>,
    state_ids: &Bound<'py, PyAny>,
    group_offsets: OptionalArgument<'_, 'py>,
    gamma: f64,
    step_weight: f64,
    unit: &str,
    norm: &str,
    ddof: i64,
    eps: f64,
) -> PyResult<Credit<'py>> {
    let (rewards, offsets) = (reals("rewards", rewards)?, column::<i64>("offsets", offsets)?);
    let names = ["group_ids", "group_offsets"];
    let groups = Grouping::named(names, groups, group_ids, group_offsets)?;
    let groups = groups.codes("group_offsets", offsets.as_slice()?.len().saturating_sub(1))?;
    let states = self::groups("state_ids", state_ids)?;
    let (unit, norm) = (unit_named(unit)?, norm_named(norm, freedom(ddof)?, eps)?);
    let how = Gigpo { gamma, step_weight, unit, norm };
    let credit = with_reals!(&rewards, |rewards| {
        let trajectories = ragged("offsets", &offsets, rewards.len())?;
        let steps = Steps { rewards, trajectories, groups: &groups, states: &states };
        compute(py, || advantage::gigpo(steps, how, threads()))?
    });
    Ok(Credit {
        episode: credit.episode.into_pyarray(py),
        step: credit.step.into_pyarray(py),
        joint: credit.joint.into_pyarray(py),
    })
}

/// Subtract the mean of the others of its group from each reward (RLOO).
///
///     A_i = r_i - mean of r_j, j != i  =  n / (n - 1) * (r_i - mean_g)
///
/// Args:
///     rewards, group_ids, offsets: as in :func:`centre`.
///
/// Returns:
///     The advantages; degenerate cases as in :func:`centre`. [B]
///
/// Raises:
///     As :func:`centre`.
///
/// Reference: Ahmadian et al. 2024 (arXiv:2402.14740).
#[pyfunction]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None))]
pub(crate) fn leave_one_out<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
) -> PyResult<Scores<'py>> {
    scored(py, rewards, (group_ids, offsets), Score::LeaveOneOut)
}

/// Divide each centred reward by the mean of its group (MaxRL).
///
///     A_i = (r_i - mean_g) / (mean_g + eps)
///
/// Args:
///     rewards, group_ids, offsets: as in :func:`centre`; rewards are zero or more.
///     eps: added to the mean.
///
/// Returns:
///     The advantages; degenerate cases as in :func:`centre`. [B]
///
/// Raises:
///     ArgumentError: eps or a reward is negative (a mean below 0 would turn the sign round), or as in :func:`centre`.
///
/// Reference: MaxRL (arXiv:2602.02710).
#[pyfunction]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None, eps=1e-8))]
pub(crate) fn maxrl<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    eps: f64,
) -> PyResult<Scores<'py>> {
    score!(py, rewards, (group_ids, offsets), |values, layout| {
        advantage::maxrl(values, layout, eps, threads())
    })
}

/// Compute the discounted return of each step.
///
///     R_k = r_k + gamma R_{k+1} within a row,    0 behind the last
///
/// Args:
///     rewards: the reward of each step, of all rows end to end; float64 or float32, NaN or null is missing. [T]
///     offsets: where the steps of each row begin. [B + 1]
///     gamma: the discount of a step, 0 to 1.
///
/// Returns:
///     The returns. A missing reward makes its own return NaN, and with gamma above 0 those before it. [T]
///
/// Raises:
///     ArgumentError: an infinite reward, a return beyond float64, or a gamma outside 0 to 1.
///     DTypeError, LayoutError: an array that would have to be cast or copied, or offsets out of place.
///
/// Reference: Sutton and Barto 2018, section 3.3.
#[pyfunction]
#[pyo3(signature = (rewards, offsets, *, gamma))]
pub(crate) fn discounted_returns<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    gamma: f64,
) -> PyResult<Scores<'py>> {
    let (rewards, offsets) = (reals("rewards", rewards)?, column::<i64>("offsets", offsets)?);
    let out = with_reals!(&rewards, |values| {
        let offsets = ragged("offsets", &offsets, values.len())?;
        compute(py, || advantage::discounted_returns(values, offsets, gamma, threads()))?
    });
    Ok(out.into_pyarray(py))
}

/// Compute what a rollout adds to the best of k rollouts of its group, on average over those k.
///
///     A_i = mean over S of max_{j in S} r_j - max_{j in S, j != i} r_j,    S: k rollouts of the group, i among them
///
/// Args:
///     rewards: NaN for a missing one. float64. [B]
///     group_ids: any integers, negative for no group. [B]
///     k: rollouts of a choice, 2 or more.
///
/// Returns:
///     float64, 0 in a group of fewer than k; NaN where the reward or the group is missing. [B]
///
/// Raises:
///     ArgumentError: an infinite reward, or a k below 2.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Tang et al. 2025 (arXiv:2503.19595), for k equal to the size of the group.
#[pyfunction]
#[pyo3(signature = (rewards, group_ids, *, k))]
pub(crate) fn best_of_k<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: &Bound<'py, PyAny>,
    k: i64,
) -> PyResult<Scores<'py>> {
    let (rewards, groups) =
        (column::<f64>("rewards", rewards)?, groups_in_any_order("group_ids", group_ids)?);
    let (rewards, k) = (rewards.as_slice()?, count("k", k)?);
    Ok(compute(py, || advantage::best_of_k(rewards, &groups, k))?.into_pyarray(py))
}

/// Return the root of each trajectory, as rows.
///
/// Args:
///     parents: row of the trajectory that called each, negative for none. int64. [B]
///
/// Returns:
///     int64. [B]
///
/// Raises:
///     ArgumentError: a parent that is no row, or trajectories that call each other in a circle.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
#[pyfunction]
pub(crate) fn tree_roots<'py>(
    py: Python<'py>,
    parents: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let parents = column::<i64>("parents", parents)?;
    let parents = parents.as_slice()?;
    let roots = compute(py, || advantage::tree_roots(parents))?;
    Ok(roots.into_iter().map(|row| (row as u64).cast_signed()).collect::<Vec<_>>().into_pyarray(py))
}

/// Return the weight of each segment of trees of trajectories, for the mean loss of its tokens.
///
///     tokens:  w_s = tokens of s / tokens of its tree
///     calls:   w_s = 1 / segments of the root, or 1 / (callees * segments of its own trajectory) for one that was called
///
/// By tokens the weights of a tree add up to 1, and every token of it counts the same, whatever called what and wherever
/// it was cut. By calls they add up to 1 without callees, and to 2 with them.
///
/// Args:
///     parents: row of the trajectory that called each, negative for none. int64. [B]
///     rows: the trajectory of each segment. int64. [S]
///     tokens: number of tokens of each segment. int64. [S]
///     credit: tokens or calls.
///
/// Returns:
///     float64. [S]
///
/// Raises:
///     ArgumentError: as `tree_roots`; a segment of no row, a negative count, or another credit.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: rl-experiments @667c1a8, `rlm_grpo`, for calls.
#[pyfunction]
#[pyo3(signature = (parents, rows, tokens, *, credit="tokens"))]
pub(crate) fn segment_weights<'py>(
    py: Python<'py>,
    parents: &Bound<'py, PyAny>,
    rows: &Bound<'py, PyAny>,
    tokens: &Bound<'py, PyAny>,
    credit: &str,
) -> PyResult<Scores<'py>> {
    let (parents, rows) = (column::<i64>("parents", parents)?, column::<i64>("rows", rows)?);
    let tokens = column::<i64>("tokens", tokens)?;
    let (parents, rows, tokens) = (parents.as_slice()?, rows.as_slice()?, tokens.as_slice()?);
    let credit = match credit {
        "tokens" => TreeCredit::Tokens,
        "calls" => TreeCredit::Calls,
        _ => return Err(UsageError::new_err(format!("credit is {credit:?}, wanted tokens or calls"))),
    };
    Ok(compute(py, || advantage::segment_weights(parents, rows, tokens, credit))?.into_pyarray(py))
}

/// Score each set by the best of its candidates in each direction; arrays are flat.
#[pyfunction]
pub(crate) fn set_scores<'py>(
    py: Python<'py>,
    vectors: &Bound<'py, PyAny>,
    sets: &Bound<'py, PyAny>,
    directions: &Bound<'py, PyAny>,
    number: i64,
    samples: i64,
) -> PyResult<Scores<'py>> {
    let (vectors, sets) = (column::<f64>("vectors", vectors)?, column::<i64>("sets", sets)?);
    let directions = column::<f64>("directions", directions)?;
    let (vectors, sets, directions) = (vectors.as_slice()?, sets.as_slice()?, directions.as_slice()?);
    let (number, samples) = (count("number", number)?, count("samples", samples)?);
    Ok(compute(py, || set_scores_of(vectors, sets, directions, number, samples))?.into_pyarray(py))
}

/// Compare each reward to a baseline between the mean of its group and that of all rows, for small and uneven groups.
///
///     b_g = (n mean_g + strength * mean) / (n + strength)
///     s_g = max(std_g, floor) where n >= min_count, else max(std, floor)
///     A_i = (r_i - b_g) / s_g
///
/// Deviations have ddof 0. The baseline uses other groups too: a group of one is compared to them, and its advantage
/// is not 0.
///
/// Args:
///     rewards, group_ids, offsets: as in :func:`centre`.
///     strength: number of rewards at the overall mean that are added to each group.
///     floor: the least deviation.
///     min_count: the least rewards for a group to have a deviation of its own.
///
/// Returns:
///     The advantages. [B]
///
/// Raises:
///     As :func:`centre`; ArgumentError for a negative strength, floor or min_count.
///
/// Reference: the reward engine of karl at c41d1c5; the defaults are its constants.
#[pyfunction]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None, strength=10.0, floor=0.02, min_count=5))]
pub(crate) fn shrunk<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    strength: f64,
    floor: f64,
    min_count: i64,
) -> PyResult<Scores<'py>> {
    let min_count = u32::try_from(count("min_count", min_count)?).unwrap_or(u32::MAX);
    let how = Shrunk { strength, floor, min_count };
    score!(py, rewards, (group_ids, offsets), |values, layout| {
        advantage::shrunk(values, layout, how, threads())
    })
}

/// Compare each reward to the log-partition of its group, a soft maximum.
///
///     A_i = r_i - (1 / b) log( (1 / n) sum_j exp(b r_j) )
///
/// `exp(b A_i) / n` is the Boltzmann target of the group. The baseline lies between the mean (b to 0) and the largest reward.
///
/// Args:
///     rewards, group_ids, offsets: as in :func:`centre`.
///     inverse_temperature: b, above 0; the beta of OAPL is 1 / b.
///
/// Returns:
///     The advantages; degenerate cases as in :func:`centre`. [B]
///
/// Raises:
///     As :func:`centre`; ArgumentError for an inverse temperature that is not above 0.
///
/// References: DRO (arXiv:2405.19107); OAPL (arXiv:2602.19362).
#[pyfunction]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None, inverse_temperature))]
pub(crate) fn partition_baseline<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    inverse_temperature: f64,
) -> PyResult<Scores<'py>> {
    score!(py, rewards, (group_ids, offsets), |values, layout| {
        advantage::partition_baseline(values, layout, inverse_temperature, threads())
    })
}

/// A convention, as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct Facts {
    name: &'static str,
    ddof: Option<u8>,
    eps: f64,
    singleton: &'static str,
    missing: &'static str,
    single: &'static str,
    source: &'static str,
}

/// Return all conventions, with each of their choices.
#[pyfunction]
pub(crate) fn conventions() -> Vec<Facts> {
    let facts = |convention: Convention| Facts {
        name: convention.name,
        ddof: convention.ddof,
        eps: convention.eps,
        singleton: convention.singleton.name(),
        missing: convention.missing.name(),
        single: convention.single.name(),
        source: convention.source,
    };
    CONVENTIONS.into_iter().map(facts).collect()
}

/// Compute group advantages as another trainer does, defects included.
///
/// ```text
/// A_i = (r_i - mean_g) / (std_g + eps)      or r_i - mean_g
/// ```
///
/// ``CONVENTIONS`` lists each convention: ddof and eps, a group of one, a missing reward, rounding. Statistics of
/// float64 rewards are float64, and equal rewards have exactly 0. Those of float32 rewards are the same as torch on
/// x86-64, bit by bit in groups below 32,768: eight rewards of 0.3 have 0.0289 with verl's eps, because their float32
/// mean is off by a bit. Only ``mlx_lm_lora`` has float64 statistics for float32 too: the order of addition in MLX
/// depends on the device.
///
/// Args:
///     name: trl, verl, openrlhf, mlx_lm_lora, tinker or prime_rl.
///     rewards, group_ids, offsets: as in :func:`centre`.
///
/// Returns:
///     The advantages; NaN for a row without a group. [B]
///
/// Raises:
///     As :func:`centre`; ArgumentError for a missing reward where the trainer stops at one (mlx_lm_lora);
///     UsageError: the convention is unknown.
///
/// Reference: the lines that ``CONVENTIONS`` names.
#[pyfunction]
#[pyo3(signature = (name, rewards, group_ids=None, *, offsets=None))]
pub(crate) fn by_convention<'py>(
    py: Python<'py>,
    name: &str,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
) -> PyResult<Scores<'py>> {
    let Some(convention) = Convention::named(name) else {
        let names: Vec<&str> = CONVENTIONS.iter().map(|convention| convention.name).collect();
        return Err(UsageError::new_err(format!("name is {name:?}, wanted one of {}", names.join(", "))));
    };
    let (rewards, grouping) = (reals("rewards", rewards)?, Grouping::in_any_order(group_ids, offsets)?);
    let out = match &rewards {
        Reals::Single(column) => {
            let (values, layout) = (column.as_slice()?, grouping.layout(column.as_slice()?.len())?);
            compute(py, || convention.apply_single(values, layout, threads()))?
        }
        Reals::Double(column) => {
            let (values, layout) = (column.as_slice()?, grouping.layout(column.as_slice()?.len())?);
            compute(py, || convention.apply(values, layout, threads()))?
        }
    };
    Ok(out.into_pyarray(py))
}

/// Scale values to mean 0 and variance 1.
///
///     w_t = (x_t - mean) / sqrt(var + eps),    var = sum_t (x_t - mean)^2 / (n - ddof)
///
/// Args:
///     values: float64 or float32, an array of NumPy or an Arrow column; NaN or null is missing. The tokens of ragged
///         rollouts, end to end, or a padded table made flat. [T]
///     mask: which of them count; all by default. The others are not read, and become 0. [T]
///     ddof: taken from the count under the variance.
///     eps: added to the variance, inside the root.
///
/// Returns:
///     The whitened values; exactly 0 where all that count are equal. [T]
///
/// Raises:
///     ArgumentError: an infinite value, columns that differ, a negative eps, or no more values than ddof.
///     DTypeError, LayoutError: an array that would have to be cast or copied.
///
/// Reference: Hu et al. 2025, REINFORCE++ (arXiv:2501.03262); ddof and eps are those of verl.
#[pyfunction]
#[pyo3(signature = (values, mask=None, *, ddof=1, eps=1e-8))]
pub(crate) fn whiten<'py>(
    py: Python<'py>,
    values: &Bound<'py, PyAny>,
    mask: Option<&Bound<'py, PyAny>>,
    ddof: i64,
    eps: f64,
) -> PyResult<Scores<'py>> {
    let values = reals("values", values)?;
    let mask = mask.map(|mask| flags("mask", mask)).transpose()?;
    let kept = mask.as_ref().map(|mask| mask.as_slice()).transpose()?;
    let how = Whitening { ddof: freedom(ddof)?, eps };
    let out = with_reals!(&values, |values| compute(py, || advantage::whiten(values, kept, how, threads()))?);
    Ok(out.into_pyarray(py))
}

/// Compute discounted returns of tokens, whitened over all tokens of the batch (REINFORCE++).
///
///     R_t = r_t + gamma R_{t+1} within a rollout,    A = whiten(R)
///
/// Args:
///     rewards: the reward of each token, of all rollouts end to end; float64 or float32. [T]
///     offsets: where the tokens of each rollout begin. [B + 1]
///     mask: which tokens count; all by default. The others are not read and have 0; the return goes on across them. [T]
///     gamma: the discount of a token, 0 to 1.
///     ddof, eps: as in :func:`whiten`.
///
/// Returns:
///     The advantage of each token. [T]
///
/// Raises:
///     As :func:`discounted_returns` and :func:`whiten`.
///
/// Reference: Hu et al. 2025 (arXiv:2501.03262).
#[pyfunction]
#[pyo3(signature = (rewards, offsets, *, mask=None, gamma=1.0, ddof=1, eps=1e-8))]
pub(crate) fn reinforce_plus_plus<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    offsets: &Bound<'py, PyAny>,
    mask: Option<&Bound<'py, PyAny>>,
    gamma: f64,
    ddof: i64,
    eps: f64,
) -> PyResult<Scores<'py>> {
    let (rewards, offsets) = (reals("rewards", rewards)?, column::<i64>("offsets", offsets)?);
    let mask = mask.map(|mask| flags("mask", mask)).transpose()?;
    let kept = mask.as_ref().map(|mask| mask.as_slice()).transpose()?;
    let how = Whitening { ddof: freedom(ddof)?, eps };
    let out = with_reals!(&rewards, |values| {
        let offsets = ragged("offsets", &offsets, values.len())?;
        compute(py, || advantage::reinforce_plus_plus((values, kept), offsets, gamma, how, threads()))?
    });
    Ok(out.into_pyarray(py))
}

/// Centre rewards in their group, then whiten them over all tokens of the batch (REINFORCE++-baseline).
///
///     c_i = r_i - mean_g,    A_i = (c_i - mean) / sqrt(var + eps)
///
/// Mean and variance are over all tokens, so a rollout counts as often as it has tokens; all its tokens have one
/// advantage, which is given once: ``numpy.repeat(A, numpy.diff(token_offsets))`` has it a token.
///
/// Args:
///     rewards, group_ids, offsets: as in :func:`centre`.
///     token_offsets: where the tokens of each rollout begin. [B + 1]
///     mask: which tokens count; all by default. [T]
///     ddof, eps: as in :func:`whiten`.
///
/// Returns:
///     The advantage of each rollout; 0 where no token of it counts, NaN where its reward is missing. [B]
///
/// Raises:
///     As :func:`centre` and :func:`whiten`.
///
/// Reference: Hu et al. 2025 (arXiv:2501.03262).
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "keywords of Python")]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None, token_offsets, mask=None, ddof=1, eps=1e-8))]
pub(crate) fn reinforce_plus_plus_baseline<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    token_offsets: &Bound<'py, PyAny>,
    mask: Option<&Bound<'py, PyAny>>,
    ddof: i64,
    eps: f64,
) -> PyResult<Scores<'py>> {
    let rewards = reals("rewards", rewards)?;
    let grouping = Grouping::in_any_order(group_ids, offsets)?;
    let tokens = column::<i64>("token_offsets", token_offsets)?;
    let count = tokens.as_slice()?.last().copied().and_then(|last| usize::try_from(last).ok());
    let tokens = ragged("token_offsets", &tokens, count.unwrap_or(0))?;
    let mask = mask.map(|mask| flags("mask", mask)).transpose()?;
    let kept = mask.as_ref().map(|mask| mask.as_slice()).transpose()?;
    let how = Whitening { ddof: freedom(ddof)?, eps };
    let out = with_reals!(&rewards, |values| {
        let layout = grouping.layout(values.len())?;
        compute(py, || {
            advantage::reinforce_plus_plus_baseline(values, layout, (tokens, kept), how, threads())
        })?
    });
    Ok(out.into_pyarray(py))
}

/// Divide each centred reward by a standard deviation (GRPO).
///
///     A_i = (r_i - mean_g) / (std_g + eps),    std^2 = sum_j (r_j - mean)^2 / (n - ddof)
///
/// Args:
///     rewards, group_ids, offsets: as in :func:`centre`.
///     ddof: taken from the count under the variance: 0, or 1 as TRL, verl and OpenRLHF have it.
///     eps: added to the deviation. A tiny one blows nearly equal rewards up to advantages near 1.
///     scope: what the deviation is over. ``group``; ``batch``: all rows that have a reward and a group, with the mean of
///         the group (TRL's ``scale_rewards="batch"``); ``global``: the mean too is over all of them.
///
/// Returns:
///     The advantages. Equal rewards in a group have exactly 0, and with ``global`` equal rewards everywhere. [B]
///
/// Raises:
///     ArgumentError: as :func:`centre`; a negative eps; rewards that differ, but no more of them than ddof.
///     UsageError, DTypeError, LayoutError: as :func:`centre`; a scope that there is not.
///
/// Reference: Shao et al. 2024 (arXiv:2402.03300).
#[pyfunction]
#[pyo3(signature = (rewards, group_ids=None, *, offsets=None, ddof=0, eps=1e-6, scope="group"))]
pub(crate) fn zscore<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_ids: Option<&Bound<'py, PyAny>>,
    offsets: Option<&Bound<'py, PyAny>>,
    ddof: i64,
    eps: f64,
    scope: &str,
) -> PyResult<Scores<'py>> {
    let (extent, ddof) = (extent(scope)?, freedom(ddof)?);
    if extent == DeviationScope::Group {
        return scored(py, rewards, (group_ids, offsets), Score::ZScore { ddof, eps });
    }
    score!(py, rewards, (group_ids, offsets), |values, layout| {
        advantage::zscore_over(values, layout, extent, (ddof, eps), threads())
    })
}

fn extent(scope: &str) -> PyResult<DeviationScope> {
    match scope {
        "group" => Ok(DeviationScope::Group),
        "batch" => Ok(DeviationScope::Batch),
        "global" => Ok(DeviationScope::Global),
        _ => Err(UsageError::new_err(format!("scope is {scope:?}, wanted one of group, batch, global"))),
    }
}
