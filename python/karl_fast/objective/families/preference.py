"""Family: a margin between an answer that was preferred and one that was not, or of one answer with a label. Offline.

```text
s_i  = length(logp_i) - length(anchor_i)
loss = mean over pairs, or over answers, of link(margin)  -  coef mean_t logp_t of the preferred answer
```

With `ScoreDifference` under `LogSigmoid` and the reference policy the optimum is the Boltzmann target ``anchor *
exp(r / scale) / Z`` of the reward by which people choose (Bradley-Terry): log Z cancels in the difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _core
from karl_fast.errors import ArgumentError, IncoherentObjectiveError
from karl_fast.objective.axes.balance import Anchor, BehaviourPolicy, Length, NoAnchor, TokenMeanLength
from karl_fast.objective.axes.preference import DivergenceBaseline, Likelihood, Link, LogOddsDifference, Margin
from karl_fast.objective.base import Objective, column
from karl_fast.objective.batch import scored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.batch import Batch, Scored


@dataclass(frozen=True)
class Preference(Objective):
    """A margin between an answer that was preferred and one that was not, or of one answer with a label.

    Attributes:
        anchor: the policy that log-probabilities are compared with.
        length: how tokens become an answer.
        margin: what the score of an answer is compared with.
        link: what a margin costs.
        likelihood: log-likelihood of preferred answers beside it.
    """

    anchor: Anchor
    length: Length
    margin: Margin
    link: Link
    likelihood: Likelihood

    def check(self) -> None:
        """Raise where points do not go together.

        Raises:
            IncoherentObjectiveError: they do not; the message says why.
        """
        if isinstance(self.anchor, BehaviourPolicy):
            raise IncoherentObjectiveError("nobody draws answers here: the anchor is ReferencePolicy or NoAnchor")
        if isinstance(self.margin, LogOddsDifference):
            if not isinstance(self.anchor, NoAnchor):
                raise IncoherentObjectiveError(f"odds are of a probability, not of a ratio to {self.anchor}")
            if not isinstance(self.length, TokenMeanLength):
                raise IncoherentObjectiveError("odds are of the mean token: those of a whole answer are 0 in float64")
        if isinstance(self.margin, DivergenceBaseline) and isinstance(self.anchor, NoAnchor):
            raise IncoherentObjectiveError("DivergenceBaseline needs a reference to diverge from: ReferencePolicy")

    @property
    def paired(self) -> bool:
        """True if answers are compared in pairs; False if each has a label of its own."""
        return self.margin.paired

    @property
    def whole_groups(self) -> bool:
        """True if the two answers of a pair have to be in one micro-batch."""
        return self.paired

    @property
    def reads_rewards(self) -> bool:
        """Never: what is learned from is which answers were preferred."""
        return False

    def score(self, batch: Batch) -> Scored:
        """Leave out answers that cannot be compared, and compute the baseline: once a batch, before any step.

        Args:
            batch: with `preferred`; with `pair_ids`, or `mismatched` where there are no pairs; and with `logp_ref`
                where there is a reference.

        Returns:
            What the call needs.

        Raises:
            ArgumentError: an array is missing, or a pair is not one preferred answer and one other.
            LayoutError, DTypeError: an array out of shape or of another type.
        """
        batch.check()
        preferred, counted = batch.need("preferred"), np.asarray(batch.mask.any(1))
        if self.anchor.column is not None:
            batch.need("logp_ref")
        if isinstance(self.margin, DivergenceBaseline):
            divergences = np.full(len(counted), self.margin.baseline(batch))
            return scored(batch, counted, preferred=preferred, divergences=divergences)
        pairs = batch.need("pair_ids")
        keep = _whole_pairs(pairs, preferred, counted)
        return scored(replace(batch, group_ids=pairs), keep, preferred=preferred)

    def count(self, scored: Scored) -> int:
        """Return the number of pairs that count, or of answers where there are no pairs."""
        counted = scored.counted
        return int((counted & scored.need("preferred")).sum() if self.paired else counted.sum())

    def _evaluate(self, tokens: dict[str, Any], scored: Scored, by: float, log_z: Any) -> Any:
        dtype, anchor = tokens["logp"].dtype, self.anchor.column
        return _core.objective_preference(
            **tokens,
            preferred=np.ascontiguousarray(scored.need("preferred")),
            logp_ref=column(scored.need("logp_ref"), dtype) if anchor == "logp_ref" else None,
            pairs=column(scored.need("groups"), np.int64) if self.paired else None,
            baselines=None if self.paired else column(scored.need("divergences"), np.float64),
            anchor=anchor,
            mean=self.length.mean,
            margin=self.margin,
            link=self.link,
            likelihood=self.likelihood.factor,
            denominator=by,
        )


def _whole_pairs(
    pairs: NDArray[np.int64], preferred: NDArray[np.bool_], counted: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which answers count: those of a pair of which both have tokens.

    Raises:
        ArgumentError: a pair is not one preferred answer and one other, or an answer is in no pair.
    """
    if (alone := np.flatnonzero(pairs < 0)).size:
        raise ArgumentError(f"pair_ids[{alone[0]}] is {pairs[alone[0]]}, wanted the number of a pair, 0 or more")
    names, number = np.unique(pairs, return_inverse=True)
    chosen, others = (np.bincount(number[side], minlength=len(names)) for side in (preferred, ~preferred))
    if (bad := np.flatnonzero((chosen != 1) | (others != 1))).size:
        at = int(bad[0])
        counts = f"{chosen[at]} preferred and {others[at]} other answers"
        raise ArgumentError(f"pair {names[at]} has {counts}, wanted one of each")
    whole = np.bincount(number[counted], minlength=len(names)) == 2
    return np.asarray(whole[number])
