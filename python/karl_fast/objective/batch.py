"""Data of an objective.

```text
Batch       rollouts as they are collected: rewards, groups, log-probabilities of other policies
  | score   filter, credit; rollouts that do not count leave the mask                     (once a batch)
Scored      the inputs of a loss besides the log-probabilities of the policy
  | call                                                                                  (once a step)
Evaluation  the loss, its derivative by each quantity that a model computes, and statistics
```
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _core
from karl_fast.errors import ArgumentError, DTypeError, LayoutError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64] | NDArray[np.float32]

FIELDS = {
    "mask": ("BT", np.bool_),
    "logp_old": ("BT", np.floating),
    "logp_ref": ("BT", np.floating),
    "logp_rollout": ("BT", np.floating),
    "logp_teacher": ("BT", np.floating),
    "rewards": ("B", np.floating),
    "outcomes": ("B", np.floating),
    "group_ids": ("B", np.int64),
    "parents": ("B", np.int64),
    "truncated": ("B", np.bool_),
    "ages": ("B", np.int64),
    "token_rewards": ("BT", np.floating),
    "turns": ("BT", np.int64),
    "turn_rewards": ("U", np.floating),
    "turn_offsets": ("O", np.int64),
    "state_ids": ("U", np.int64),
    "set_ids": ("B", np.int64),
    "reward_vectors": ("BD", np.floating),
    "component_weights": ("D", np.floating),
    "weights": ("B", np.floating),
    "entropies": ("BT", np.floating),
    "tokens": ("BT", np.int64),
    "labels": ("BT", np.int64),
    "baselines": ("B", np.floating),
    "pair_ids": ("B", np.int64),
    "preferred": ("B", np.bool_),
    "mismatched": ("B", np.floating),
    "candidates": ("BTK", np.int64),
    "candidate_logp_old": ("BTK", np.floating),
    "candidate_rewards": ("BTK", np.floating),
}
"""The dimensions and the type of each array: B rollouts, T tokens, U turns of all rollouts, O = B + 1, D and K any."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Rollouts, padded to one length. Only the mask is needed by all; an axis that misses a field names it.

    Index t of a row scores one taken token; prompt, tool output and padding are outside the mask, the end of sequence
    inside it. What an array holds outside the mask is not looked at.

    Attributes:
        mask: which tokens are the policy's own. bool, [B, T]
        rewards: the reward of each rollout, NaN for a missing one. [B]
        group_ids: the prompt of each rollout, in any order, negative for none. int64, [B]
        parents: the row of the rollout that called each, negative for none; for `PolicyGradient`. Those that were
            called need no reward: that of the root counts. int64, [B]
        logp_old: log-probability of each token under the behaviour policy. [B, T]
        logp_ref: the same under the reference policy. [B, T]
        logp_rollout: that of ``logp_old`` in the arithmetic that drew the token, for a correction. [B, T]
        logp_teacher: log-probability of each token under the teacher, for `TeacherSampled`. [B, T]
        outcomes: rewards before shaping, by which groups are filtered; the rewards where absent. [B]
        advantages: advantages of a critic, for `Given`. [B] or [B, T]
        token_rewards: reward of each token in addition to that of its rollout, for `Whitened`; alone for
            `RemainingMean` and `TokenCentre`. [B, T]
        truncated: which rollouts were cut at the limit of tokens. bool, [B]
        ages: age of each rollout in steps of the policy. int64, [B]
        turns: the number of each token's turn in its rollout, from 0; negative for none. int64, [B, T]
        turn_rewards: the reward of each turn, of all rollouts end to end. [U]
        turn_offsets: where the turns of each rollout begin, and the last end. int64, [B + 1]
        state_ids: the state each turn begins in, negative for one like no other. int64, [U]
        set_ids: the rollout that each candidate belongs to, where rows are candidates. int64, [B]
        reward_vectors: the rewards of each candidate. [B, D]
        component_weights: what each of those rewards counts; all alike where absent. [D]
        weights: what each row counts, mean 1 over its data set: ``exp(log_weight) * rows``; NaN for not at all. [B]
        entropies: entropy of the behaviour policy at each token in nats, for `EntropyModulated`. [B, T]
        tokens: the id of each token, for `PrefixTree` and `SuffixLabels`. int64, [B, T]
        labels: the id of the token that is right in the place of each, negative where none is known. int64, [B, T]
        baselines: expected reward of the prompt of each rollout under the policy that drew it. [B]
        pair_ids: the pair of each answer, for `Preference`, in any order. int64, [B]
        preferred: which answers were preferred, for `Preference`. bool, [B]
        mismatched: log ratio of the policy to the reference for an answer to another prompt, in nats, for
            `DivergenceBaseline`; NaN for none. [B]
        candidates: ids of the tokens that were drawn in the place of each, its candidates. int64, [B, T, K]
        candidate_logp_old: log-probability of each candidate under the policy that drew them, for `TokenTargets` and
            `TokenGradients`. [B, T, K]
        candidate_rewards: the reward of each candidate, NaN for none, likewise. [B, T, K]
        seed: of what an axis draws; another one each step.
    """

    mask: NDArray[np.bool_]
    rewards: Floats | None = None
    group_ids: NDArray[np.int64] | None = None
    logp_old: Floats | None = None
    logp_ref: Floats | None = None
    outcomes: Floats | None = None
    advantages: Floats | None = None
    token_rewards: Floats | None = None
    truncated: NDArray[np.bool_] | None = None
    ages: NDArray[np.int64] | None = None
    turns: NDArray[np.int64] | None = None
    turn_rewards: Floats | None = None
    turn_offsets: NDArray[np.int64] | None = None
    state_ids: NDArray[np.int64] | None = None
    set_ids: NDArray[np.int64] | None = None
    reward_vectors: Floats | None = None
    weights: Floats | None = None
    entropies: Floats | None = None
    logp_rollout: Floats | None = None
    tokens: NDArray[np.int64] | None = None
    labels: NDArray[np.int64] | None = None
    baselines: Floats | None = None
    logp_teacher: Floats | None = None
    pair_ids: NDArray[np.int64] | None = None
    preferred: NDArray[np.bool_] | None = None
    mismatched: Floats | None = None
    component_weights: Floats | None = None
    candidates: NDArray[np.int64] | None = None
    candidate_logp_old: Floats | None = None
    candidate_rewards: Floats | None = None
    seed: int = 0
    parents: NDArray[np.int64] | None = None

    def check(self) -> None:
        """Raise where arrays do not fit each other: the only check of shapes there is.

        Raises:
            LayoutError: an array of another shape than its dimensions say.
            DTypeError: an array of another element type.
            ArgumentError: a log-probability or an advantage inside the mask that is not finite, or a negative weight.
        """
        sizes = dict(zip("BT", np.shape(self.mask), strict=False))
        sizes["O"] = sizes.get("B", 0) + 1
        for name, array in self._arrays():
            _check_array(name, array, sizes)
        for name in ("logp_old", "logp_ref", "logp_rollout", "logp_teacher", "advantages"):
            self._check_finite(name)
        self._check_weights()

    def _arrays(self) -> Iterator[tuple[str, Any]]:
        yield from ((name, array) for name in FIELDS if (array := getattr(self, name)) is not None)

    def _check_finite(self, name: str) -> None:
        array = getattr(self, name)
        if array is None:
            return
        if array.shape not in ((len(self.mask),), self.mask.shape):
            raise LayoutError(f"{name} has the shape {array.shape}, wanted {self.mask.shape}")
        counts = self.mask if array.ndim == 2 else self.mask.any(1)
        if (bad := np.argwhere(counts & ~np.isfinite(array))).size:
            place = tuple(int(index) for index in bad[0])
            raise ArgumentError(f"{name}{list(place)} is {array[place]}, wanted a finite number")

    def _check_weights(self) -> None:
        """Check weights; NaN marks a row that does not count."""
        weights = np.ones(1) if self.weights is None else self.weights
        if (bad := np.flatnonzero((weights < 0) | np.isinf(weights))).size:
            raise ArgumentError(f"weights[{bad[0]}] is {weights[bad[0]]}, wanted a finite number from 0 on, or NaN")

    def roots(self) -> tuple[Batch, NDArray[np.int64] | None]:
        """Return the rollouts that no other called, without their turns.

        Returns:
            Them, and the place among them of the root of each rollout of this batch. [B] Without ``parents`` this
            batch itself, and None.

        Raises:
            ArgumentError: a parent that is no row, or rollouts that call each other in a circle.
        """
        if self.parents is None:
            return self, None
        own = _core.tree_roots(self.parents)
        rows = np.flatnonzero(self.parents < 0)
        columns = {name: array[rows] for name, array in self._arrays() if FIELDS[name][0].startswith("B")}
        columns["advantages"] = None if self.advantages is None else self.advantages[rows]
        columns |= dict.fromkeys(("parents", "turn_rewards", "turn_offsets", "state_ids"))
        return replace(self, **columns), np.searchsorted(rows, own)

    def need(self, name: str) -> Any:
        """Return the array of a field that an axis requires.

        Args:
            name: of the field.

        Returns:
            The array.

        Raises:
            ArgumentError: there is none.
        """
        array = getattr(self, name)
        if array is None:
            raise ArgumentError(f"the batch has no {name}, which this objective needs")
        return array


@dataclass(frozen=True, eq=False)
class Scored:
    """Inputs of a loss beyond log-probabilities: data without gradients.

    Attributes:
        mask: tokens that count: those of the batch without the rollouts that a filter dropped. bool, [B, T]
        logp_old: under the behaviour policy, 0 outside the mask. [B, T]
        logp_ref: under the reference policy, 0 outside the mask. [B, T]
        advantages: 0 outside the mask. [B, 1] or [B, T]
        rewards: shaped rewards, for a balance or a target. [B]
        weights: weights of rows. [B]
        targets: the target probability of each candidate within its group. [B]
        groups: the number of each rollout's group, from 0; negative for none. [B]
        group_sizes: number of rollouts of its group that count, in the whole batch. [B]
        turns: the number of each token's turn in its rollout, negative for none. int64, [B, T]
        logp_rollout: that of ``logp_old`` in the arithmetic that drew the token, 0 outside the mask. [B, T]
        ages: age of each rollout in steps of the policy, for `FreshDelight`. int64, [B]
        deviations: standard deviation of rewards in the group of each rollout, for `UncertainDelight`. [B]
        label_places: the part of the weight of each right token that is known before any step. [B, T]
        preferred: which answers were preferred. bool, [B]
        divergences: the divergence that the score of each answer is compared with, in nats. [B]
        candidates: each candidate of each token as a rollout of one token. [B * T * K]
        row_weights: what each rollout of a tree counts; None without trees. [B]
        roots: True for rollouts that count and that no other called; None without trees. bool, [B]
    """

    mask: NDArray[np.bool_]
    logp_old: Floats | None = None
    logp_ref: Floats | None = None
    advantages: Floats | None = None
    rewards: Floats | None = None
    weights: Floats | None = None
    targets: Floats | None = None
    groups: NDArray[np.int64] | None = None
    group_sizes: NDArray[np.int64] | None = None
    turns: NDArray[np.int64] | None = None
    logp_rollout: Floats | None = None
    ages: NDArray[np.int64] | None = None
    deviations: Floats | None = None
    label_places: NDArray[np.float64] | None = None
    preferred: NDArray[np.bool_] | None = None
    divergences: Floats | None = None
    candidates: Scored | None = None
    row_weights: NDArray[np.float64] | None = None
    roots: NDArray[np.bool_] | None = None

    def rows(self, indices: Any) -> Scored:
        """Return some rows, as a micro-batch.

        Args:
            indices: a slice, or numbers of rows.

        Returns:
            Those rows, of every field.

        Raises:
            IndexError: a row that there is not.
        """
        numbers = indices if isinstance(indices, slice) else np.asarray(indices, dtype=np.int64)
        arrays = {name: array for name, array in vars(self).items() if name != "candidates"}
        columns: dict[str, Any] = {name: None if array is None else array[numbers] for name, array in arrays.items()}
        if self.candidates is not None:
            each = len(self.candidates.mask) // max(1, len(self.mask))
            first = each * np.arange(len(self.mask))[numbers]
            columns["candidates"] = self.candidates.rows((first[:, None] + np.arange(each)).ravel())
        return Scored(**columns)

    def need(self, name: str) -> Any:
        """Return the array of a field that an axis requires.

        Args:
            name: of the field.

        Returns:
            The array.

        Raises:
            ArgumentError: there is none.
        """
        array = getattr(self, name)
        if array is None:
            raise ArgumentError(f"the scored batch has no {name}, which this objective needs")
        return array

    @property
    def counted(self) -> NDArray[np.bool_]:
        """True for rollouts with a token that counts. bool, [B]"""
        return np.asarray(self.mask.any(axis=1))


def scored(batch: Batch, keep: NDArray[np.bool_], **columns: NDArray[Any]) -> Scored:
    """Return the inputs of a loss besides log-probabilities.

    Args:
        batch: a checked batch.
        keep: True for rollouts that a filter kept. [B]
        columns: further fields of `Scored`; a row is dropped if its value is NaN or beyond the type of the
            log-probabilities.

    Returns:
        The inputs of a loss.

    Raises:
        UsageError: a batch with trees, for a family that gives no credit within them.
    """
    if batch.parents is not None and "roots" not in columns:
        raise UsageError("the batch has parents, and only a PolicyGradient learns from trees of rollouts", "parents")
    mask = batch.mask & keep[:, None]
    kinds = [array.dtype for array in (batch.logp_old, batch.logp_ref) if array is not None]
    largest = np.finfo(np.float64 if np.dtype(np.float64) in kinds else np.float32).max
    for name in ("advantages", "rewards", "weights"):
        if name in columns:
            mask = mask & (np.abs(columns[name].reshape(len(mask), -1)) <= largest)  # NaN is not
    fields: dict[str, Any] = {name: _cleared(array, mask) for name, array in columns.items()}
    for name in ("logp_old", "logp_ref", "logp_rollout"):
        if (array := getattr(batch, name)) is not None:
            fields[name] = _cleared(array, mask)
    if batch.turns is not None:
        fields["turns"] = np.where(mask, batch.turns, -1)
    if batch.group_ids is not None:
        fields["groups"], fields["group_sizes"] = _numbered(batch.group_ids, mask)
    return Scored(mask, **fields)


def _cleared(array: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[Any]:
    """Return an array with 0 outside the mask, where values may be anything."""
    counts = mask.any(1) if array.ndim == 1 else mask.any(1, keepdims=True) if array.shape[1] == 1 else mask
    return np.where(counts, array, array.dtype.type(0))


def _numbered(ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    member = (ids >= 0) & mask.any(1)
    _, numbers, sizes = np.unique(ids[member], return_inverse=True, return_counts=True)
    groups = np.full(len(ids), -1, dtype=np.int64)
    groups[member] = numbers
    return groups, np.where(member, sizes[groups] if sizes.size else 0, 0)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A loss, its derivatives and its statistics.

    ``(coefficients * logp).sum()``, with the coefficients held constant, has the gradient of the loss in any framework.

    Attributes:
        loss: of this batch; the losses of micro-batches add up where they are given the denominator of the whole.
        coefficients: d loss / d logp of each token, exactly 0 outside the mask; of the dtype of ``logp``. [B, T]
        statistics: ``tokens`` and ``rollouts`` that count; of the ratio to the behaviour policy ``ratio`` (mean),
            ``ratio_std``, ``ratio_max``, ``ratio_min``, over tokens at the level of the recipe, 1 where it has none;
            ``ratio_ess``, the effective share of rollouts by the products of their token ratios; ``kl_old``, the mean
            over tokens of k3 to the behaviour policy; ``clip_low`` and ``clip_high``, the
            shares of tokens beyond the bounds; ``kl`` (to the reference), ``entropy``, ``divergence``, ``label_logp``
            (times its weight), ``residual`` and ``residual_std``, ``margin``, ``accuracy``, ``reward_chosen`` and
            ``reward_rejected`` where the objective has them.
        log_z_coefficients: d loss / d log Z of each rollout, where log Z is learned. float64, [B]
        entropy_coefficients: d loss / d entropy of each token, where the objective reads it. [B, T]
        divergence_coefficients: d loss / d divergence of each token, where the objective reads it. [B, T]
        label_logp_coefficients: d loss / d log-probability of the right token in the place of each, likewise. [B, T]
        candidate_logp_coefficients: d loss / d log-probability of each candidate, likewise. [B, T, K]
    """

    loss: float
    coefficients: NDArray[Any]
    statistics: dict[str, float]
    log_z_coefficients: NDArray[np.float64] | None = None
    entropy_coefficients: NDArray[Any] | None = None
    divergence_coefficients: NDArray[Any] | None = None
    label_logp_coefficients: NDArray[Any] | None = None
    candidate_logp_coefficients: NDArray[Any] | None = None


def _check_array(name: str, array: Any, sizes: dict[str, int]) -> None:
    dimensions, kind = FIELDS[name]
    if not (isinstance(array, np.ndarray) and np.issubdtype(array.dtype, kind)):
        kind_text = getattr(array, "dtype", type(array).__name__)
        raise DTypeError(f"{name} is {kind_text}, wanted an array of {kind.__name__}")
    fits = [size == sizes.setdefault(letter, size) for letter, size in zip(dimensions, array.shape, strict=False)]
    if len(dimensions) != array.ndim or not all(fits):
        shape = ", ".join(str(sizes.get(letter, letter)) for letter in dimensions)
        raise LayoutError(f"{name} has the shape {array.shape}, wanted ({shape})")
