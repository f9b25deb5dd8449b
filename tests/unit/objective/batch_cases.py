"""A batch on which every axis matters, and every point of every axis."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast.objective import Batch, Distillation, Objective, Recipe, TeacherForward, TeacherTopK

if TYPE_CHECKING:
    from numpy.typing import NDArray

LENGTHS = [6, 3, 5, 2, 6, 4, 1, 3, 4, 5, 2, 3, 2, 4, 3, 6]
"""Of four groups of four; one token of the first rollout is a tool's."""


def logps(seed: int, spread: float = 0.5, around: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    drawn = np.random.default_rng(seed).normal(size=(len(LENGTHS), max(LENGTHS))) * spread
    return np.asarray(-np.exp(drawn) if around is None else np.minimum(around + drawn, -0.01))


def make_mask() -> NDArray[np.bool_]:
    mask = np.arange(max(LENGTHS))[None, :] < np.array(LENGTHS)[:, None]
    mask[0, 2] = False
    return np.asarray(mask)


MASK = make_mask()
OLD = logps(1)
OLD[4] = -1.5
REF = logps(2, 0.4, OLD)
NEW = logps(3, 0.6, OLD)
NEW[4] = -0.9
"""Far enough from the behaviour policy that every bound is crossed both ways; the fifth rollout 36 times as likely."""

REWARDS = np.array([1.0, 0.0, 1.0, 0.5, 1.0, 1.0, 0.0, 0.0, 0.7, 0.7, 0.7, 0.7, 0.1, 0.3, 0.2, 0.2])
OUTCOMES = np.array([2.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.1, 0.2, 0.1, 0.1, 0.0, 0.0, 0.0, 0.0])
"""The third group differs and is all wrong; the fourth differs in shape alone, and its outcomes are constant."""

TURNS = np.where(MASK, np.arange(6)[None, :] // 2, -1)
TURN_OFFSETS = np.concatenate([[0], np.cumsum(TURNS.max(1) + 1)])
LOG_Z = np.linspace(-0.5, 0.7, len(LENGTHS))
ROLLOUT = logps(11, 0.9, OLD)
"""That of OLD in the arithmetic of generation, far enough that every bound of a correction is crossed."""

TAUGHT = logps(13, 0.7, OLD)
STUDENT, TEACHER = (np.random.default_rng(seed).normal(size=(*MASK.shape, 31)) * 1.5 for seed in (14, 15))
"""Logits of a student and a teacher over 31 tokens. [B, T, V]"""

ENTROPY = np.random.default_rng(9).uniform(0.1, 2, size=MASK.shape)
LABEL_LOGP = -np.random.default_rng(15).uniform(0, 3, size=MASK.shape)
DIVERGENCE = np.random.default_rng(10).uniform(0, 1, size=MASK.shape)

CANDIDATES = 8
CANDIDATES_OLD = -np.random.default_rng(16).exponential(size=(*MASK.shape, CANDIDATES))
CANDIDATES_NEW = np.minimum(CANDIDATES_OLD + 0.5 * np.random.default_rng(17).normal(size=CANDIDATES_OLD.shape), -0.01)
CANDIDATE_REWARDS = np.random.default_rng(19).integers(0, 2, size=CANDIDATES_OLD.shape).astype(np.float64)

PARENTS = np.full(len(LENGTHS), -1, dtype=np.int64)
PARENTS[[1, 2, 5]], PARENTS[7] = [0, 1, 4], 5
"""Rollouts of the first group and of the second that others called: two of one tree, one below the other, in each."""

BATCH = Batch(
    mask=MASK,
    rewards=REWARDS,
    group_ids=np.repeat(np.array([7, 3, 5, 9]), 4),
    logp_old=OLD,
    logp_ref=REF,
    logp_rollout=ROLLOUT,
    logp_teacher=TAUGHT,
    outcomes=OUTCOMES,
    advantages=np.linspace(-1.2, 1.5, 16),
    token_rewards=0.1 * logps(4),
    truncated=np.arange(16) % 5 == 4,
    ages=np.arange(16) % 3,
    turns=TURNS,
    turn_rewards=np.random.default_rng(5).normal(size=TURN_OFFSETS[-1]),
    turn_offsets=TURN_OFFSETS,
    state_ids=np.arange(TURN_OFFSETS[-1]) % 3,
    set_ids=np.repeat(np.arange(12), [2, 1, 1] * 4),
    component_weights=np.array([0.5, 0.8]),
    reward_vectors=np.random.default_rng(6).uniform(size=(16, 2)),
    weights=np.random.default_rng(7).uniform(0.2, 2, size=16),
    entropies=np.random.default_rng(8).uniform(0.1, 2, size=MASK.shape),
    tokens=np.random.default_rng(12).integers(0, 2, size=MASK.shape),
    labels=np.random.default_rng(13).integers(-1, 2, size=MASK.shape),
    baselines=np.random.default_rng(14).uniform(size=16),
    pair_ids=np.repeat(np.array([2, 8, 0, 5, 1, 4, 9, 3]), 2),
    preferred=np.isin(np.arange(16) % 4, (0, 3)),
    mismatched=np.linspace(-0.3, 1.1, 16),
    candidates=np.random.default_rng(20).integers(0, 31, size=CANDIDATES_OLD.shape),
    candidate_logp_old=CANDIDATES_OLD,
    candidate_rewards=CANDIDATE_REWARDS,
    seed=3,
)

TREES = replace(BATCH, parents=PARENTS)
"""The same, some of which others called."""


def extra(objective: Objective, rows: Any = slice(None)) -> dict[str, Any]:
    """The quantities that a model computes beside log-probabilities, where they are read."""
    read = {
        "log_z": (LOG_Z, objective.learns_log_z),
        "entropy": (ENTROPY, objective.reads_entropy),
        "divergence": (divergence_of(objective), objective.reads_divergence is not None),
        "label_logp": (LABEL_LOGP, objective.reads_labels),
        "candidate_logp": (CANDIDATES_NEW, objective.reads_candidates > 0),
    }
    return {name: values[rows] for name, (values, wanted) in read.items() if wanted}


def divergence_of(objective: Objective) -> NDArray[np.float64]:
    """The divergence of each token that an objective reads: from a teacher, that of its point."""
    if not isinstance(objective, Distillation) or objective.reads_divergence is None:
        return DIVERGENCE
    point = objective.divergence
    if not isinstance(point, TeacherTopK):
        return naive_divergence(STUDENT, TEACHER, "forward" if isinstance(point, TeacherForward) else "reverse")
    return naive_divergence(STUDENT, TEACHER, point.direction, point.k, point.support, renormalise=point.renormalise)


def naive_divergence(
    student: NDArray[np.float64],
    teacher: NDArray[np.float64],
    direction: str,
    k: int | None = None,
    support: str = "teacher",
    *,
    renormalise: bool = False,
) -> NDArray[np.float64]:
    """The divergence token by token, over all tokens or the k likeliest. [..., V], [..., V] -> [...]"""
    found = np.zeros(student.shape[:-1])
    for place in np.ndindex(found.shape):
        chances = [np.exp(logits[place]) / np.exp(logits[place]).sum() for logits in (student, teacher)]
        tops = [set(np.argsort(-each)[: k or len(each)].tolist()) for each in chances]
        inside = sorted({"student": tops[0], "teacher": tops[1], "intersection": tops[0] & tops[1]}[support])
        p, q = (each[inside] / (each[inside].sum() if renormalise else 1) for each in chances)
        first, second = (p, q) if direction == "reverse" else (q, p)
        found[place] = (first * np.log(first / second)).sum()
    return found


def loss_of(
    objective: Objective, batch: Batch = BATCH, logp: Any = NEW, **more: Any
) -> tuple[float, NDArray[np.float64]]:
    """The loss and its gradient by the log-probabilities."""
    found = objective(np.asarray(logp, dtype=np.float64), objective.score(batch), **{**extra(objective), **more})
    return found.loss, found.coefficients


def differs(one: tuple[float, Any], other: tuple[float, Any], by: float = 1e-9) -> bool:
    return abs(one[0] - other[0]) > by or bool(np.abs(one[1] - other[1]).max() > by)


def numbers(point: Any, path: str = "") -> list[tuple[str, float]]:
    """Every number inside a point, however deep."""
    found: list[tuple[str, float]] = []
    for field in fields(point) if is_dataclass(point) else ():
        value = getattr(point, field.name)
        found += numbers(value, f"{path}{field.name}.") if is_dataclass(value) else [(path + field.name, value)]
    return found


def changed(point: Any, path: str, value: float) -> Any:
    """A point with one of its numbers replaced."""
    name, _, rest = path.partition(".")
    return replace(point, **{name: changed(getattr(point, name), rest, value) if rest else value})


def title(thing: Any) -> str:
    return thing.name if isinstance(thing, Recipe) else repr(thing)


def same(one: Any, other: Any, factor: float = 1.0, tolerance: float = 1e-12) -> None:
    """A loss and a gradient that are a multiple of another."""
    assert abs(one[0] - factor * other[0]) <= tolerance * max(1.0, abs(one[0]))
    same_slopes(one, other, factor, tolerance)


def same_slopes(one: Any, other: Any, factor: float = 1.0, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(one[1], factor * other[1], rtol=tolerance, atol=tolerance)
