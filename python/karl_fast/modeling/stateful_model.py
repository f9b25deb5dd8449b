"""A model with states that segments carry on, and which of them have a gradient."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from karl_fast.modeling.layers import replaced
from karl_fast.modeling.parameters import flatten_tree, locate_leaf
from karl_fast.modeling.segment_states import leaves, states

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.modeling.layers import Call
    from karl_fast.modeling.segment_states import Layered


class StatefulModel:
    """A model, its trainable parameters, and its states.

    Attributes:
        model, body: the model, and its tokens to hidden states.
        parameters: name, holder and key of each trainable parameter.
        trained: for each single state, True if its layer, or one below it, has trainable parameters.
    """

    def __init__(self, model: Any, body: Any) -> None:
        """Note which layer has which states.

        Raises:
            ModelError: the model has caches that cannot be carried.
        """
        self.model, self.body = model, body
        self.parameters = [(name, *locate_leaf(model, name)) for name in flatten_tree(model.trainable_parameters())]
        self.trained = self._trained()

    def states(self) -> list[Layered]:
        """Return empty states, one for each cache of the model."""
        return states(self.model)

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[None]:
        """Restore the parameters that tracing a gradient replaces."""
        there = [holder[key] for _, holder, key in self.parameters]
        try:
            yield
        finally:
            for (_, holder, key), array in zip(self.parameters, there, strict=True):
                holder[key] = array

    def _trained(self) -> list[bool]:
        import mlx.core as mx

        caches, untrained = self.states(), set[int]()
        first = next((at for at, layer in enumerate(self.model.layers) if flatten_tree(layer.trainable_parameters())), 0)

        def noting(number: int, _: Any, call: Call) -> Call:
            def noted(*arguments: Any, **named: Any) -> Any:
                if number < first:
                    untrained.update(id(leaf) for one in (*arguments, *named.values()) for leaf in leaves(one))
                return call(*arguments, **named)

            return noted

        with replaced(self.model, noting):
            self.body(mx.array([[1, 2, 3]]), cache=caches)  # lazy: nothing is computed
        return [id(leaf) not in untrained for one in caches for leaf in leaves(one)]
