"""An update of the weights, compiled: a kernel a tensor in the place of a dozen operations, with the same bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karl_fast.train.tensors import flat

if TYPE_CHECKING:
    from collections.abc import Callable

    import mlx.core as mx

AIMED = ("eps", "weight_decay")
"""What `karl_fast.train.optimizer.aim` sets as Python numbers, which a compiled update would keep for ever."""


class Update:
    """Updates of one optimizer.

    Its kernel is compiled at the first, once: on Linux by g++, in about a second, after which every process of that
    user finds it. ``MLX_DISABLE_COMPILE=1`` does without.
    """

    def __init__(self, optimizer: Any) -> None:
        """Updates of an optimizer whose state is there already."""
        self.optimizer = optimizer
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, model: Any, gradient: Any, share: mx.array) -> None:
        """Move the trainable parameters of a model against a gradient that is multiplied by `share` first."""
        import mlx.core as mx
        from mlx.utils import tree_map

        parameters = model.trainable_parameters()
        if any(one.dtype != mx.float32 for one in flat(parameters).values()):
            # A number of the optimizer as an array of float32 would widen them.
            self.optimizer.update(model, tree_map(lambda one: one * share.astype(one.dtype), gradient))
            return
        if self._compiled is None:
            self._compiled = mx.compile(self._apply, inputs=[self.optimizer.state], outputs=[self.optimizer.state])
        held = {name: vars(self.optimizer)[name] for name in AIMED if name in vars(self.optimizer)}
        numbers = {name: mx.array(value, dtype=mx.float32) for name, value in held.items()}
        model.update(self._compiled(gradient, parameters, share, numbers))
        vars(self.optimizer).update(held)

    def _apply(self, gradient: Any, parameters: Any, share: mx.array, numbers: dict[str, mx.array]) -> Any:
        from mlx.utils import tree_map

        vars(self.optimizer).update(numbers)
        return self.optimizer.apply_gradients(tree_map(lambda one: one * share, gradient), parameters)
