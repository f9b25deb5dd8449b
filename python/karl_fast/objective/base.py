"""Base of the families: axes, scores before any step, and the evaluation of log-probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

import numpy as np

from karl_fast import _core
from karl_fast.errors import ArgumentError, DTypeError, LayoutError, UsageError
from karl_fast.objective.axes.point import check_point
from karl_fast.objective.batch import Evaluation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.axes.aggregate import Aggregate
    from karl_fast.objective.axes.point import Point
    from karl_fast.objective.batch import Batch, Scored


class Objective(ABC):
    """A family of objectives: its fields are axes, their values are points.

    ``score`` runs once a batch, before any step; the call runs once a step, with the log-probabilities of the policy.
    """

    def __post_init__(self) -> None:
        kinds = self.kinds()
        for axis, point in self.axes().items():
            check_point(axis, point, kinds[axis])
        self.check()

    def check(self) -> None:  # noqa: B027  (not every family has points that do not go together)
        """Raise where points do not go together; a family says which."""

    @classmethod
    @cache
    def kinds(cls) -> dict[str, type]:
        """Return the type of each axis: that of its field."""
        hints = get_type_hints(cls)
        return {field.name: hints[field.name] for field in fields(cls)}  # type: ignore[arg-type]

    def axes(self) -> dict[str, Point]:
        """Return the point of each axis."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @property
    def whole_groups(self) -> bool:
        """True if all rollouts of a group have to be in one micro-batch."""
        return False

    @property
    def reads_entropy(self) -> bool:
        """True if the call needs the policy's entropy at each token."""
        return False

    @property
    def reads_divergence(self) -> Literal["reverse", "forward"] | None:
        """Direction of the divergence from the full distribution of the reference or teacher; None for none."""
        return None

    @property
    def reads_labels(self) -> bool:
        """True if the call needs the log-probability of the right token in the place of each."""
        return False

    @property
    def reads_candidates(self) -> int:
        """Number of tokens to draw in the place of each, whose log-probabilities the call needs; 0 for none."""
        return 0

    @property
    def reads_teacher(self) -> bool:
        """True if the divergence is from a teacher, or the score needs ``logp_teacher``."""
        return False

    @property
    def reads_rewards(self) -> bool:
        """True if anything is learned from rewards."""
        return True

    @property
    def learns_log_z(self) -> bool:
        """True if the call needs log Z of each rollout's prompt."""
        return False

    @abstractmethod
    def score(self, batch: Batch) -> Scored:
        """Filter a batch, and give credit: once a batch, before any step."""

    @abstractmethod
    def count(self, scored: Scored) -> int:
        """Return the number that the loss is divided by: tokens, rollouts or groups that count."""

    @abstractmethod
    def _evaluate(self, tokens: dict[str, Any], scored: Scored, by: float, log_z: Any) -> Any:
        """Return loss, coefficients and statistics; ``tokens`` are the columns that every family has."""

    def denominator(self, scored: Scored) -> float:
        """Return the denominator of a batch; that of a whole is the sum over its micro-batches.

        Raises:
            ArgumentError: a group is split where groups have to be whole.
        """
        if self.whole_groups:
            _check_whole(scored)
        return float(self.count(scored))

    def __call__(
        self,
        logp: NDArray[Any],
        scored: Scored,
        *,
        denominator: float | None = None,
        log_z: NDArray[Any] | None = None,
        entropy: NDArray[Any] | None = None,
        divergence: NDArray[Any] | None = None,
        label_logp: NDArray[Any] | None = None,
        candidate_logp: NDArray[Any] | None = None,
    ) -> Evaluation:
        """Compute the loss, and its derivative by each log-probability.

        A number that is not finite in a token that counts makes the loss infinite or NaN; nothing is raised for it.

        Args:
            logp: log-probability of each token under the policy, float32 or float64; outside the mask anything. [B, T]
            scored: of `score`.
            denominator: of the whole batch, where this is a micro-batch; of this one by default, at least 1.
            log_z: of each rollout's prompt, where it is `Learned`. [B]
            entropy: of the policy at each token in nats, where `reads_entropy`. [B, T]
            divergence: from the reference or teacher at each token in nats, where `reads_divergence`. [B, T]
            label_logp: log-probability of the right token in the place of each, where `reads_labels`. [B, T]
            candidate_logp: log-probability of each candidate, where `reads_candidates`. [B, T, K]

        Returns:
            Loss, coefficients and statistics.

        Raises:
            UsageError: a quantity that the objective does not read, or none where it does.
            ArgumentError, LayoutError, DTypeError: an array that is missing, or of another shape or type.
        """
        self._check_input("log_z", "rollout", log_z, self.learns_log_z)
        self._check_input("entropy", "token", entropy, self.reads_entropy)
        self._check_input("divergence", "token", divergence, self.reads_divergence is not None)
        self._check_input("label_logp", "token", label_logp, self.reads_labels)
        self._check_input("candidate_logp", "candidate", candidate_logp, self.reads_candidates > 0)
        by = float(max(self.count(scored), 1) if denominator is None else denominator)
        if candidate_logp is not None:
            return self._evaluate_candidates(logp, candidate_logp, scored, by)
        evaluation = self._evaluate_columns(logp, scored, by, log_z)
        for name, values in (("entropy", entropy), ("divergence", divergence)):
            if values is not None:
                evaluation = self._add_tree_term(evaluation, scored, by, name, values)
        if label_logp is not None:
            weights = self._label_weights(np.where(scored.mask, logp, 0.0).astype(np.float64), scored)
            evaluation = self._add_term(evaluation, scored, by, "label_logp", label_logp, weights)
        return evaluation

    def statistics(self, logp: NDArray[Any], scored: Scored) -> dict[str, float]:
        """Compare the policy with the behaviour policy and the reference, without a loss.

        Args:
            logp: of the policy. [B, T]
            scored: of `score`; without ``logp_old`` the policy is the behaviour policy.

        Returns:
            The statistics of `Evaluation`, without those of entropy, divergence and residual.
        """
        if scored.logp_old is None:
            scored = replace(scored, logp_old=np.where(scored.mask, logp, 0))
        log_z = np.zeros(len(scored.mask)) if self.learns_log_z else None
        statistics = self._evaluate_columns(logp, scored, float(max(self.count(scored), 1)), log_z).statistics
        return {name: value for name, value in statistics.items() if not name.startswith("residual")}

    def _check_input(self, name: str, unit: str, value: object, needed: bool) -> None:
        if needed != (value is not None):
            needs = f"needs {name} of each {unit}" if needed else f"has no use for {name}"
            raise UsageError(f"{self._reader(name)} {needs}", name)

    def _reader(self, name: str) -> object:
        """Return the point that a further argument of the call is for."""
        return type(self).__name__

    def _evaluate_columns(
        self, logp: NDArray[Any], scored: Scored, by: float, log_z: NDArray[Any] | None
    ) -> Evaluation:
        values = log_z if log_z is None else np.ascontiguousarray(log_z, dtype=np.float64)
        fields = self._evaluate(columns(logp, scored), scored, by, values)
        shape = scored.mask.shape
        return Evaluation(**fields | {"coefficients": fields["coefficients"].reshape(shape)})

    def _add_term(
        self,
        evaluation: Evaluation,
        scored: Scored,
        by: float,
        name: str,
        values: NDArray[Any],
        weights: NDArray[np.float64] | None = None,
    ) -> Evaluation:
        """Add the term of a further quantity of each token, times a weight that carries no gradient."""
        factor, aggregate = self._terms()[name]
        tokens = columns(values, scored, name)
        column = tokens["logp"]
        if weights is not None:
            column = (np.where(scored.mask, values, 0) * weights).astype(values.dtype).ravel()
        loss, slopes, mean = _core.objective_linear_term(
            column, tokens["mask"], tokens["offsets"], factor, aggregate, by
        )
        slopes = slopes.reshape(scored.mask.shape)
        coefficients: Any = {
            f"{name}_coefficients": slopes if weights is None else (slopes * weights).astype(slopes.dtype)
        }
        return replace(
            evaluation, loss=evaluation.loss + loss, statistics=evaluation.statistics | {name: mean}, **coefficients
        )

    def _add_tree_term(
        self, evaluation: Evaluation, scored: Scored, by: float, name: str, values: NDArray[Any]
    ) -> Evaluation:
        """Add the term of a quantity whose tokens count what their rollouts do; its statistic is the plain mean."""
        if scored.row_weights is None:
            return self._add_term(evaluation, scored, by, name, values)
        weights = np.broadcast_to(scored.row_weights[:, None], scored.mask.shape)
        result = self._add_term(evaluation, scored, by, name, values, weights)
        mean = float(values[scored.mask].mean(dtype=np.float64)) if scored.mask.any() else 0.0
        return replace(result, statistics=result.statistics | {name: mean})

    def _evaluate_candidates(
        self, logp: NDArray[Any], candidate_logp: NDArray[Any], scored: Scored, by: float
    ) -> Evaluation:
        """Evaluate an objective of the candidates of each token."""
        raise NotImplementedError

    def _label_weights(self, logp: NDArray[np.float64], scored: Scored) -> NDArray[np.float64]:
        """Return the weight of each right token. [B, T] -> [B, T]"""
        raise NotImplementedError

    def _terms(self) -> dict[str, tuple[float, Aggregate]]:
        """Return the factor and the aggregate of each further quantity of a token that the family can read."""
        return {}


