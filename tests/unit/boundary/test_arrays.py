"""An array is borrowed as it is or refused by name: nothing is cast or copied in silence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import karl_fast
from karl_fast import _core, sampling
from karl_fast.errors import ArgumentError, DTypeError, LayoutError, UsageError

F = np.array([1.0, 0.0, 0.5, 0.25])
G = np.array([0, 0, 1, 1])
KEYS = np.zeros((4, 3), dtype=np.uint64)

# name of the function, how it is called with one argument replaced, the argument's name, a right value
CALLS: list[Any] = [
    pytest.param(lambda a: karl_fast.centre(a, G), "rewards", F, id="centre-rewards"),
    pytest.param(lambda a: karl_fast.centre(F, a), "group_ids", G, id="centre-group_ids"),
    pytest.param(lambda a: karl_fast.zscore(a, G), "rewards", F, id="zscore-rewards"),
    pytest.param(lambda a: karl_fast.zscore(F, a), "group_ids", G, id="zscore-group_ids"),
    pytest.param(lambda a: karl_fast.leave_one_out(a, G), "rewards", F, id="leave_one_out-rewards"),
    pytest.param(lambda a: karl_fast.leave_one_out(F, a), "group_ids", G, id="leave_one_out-group_ids"),
    pytest.param(lambda a: karl_fast.composite([F, a], [1.0, 1.0]), "component", F, id="composite-component"),
    pytest.param(karl_fast.log_sum_exp, "values", F, id="log_sum_exp-values"),
    pytest.param(karl_fast.log_mean_exp, "values", F, id="log_mean_exp-values"),
    pytest.param(karl_fast.boltzmann, "scores", F, id="boltzmann-scores"),
    pytest.param(lambda a: karl_fast.boltzmann(F, a), "scopes", G, id="boltzmann-scopes"),
    pytest.param(lambda a: karl_fast.draw(a, 2), "log_weights", F, id="draw-log_weights"),
    pytest.param(lambda a: _core.top(a, 2), "keys", F, id="top-keys"),
    pytest.param(lambda a: sampling.draw_with_inclusion(a, 2).inclusion, "log_weights", F, id="draw_with_inclusion"),
    pytest.param(lambda a: sampling.inclusion(a, 2), "log_weights", F, id="inclusion"),
    pytest.param(lambda a: sampling.threshold(a, 2)[1], "weights", F, id="threshold"),
    pytest.param(lambda a: sampling.draw_priority(a, 2).estimates, "weights", F, id="draw_priority"),
    pytest.param(lambda a: sampling.draw_var_opt(a, 2).estimates, "weights", F, id="draw_var_opt"),
    pytest.param(lambda a: sampling.Alias(a).probabilities(), "log_weights", F, id="Alias"),
    pytest.param(lambda a: sampling.TopK(2).update(KEYS, a), "log_weights", F, id="TopK"),
    pytest.param(lambda a: sampling.Priority(2).update(KEYS, a), "weights", F, id="Priority"),
    pytest.param(lambda a: sampling.VarOpt(2).update(KEYS, a), "weights", F, id="VarOpt"),
    pytest.param(lambda a: sampling.Moments().update(a), "values", F, id="Moments"),
]

OTHER = {
    "float64": (np.float32, np.complex128),
    "float32 or float64": (np.float16, np.complex128),
    "int64": (np.float64, np.bool_),
}


def wanted_by(name: str, right: Any) -> str:
    """What a refusal says was wanted: all but these may be single."""
    if right.dtype == np.float64 and name not in ("component", "keys"):
        return "float32 or float64"
    return str(right.dtype)


@pytest.mark.parametrize(("call", "name", "right"), CALLS)
def test_a_fitting_array_is_accepted_and_unchanged(call: Any, name: str, right: Any) -> None:
    before = right.copy()
    call(right)
    frozen = right.copy()
    frozen.flags.writeable = False
    call(frozen)
    np.testing.assert_array_equal(right, before)


@pytest.mark.parametrize(("call", "name", "right"), CALLS)
def test_another_element_type_is_refused_by_name(call: Any, name: str, right: Any) -> None:
    wanted = wanted_by(name, right)
    others = [right.astype(other) for other in OTHER[wanted]]
    for other in [*others, right.astype(right.dtype.newbyteorder())]:
        with pytest.raises(DTypeError, match=rf"^{name} has dtype .*, wanted .*{wanted}$") as error:
            call(other)
        assert str(other.dtype) in str(error.value)


@pytest.mark.parametrize(("call", "name", "right"), CALLS)
def test_what_is_no_array_is_refused_by_name(call: Any, name: str, right: Any) -> None:
    for other, kind in ((["a", 1], "list"), ({1.0}, "set"), (1.0, "float"), ("text", "str")):
        wanted = f"a NumPy array or an Arrow column of {wanted_by(name, right)}"
        with pytest.raises(DTypeError, match=rf"^{name} is a {kind}, wanted {wanted}$"):
            call(other)


@pytest.mark.parametrize(("call", "name", "right"), CALLS)
def test_lists_and_integers_are_accepted_as_numbers(call: Any, name: str, right: Any) -> None:
    whole = np.array([1, 0, 3, 2]) if right.dtype == np.float64 else right
    wanted = call(whole.astype(right.dtype))
    others = [whole.tolist(), tuple(whole.tolist()), whole.astype(np.int32), whole.astype(np.uint64), list(whole)]
    for other in others:
        for found, one in zip(_arrays(call(other)), _arrays(wanted), strict=True):
            np.testing.assert_array_equal(found, one)


def _arrays(result: Any) -> list[Any]:
    return [result.log_weights, result.log_z] if isinstance(result, karl_fast.Target) else [result]


NAMES = ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    "names",
    [
        NAMES,
        tuple(NAMES),
        np.array(NAMES),
        np.array(NAMES, dtype=object),
        np.array(NAMES, dtype=np.dtypes.StringDType()),
    ],
    ids=["list", "tuple", "U", "object", "StringDType"],
)
def test_names_are_groups(names: Any) -> None:
    np.testing.assert_array_equal(karl_fast.centre(F, names), karl_fast.centre(F, G))
    found = karl_fast.boltzmann(F, names, inverse_temperature=1.0)
    np.testing.assert_array_equal(found.log_z, karl_fast.boltzmann(F, G, inverse_temperature=1.0).log_z)


def test_none_in_a_list_is_missing() -> None:
    scores = karl_fast.centre([1.0, None, 0, 1], ["a", "a", None, "a"])
    np.testing.assert_array_equal(scores, karl_fast.centre(np.array([1.0, np.nan, 0.0, 1.0]), np.array([0, 0, -1, 0])))


@pytest.mark.parametrize(
    ("rewards", "groups", "says"),
    [
        ([2**53 + 1, 0], [0, 0], rf"^rewards has {2**53 + 1} at 0, which float64 cannot hold$"),
        (np.array([0, 2**63], np.uint64), [0, 0], rf"^rewards has {2**63} at 1, which float64 cannot hold$"),
        ([0.0, 1.0], np.array([0, 2**63], np.uint64), rf"^group_ids has {2**63} at 1, which int64 cannot hold$"),
        ([0.0, 1.0], [0, 2**64], rf"^group_ids has {2**64} at 1, which int64 cannot hold$"),
        (["0.5", "1"], [0, 0], "^rewards is a list, wanted a NumPy array or an Arrow column of float32 or float64$"),
        (np.array(["0.5", "1"]), [0, 0], "^rewards has dtype <U3, wanted"),
        ([0.0, 1.0], ["a", 1], "^group_ids is a list, wanted"),
        ([0.0, 1.0], [0.0, 1.5], "^group_ids is a list, wanted"),
    ],
)
def test_what_would_change_on_the_way_is_refused(rewards: Any, groups: Any, says: str) -> None:
    with pytest.raises(DTypeError, match=says):
        karl_fast.centre(rewards, groups)


@pytest.mark.parametrize(("call", "name", "right"), CALLS)
def test_another_shape_is_refused_by_name(call: Any, name: str, right: Any) -> None:
    for shape, dimensions in (((2, 2), 2), ((), 0)):
        other = right.reshape(shape) if shape else right[:1].reshape(())
        with pytest.raises(LayoutError, match=rf"^{name} has {dimensions} dimensions, wanted 1$"):
            call(other)


@pytest.mark.parametrize(("call", "name", "right"), CALLS)
def test_an_array_with_gaps_is_refused_by_name(call: Any, name: str, right: Any) -> None:
    for other in (np.repeat(right, 2)[::2], right[::-1]):
        with pytest.raises(LayoutError, match=rf"^{name} is not contiguous, wanted a copy by numpy\.ascontiguous"):
            call(other)


def test_a_misaligned_array_is_refused_or_read_right() -> None:
    """A view into bytes may be contiguous and yet not aligned."""
    buffer = np.zeros(4 * 8 + 1, dtype=np.uint8)
    skewed = buffer[1:].view(np.float64)
    skewed[:] = F
    try:
        found = karl_fast.centre(skewed, G)
    except LayoutError as error:
        assert "rewards" in str(error)  # noqa: PT017  (either outcome is right, a third is not)
    else:
        np.testing.assert_array_equal(found, karl_fast.centre(F, G))


@pytest.mark.parametrize("score", [karl_fast.centre, karl_fast.zscore, karl_fast.leave_one_out])
def test_columns_of_two_lengths_are_refused(score: Any) -> None:
    with pytest.raises(ArgumentError, match=r"length 4, wanted 3|length 3, wanted 4"):
        score(F, G[:3].copy())


@pytest.mark.parametrize("score", [karl_fast.centre, karl_fast.zscore, karl_fast.leave_one_out])
def test_missing_rewards_stay_missing_infinite_are_refused(score: Any) -> None:
    assert math.isnan(score(np.array([1.0, math.nan, 0.0]), np.zeros(3, dtype=np.int64))[1])
    for bad in (math.inf, -math.inf):
        with pytest.raises(ArgumentError, match=r"rewards? at index 1 is -?inf, wanted a finite number"):
            score(np.array([1.0, bad, 0.0]), np.zeros(3, dtype=np.int64))


@pytest.mark.parametrize("score", [karl_fast.centre, karl_fast.zscore, karl_fast.leave_one_out])
def test_no_rows_give_no_rows(score: Any) -> None:
    found = score(np.array([]), np.array([], dtype=np.int64))
    assert (found.shape, found.dtype) == ((0,), np.float64)


def test_log_weights_may_be_minus_infinity_only() -> None:
    for bad in (math.nan, math.inf):
        logs = np.array([0.0, bad])
        for call in (karl_fast.log_sum_exp, karl_fast.log_mean_exp, karl_fast.ess, lambda a: karl_fast.draw(a, 1)):
            with pytest.raises(ArgumentError, match="at index 1"):
                call(logs)
    zero = np.array([-math.inf, 0.0])
    assert karl_fast.log_sum_exp(zero) == 0.0
    assert karl_fast.ess(zero) == 1.0
    assert karl_fast.draw(zero, 2).tolist() == [1]


def test_nothing_has_an_empty_sum_and_no_mean() -> None:
    nothing = np.array([])
    assert karl_fast.log_sum_exp(nothing) == -math.inf
    assert karl_fast.ess(nothing) == 0.0
    assert karl_fast.draw(nothing, 3).tolist() == []
    assert karl_fast.boltzmann(nothing).note == "no_rows"
    with pytest.raises(ArgumentError, match="length 0, wanted 1"):
        karl_fast.log_mean_exp(nothing)


def test_scores_may_be_missing_but_not_infinite() -> None:
    target = karl_fast.boltzmann(np.array([1.0, math.nan, 0.0]))
    assert target.log_weights[1] == -math.inf
    with pytest.raises(ArgumentError, match="score at index 0"):
        karl_fast.boltzmann(np.array([math.inf, 0.0]))


@pytest.mark.parametrize(
    ("choice", "error"),
    [
        ({"ess": 0.0}, ArgumentError),
        ({"ess": 1.5}, ArgumentError),
        ({"ess": math.nan}, ArgumentError),
        ({"inverse_temperature": -1.0}, ArgumentError),
        ({"inverse_temperature": math.inf}, ArgumentError),
        ({"inverse_temperature": math.nan}, ArgumentError),
        ({"inverse_temperature": 1.0, "ess": 0.5}, UsageError),
    ],
)
def test_a_temperature_that_nobody_can_mean_is_refused(choice: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"ess|inverse_temperature"):
        karl_fast.boltzmann(F, **choice)


@pytest.mark.parametrize(
    ("keys", "error", "match"),
    [
        (KEYS.astype(np.int64), DTypeError, "^keys has dtype int64, wanted uint64$"),
        (KEYS[:, 0].copy(), LayoutError, "^keys has 1 dimensions, wanted 2$"),
        (KEYS[:, :2].copy(), LayoutError, "^keys has 2 columns, wanted 3$"),
        (np.asfortranarray(np.arange(12, dtype=np.uint64).reshape(4, 3)), LayoutError, "^keys is not contiguous"),
        (KEYS[:3].copy(), ArgumentError, "^keys has 3 rows, wanted 4$"),
        (KEYS.tolist(), DTypeError, "^keys is a list"),
    ],
)
def test_keys_are_refused_by_name(keys: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        karl_fast.draw(F, 2, keys=keys)


def test_uniforms_want_as_many_keys_as_rows() -> None:
    with pytest.raises(ArgumentError, match=r"^keys has 4 rows, wanted 5$"):
        karl_fast.uniforms(5, seed=0, purpose="draw", keys=KEYS)


def test_an_unknown_purpose_is_refused() -> None:
    with pytest.raises(ArgumentError, match='purpose is "luck", wanted draw, order or split'):
        karl_fast.uniforms(5, seed=0, purpose="luck")


def test_as_many_weights_as_components_are_wanted() -> None:
    with pytest.raises(ArgumentError, match="length"):
        karl_fast.composite([F, F], [1.0])


def test_a_negative_group_is_none() -> None:
    found = karl_fast.centre(F, np.array([-1, 0, 0, -5]))
    assert np.isnan(found[[0, 3]]).all()
    assert found[[1, 2]].tolist() == [-0.25, 0.25]


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_outside_64_bits_is_refused(seed: int) -> None:
    with pytest.raises(ArgumentError, match=rf"^seed is {seed}, wanted 0 to"):
        karl_fast.draw(F, 2, seed=seed)
