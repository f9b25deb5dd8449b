"""Family: maximum likelihood of logged rows, each at its weight. Offline; nothing is sampled from the policy.

```text
loss = sum_i w_i sum_t term(logp_it) / denominator,    mean of w over the data set = 1
```

With w from `Boltzmann` the loss descends KL(behaviour * exp(b r) / Z, policy): reward-weighted regression. It has the
target of FlowRL where the reference is the behaviour policy, and descends the other divergence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _core
from karl_fast.errors import UsageError
from karl_fast.objective.axes.aggregate import Aggregate
from karl_fast.objective.axes.filter import Filter, KeepAll
from karl_fast.objective.axes.likelihood import EveryRow, Logged, RowWeight, Sampler, Term, Uniform
from karl_fast.objective.base import Objective, column
from karl_fast.objective.batch import scored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karl_fast.objective.batch import Batch, Scored


@dataclass(frozen=True)
class WeightedLikelihood(Objective):
    """Maximum likelihood of logged rows, each at its weight.

    Attributes:
        filter: which rows count.
        target: what a row weighs.
        sampler: all rows, or rows that were already drawn by weight.
        term: what of a log-probability is maximised.
        aggregate: how tokens become one number.
    """

    filter: Filter
    target: RowWeight
    sampler: Sampler
    term: Term
    aggregate: Aggregate

    def weights(self, batch: Batch) -> NDArray[np.float64]:
        """Return the weight of each row, as the target gives it: those of `Exponential` (AWR) have no fixed mean.

        A data set in parts is weighed once, as one batch of all its rows: its mask may then be [B, 1].

        Args:
            batch: with what the target needs.

        Returns:
            float64, NaN for a row that does not count: dropped by the filter, or without a reward. [B]

        Raises:
            UsageError: weights for rows that were drawn at their weights.
            ArgumentError: the batch lacks what the target needs.
        """
        batch.check()
        if self.sampler.drawn:
            if batch.weights is not None:
                raise UsageError("the rows are drawn at their weights: weights again would count them twice", "weights")
            return Uniform()(batch, self.filter(batch))
        return self.target(batch, self.filter(batch))

    def weighed(self) -> WeightedLikelihood:
        """Return the objective for batches that carry their weights (``Batch.weights``), such as parts of a data set.

        Returns:
            It keeps every row with a weight, and uses the weight unchanged.

        Raises: nothing.
        """
        return replace(self, filter=KeepAll(), target=Logged(), sampler=EveryRow())

    def score(self, batch: Batch) -> Scored:
        """Weigh the rows of a batch by themselves, and carry them over the gradient line.

        Where the batch is a part of a data set, take `weights` of the whole, and `weighed` for the parts.

        Args:
            batch: with what the target needs.

        Returns:
            What the call needs.

        Raises:
            UsageError, ArgumentError: as in `weights`.
        """
        return scored(batch, self.filter(batch), weights=self.weights(batch))

    def count(self, scored: Scored) -> int:
        """Return the number of tokens or sequences that count, by the aggregate; weights are ignored."""
        return self.aggregate.count(scored.mask)

    def _evaluate(self, tokens: dict[str, Any], scored: Scored, by: float, log_z: Any) -> Any:
        return _core.objective_likelihood(
            **tokens,
            weights=column(scored.need("weights"), np.float64),
            logp_old=column(scored.logp_old, tokens["logp"].dtype),
            term=self.term,
            aggregate=self.aggregate,
            denominator=by,
        )
