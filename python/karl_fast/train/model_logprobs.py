"""Log-probabilities of tokens by a model, with and without its adapters, and their gradient."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from karl_fast.errors import ModelError
from karl_fast.modeling.chunked_logp import Traced, backward, chunk_rows, forward
from karl_fast.modeling.layers import has_dropout
from karl_fast.modeling.model_views import adapters_off, split_model
from karl_fast.modeling.optimizer import join_leaves
from karl_fast.modeling.segments import PrefixSharing, carry_states, pass_segments
from karl_fast.train.batching import pad_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from karl_fast.modeling.chunked_logp import Trace
    from karl_fast.modeling.segments import SegmentPass, StatefulModel
    from karl_fast.train.batching import PaddedBatch
    from karl_fast.train.examples import Example


class Scorer:
    """The halves of a model, with chunks of the head as large as its vocabulary allows.

    Attributes:
        segment_length: tokens of a row that pass at a time; longer rows pass in segments. None for whole rows.
        sharing: of the common prefixes of rows.
    """

    def __init__(self, model: Any, segment_length: int | None = None) -> None:
        self.model, self.segment_length = model, segment_length
        self.body, self.head = split_model(model)
        self.vocabulary = int(model(mx.array([[1]])).shape[-1])  # a shape is known without computing
        self.rows = chunk_rows(self.vocabulary)
        self.sharing = PrefixSharing(self._obstacle)

    @cached_property
    def carrier(self) -> StatefulModel:
        """The model with the states that segments carry on.

        Raises:
            ModelError: it has none that can be carried.
        """
        return carry_states(self.model, self.body, self.head)

    @cached_property
    def carry_obstacle(self) -> str | None:
        """The reason why the states of the model cannot be carried on; None if they can."""
        try:
            _ = self.carrier
        except ModelError as error:
            return str(error)
        return None

    def long(self, batch: PaddedBatch) -> bool:
        """Return whether a batch passes in segments."""
        return self.segment_length is not None and batch.inputs > self.segment_length

    def logp(self, batch: PaddedBatch) -> mx.array:
        """Compute the log-probability of each learned token, without dropout and without a gradient. [N]"""
        return mx.array(self.quantities(batch, ("logp",))["logp"])

    def quantities(self, batch: PaddedBatch, names: tuple[str, ...]) -> dict[str, NDArray[np.float32]]:
        """Compute quantities of each learned token by name, without dropout and without a gradient. [N]"""
        self.model.eval()
        try:
            if (segments := self._segment_pass(batch, None, names=names)) is not None:
                return segments.outputs(keep=False)
            values = forward(self.body, self.head, batch.tokens, batch.places, self.rows, names)
            return {name: np.array(array) for name, array in values.items()}
        finally:
            self.model.train()

    def reference(self, batch: PaddedBatch) -> mx.array:
        """Compute the same under the model without its adapters. [N]"""
        _ = self.carry_obstacle  # try with adapters on: the carrier refers to their parameters
        with adapters_off(self.model):
            logp = self.logp(batch)
            mx.eval(logp)
        return logp

    def trained_logp(self, batch: PaddedBatch, seed: int | None = None) -> mx.array:
        """Compute the same as in training: with the adapters, and with dropout, by the seed in segments. [N]"""
        if (segments := self._segment_pass(batch, seed)) is not None:
            return mx.array(segments.outputs(keep=False)["logp"])
        return forward(self.body, self.head, batch.tokens, batch.places, self.rows)["logp"]

    def trace(self, batch: PaddedBatch, seed: int | None = None) -> Trace:
        """Prepare log-probabilities and their gradient in the trainable parameters, joined."""
        if (segments := self._segment_pass(batch, seed)) is not None:
            return segments

        def gradient(coefficients: dict[str, mx.array]) -> tuple[dict[str, mx.array], dict[str, mx.array]]:
            shared = (self.body, self.head, batch.tokens, batch.places, self.rows)
            values, tree = backward(self.model, *shared, coefficients)
            return values, join_leaves(tree)

        return Traced(["logp"], batch.places.size, gradient)

    def _segment_pass(self, batch: PaddedBatch, seed: int | None, **how: Any) -> SegmentPass | None:
        """Return the pass of a batch in segments, or with common prefixes; None where it passes whole."""
        shared = (lambda: self.carrier, self.head, self.rows, np.array(batch.tokens), batch.mask)
        return pass_segments(*shared, length=self.segment_length, sharing=self.sharing, seed=seed, **how)

    def _obstacle(self) -> str | None:
        """Return why rows with a common prefix do not have the same states, or none to carry on; None if they do."""
        return "dropout leaves out other numbers in each" if has_dropout(self.model) else self.carry_obstacle

    def losses(
        self, examples: list[Example], batches: list[list[int]], on_batch: Callable[[int], object] = int
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the negative log-likelihood of each example in nats, and its number of tokens; 0 for those not chosen.

        Args:
            examples: any. [B]
            chosen: batches, as numbers of examples.
            on_batch: called with the tokens of each batch once it is done.
        """
        nats = np.zeros(len(examples))
        counts = np.zeros(len(examples), dtype=np.int64)
        for rows in batches:
            batch = pad_rows([examples[row] for row in rows])
            nats[rows] = -np.array(batch.spread(self.logp(batch)), dtype=np.float64).sum(1)
            counts[rows] = batch.mask.sum(1)
            on_batch(sum(len(examples[row]) for row in rows))
        return nats, counts
