"""The positions that a model was made for, and lengths beyond them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from karl_fast.errors import UsageError

NAMES = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "block_size", "model_max_length")
"""Settings of a config that say it."""


@dataclass(frozen=True)
class Positions:
    """The positions of a model.

    Attributes:
        count: number of positions, including the factor of rope scaling.
        learned: True if each has an embedding of its own, so that longer sequences are impossible.
    """

    count: int
    learned: bool

    def remark(self, name: str, asked: int, default: int, reach: int) -> str | None:
        """Return a remark on a setting, or None if it stays within the positions.

        Args:
            name: name of the setting.
            asked: its value.
            default: its default, which needs no remark while sequences are shorter.
            reach: the longest sequence that it allows, as far as known.

        Raises:
            UsageError: sequences reach beyond positions that are learned.
        """
        if max(0 if asked == default else asked, reach) <= self.count:
            return None
        said = f"{name} is {asked:,}, and the model has {self.count:,} positions"
        if reach <= self.count:
            return f"{said}; the longest sequence of this run has at most {reach:,} tokens"
        if self.learned:
            raise UsageError(
                f"{said}, which are learned: a sequence of {reach:,} tokens has none for its end",
                name,
                hint=f"{name} {self.count} at most",
            )
        return f"{said}: sequences of up to {reach:,} tokens go beyond what it was trained on"


def position_limit(model: Any, config: dict[str, Any]) -> Positions | None:
    """Return the positions of a model by its config; None if not given."""
    config = config.get("text_config") or config
    known = [config[name] for name in NAMES if isinstance(config.get(name), int) and config[name] > 0]
    if not known:
        return None
    count = max(known[0], _scaled(config, known[0]))
    return Positions(count, _learned(model, known[0]))


def _scaled(config: dict[str, Any], count: int) -> int:
    """Return the positions with rope scaling: a factor times the original ones."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    factor, first = scaling.get("factor"), scaling.get("original_max_position_embeddings", count)
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (factor, first))
    return int(factor * first) if numbers else 0


def _learned(model: Any, count: int) -> bool:
    """Return whether a model has an embedding with one row a position that is not that of tokens."""
    import mlx.nn as nn

    tables = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.Embedding)]
    return any(
        module.weight.shape[0] in (count, count + 2) and name.rpartition(".")[2] in POSITION_TABLES
        for name, module in tables
    )


POSITION_TABLES = ("wpe", "position_embeddings", "embed_positions", "position_embedding")
"""Names of tables of positions."""
