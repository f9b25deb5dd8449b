"""Family: credit times the log-probability, bounded by how far the policy has moved.

```text
loss = sum_it w_it v_i [c_it clip(ratio_it, A_it) + kl_it - entropy_coef H_it - labels_coef v_it log pi(label_it)]
```
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from karl_fast import _core
from karl_fast.errors import IncoherentObjectiveError
from karl_fast.objective.axes.advantage import Advantage
from karl_fast.objective.axes.aggregate import Aggregate, TokenMean
from karl_fast.objective.axes.clip import (
    Cap,
    Clipper,
    Delight,
    GeometricClip,
    LogWeight,
    MaskNegatives,
    NoClip,
    ProbabilityBand,
    ProbabilityMask,
)
from karl_fast.objective.axes.correction import Correction, NoCorrection, RolloutAnchor, mismatch
from karl_fast.objective.axes.entropy import Entropy, NoEntropy
from karl_fast.objective.axes.filter import Filter
from karl_fast.objective.axes.kl import K1, K2, Divergence, DriftPenalty, K1PerToken
from karl_fast.objective.axes.labels import Labels, NoLabels
from karl_fast.objective.axes.ratio import OnPolicy, Ratio, TokenRatio, TurnRatio
from karl_fast.objective.axes.tree import Tree, TreeTokens
from karl_fast.objective.base import Objective, column
from karl_fast.objective.batch import scored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.batch import Batch, Scored


@dataclass(frozen=True)
class PolicyGradient(Objective):
    """Credit times the log-probability, bounded by how far the policy has moved.

    Attributes:
        filter: which rollouts count.
        advantage: who gets credit.
        ratio: at what level drift is measured.
        clip: what bounds an update.
        kl: what holds the policy near the reference.
        entropy: what keeps the policy from collapsing; not an argument by position.
        correction: what weighs tokens that another arithmetic drew; not an argument by position.
        labels: what is learned from right tokens where a task knows them; not an argument by position.
        tree: what the rollouts of a tree count, where rollouts called others; not an argument by position.
        aggregate: how tokens become one number.
    """

    filter: Filter
    advantage: Advantage
    ratio: Ratio
    clip: Clipper
    kl: Divergence
    entropy: Entropy = field(default=NoEntropy(), kw_only=True)
    correction: Correction = field(default=NoCorrection(), kw_only=True)
    labels: Labels = field(default=NoLabels(), kw_only=True)
    tree: Tree = field(default=TreeTokens(), kw_only=True)
    aggregate: Aggregate

    def check(self) -> None:
        """Raise where points do not go together.

        Raises:
            IncoherentObjectiveError: they do not; the message says why.
        """
        for wrong, why in (*self._of_clip(), *self._of_kl()):
            if wrong:
                raise IncoherentObjectiveError(why)

    def _of_clip(self) -> list[tuple[bool, str]]:
        """Return conflicts of the clip with the ratio, each with its message."""
        on_policy = isinstance(self.ratio, OnPolicy)
        return [
            (
                on_policy and not isinstance(self.clip, NoClip | Delight | LogWeight),
                f"a ratio of 1 is never bounded: {type(self.clip).__name__} does nothing under OnPolicy",
            ),
            (
                isinstance(self.clip, Delight | LogWeight) and not on_policy,
                f"{type(self.clip).__name__} weighs the log-probability: it has no use for {type(self.ratio).__name__}",
            ),
            (
                isinstance(self.clip, GeometricClip) and not isinstance(self.ratio, TokenRatio),
                f"GeometricClip takes the mean itself, over tokens: it needs TokenRatio, not {self.ratio}",
            ),
            (
                isinstance(self.clip, ProbabilityMask | ProbabilityBand) and not isinstance(self.ratio, TokenRatio),
                f"{type(self.clip).__name__} compares probabilities of tokens: it needs TokenRatio, not {self.ratio}",
            ),
            (
                isinstance(self.clip, Delight) and self.correction != NoCorrection(),
                f"{type(self.clip).__name__} is not proportional to the advantage, which a correction is a factor of: "
                "take NoCorrection",
            ),
            (
                isinstance(self.clip, MaskNegatives) and isinstance(self.clip.clip, LogWeight),
                f"MaskNegatives needs a ratio, for which {self.clip} has no use",
            ),
        ]

    def _of_kl(self) -> list[tuple[bool, str]]:
        """Return conflicts of the penalty with the ratio and the advantage, each with its message."""
        kl = self.kl
        return [
            (isinstance(kl, K1), "k1 in the loss has a gradient of 0 on average: take K1InReward, K2 or K3"),
            (
                isinstance(self.ratio, OnPolicy) and getattr(kl, "by_ratio", False),
                f"{kl} is multiplied by a ratio, which is 1 under OnPolicy",
            ),
            (
                isinstance(kl, K1PerToken) and not self.advantage.of_tokens,
                f"K1PerToken rewards tokens, which {type(self.advantage).__name__} does not look at: take K1InReward",
            ),
            (
                kl.in_reward and not self.advantage.of_rewards,
                f"{type(kl).__name__} changes the reward, which {type(self.advantage).__name__} does not look at",
            ),
        ]

    def score(self, batch: Batch) -> Scored:
        """Filter a batch, and give credit: once a batch, before any step.

        Args:
            batch: with what the axes need.

        Returns:
            What the call needs.

        Raises:
            ArgumentError, LayoutError, DTypeError: an array that an axis needs is missing or out of shape.
            IncoherentObjectiveError: as `check_trees`, for a batch with trees.
        """
        batch.check()
        roots, places = batch.roots()
        if places is not None:
            self.check_trees()
        keep = self.filter(roots)
        advantages = self.advantage(self.kl.shaped(roots), keep)
        columns = {"advantages": advantages[:, None] if advantages.ndim == 1 else advantages}
        columns |= self.clip.columns(roots, keep) if isinstance(self.clip, LogWeight) else {}
        if self.reads_labels:
            columns["label_places"] = self.labels.places(roots, keep)
        if places is None:
            return scored(batch, keep, **columns)
        parents, keep = batch.need("parents"), keep[places]
        columns = {name: array[places] for name, array in columns.items()}
        weights = self.tree.weights(parents, batch.mask & keep[:, None], self.aggregate)
        return scored(batch, keep & (weights > 0), **columns, row_weights=weights, roots=parents < 0)

    def check_trees(self) -> None:
        """Raise where points are not for trees of rollouts, which have one reward.

        Raises:
            IncoherentObjectiveError: they give credit to single tokens or change the reward of single rollouts.
        """
        if self.advantage.per_token:
            problem = f"{type(self.advantage).__name__} gives credit to tokens, and a tree has that of its root"
        elif self.kl.in_reward:
            problem = f"{type(self.kl).__name__} changes the reward of a rollout, and a tree has one: take K2 or K3"
        elif self.reads_labels:
            problem = (
                f"{type(self.labels).__name__} needs right tokens, which are not known of rollouts that were called"
            )
        else:
            return
        raise IncoherentObjectiveError(problem)

    @property
    def reads_entropy(self) -> bool:
        """True with an entropy bonus."""
        return not isinstance(self.entropy, NoEntropy)

    @property
    def reads_divergence(self) -> Literal["reverse", "forward"] | None:
        """Direction of the divergence of the full distribution."""
        return self.kl.direction

    @property
    def reads_labels(self) -> bool:
        """True with a term of right tokens."""
        return not isinstance(self.labels, NoLabels)

    def count(self, scored: Scored) -> int:
        """Return the number of tokens or sequences that count, by the aggregate."""
        if scored.roots is None or isinstance(self.aggregate, TokenMean):
            return self.aggregate.count(scored.mask)
        return self.aggregate.count(scored.mask[scored.roots])

    def _evaluate(self, tokens: dict[str, Any], scored: Scored, by: float, log_z: Any) -> Any:
        anchored = isinstance(self.correction, RolloutAnchor) and scored.logp_rollout is not None
        name = "logp_rollout" if anchored else "logp_old"
        old = getattr(scored, name) if isinstance(self.ratio, OnPolicy) else scored.need(name)
        dtype = tokens["logp"].dtype
        clip, advantages = self.clip, self._corrected(scored)
        if isinstance(clip, LogWeight):
            logp = np.where(scored.mask, tokens["logp"].reshape(scored.mask.shape), 0.0).astype(np.float64)
            advantages = advantages * clip.weights(logp, scored)
            clip = Cap(1.0)  # under OnPolicy its detached weight is 1: the kernel computes -w A logp
        kl, reference = self.kl, scored.need("logp_ref") if self.kl.in_loss else None
        if isinstance(kl, DriftPenalty):
            kl, reference = K2(2 * kl.coef), scored.need(name)  # K2 halves the square
        evaluation = _core.objective_policy_gradient(
            **tokens,
            advantages=column(advantages, np.float64),
            logp_old=column(old, dtype),
            logp_ref=column(reference, dtype),
            turns=column(scored.need("turns"), np.int64) if isinstance(self.ratio, TurnRatio) else None,
            row_weights=column(scored.row_weights, np.float64),
            ratio=self.ratio.level,
            clip=clip,
            kl=kl,
            aggregate=self.aggregate,
            denominator=by,
        )
        if isinstance(self.kl, DriftPenalty):
            del evaluation["statistics"]["kl"]  # of the anchor, and not of the reference
        return evaluation

    def _corrected(self, scored: Scored) -> Any:
        """Return the advantages times the weights of the correction: all rules but Delight are proportional to them."""
        advantages = scored.need("advantages")
        if self.correction.bounds is None or scored.logp_rollout is None:
            return advantages
        weights, _ = mismatch(self.correction, scored.need("logp_old"), scored.logp_rollout, scored.mask)
        if (weights[scored.mask] == 1).all():
            return advantages  # one advantage a rollout has sums of its own: the bits of no correction
        shared = self.correction.level != "token" and advantages.shape[1] == 1
        return advantages * (weights.max(axis=1, keepdims=True) if shared else weights)

    def _reader(self, name: str) -> object:
        points = {"entropy": self.entropy, "divergence": self.kl, "label_logp": self.labels}
        return points.get(name, super()._reader(name))

    def _terms(self) -> dict[str, tuple[float, Aggregate]]:
        factors = {
            "entropy": -self.entropy.coef,
            "divergence": getattr(self.kl, "coef", 0.0),
            "label_logp": -self.labels.coef,
        }
        return {name: (factor, self.aggregate) for name, factor in factors.items()}

    def _label_weights(self, logp: NDArray[np.float64], scored: Scored) -> NDArray[np.float64]:
        return self.labels.weights(logp, scored)