def columns(logp: NDArray[Any], scored: Scored, name: str = "logp") -> dict[str, Any]:
    """Return log-probabilities, mask and offsets of rollouts as columns of the kernels.

    Raises:
        DTypeError, LayoutError: no float32 or float64, or another shape than the mask.
    """
    if not isinstance(logp, np.ndarray) or logp.dtype not in (np.float32, np.float64):
        kind = getattr(logp, "dtype", type(logp).__name__)
        raise DTypeError(f"{name} is {kind}, wanted a NumPy array of float32 or float64")
    if logp.shape != scored.mask.shape:
        raise LayoutError(f"{name} has the shape {logp.shape}, wanted {scored.mask.shape}")
    rows, width = logp.shape
    return {
        "logp": np.ascontiguousarray(logp).ravel(),
        "mask": np.ascontiguousarray(scored.mask).ravel(),
        "offsets": np.arange(rows + 1, dtype=np.int64) * width,
    }


def column(array: NDArray[Any] | None, dtype: Any) -> Any:
    """Return an array as a column of one type; None without one."""
    return None if array is None else np.ascontiguousarray(array, dtype=dtype).ravel()


def _check_whole(scored: Scored) -> None:
    groups, sizes = scored.need("groups"), scored.need("group_sizes")
    groups = np.where(scored.counted, groups, -1)
    for group, count in zip(*np.unique(groups[groups >= 0], return_counts=True), strict=True):
        size = int(sizes[groups == group][0])
        if count != size:
            raise ArgumentError(f"group {group} has {count} of its {size} rollouts here: this objective needs it whole")
