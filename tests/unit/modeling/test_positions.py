"""Lengths beyond the positions that a model was made for are refused or remarked on, with both numbers."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("mlx_lm", reason="pip install '.[train]'")

from karl_fast.errors import UsageError
from karl_fast.modeling.load import Positions, position_limit
from tests.unit.modeling import model_zoo

FOUND = {
    "rotary": ("llama", {"max_position_embeddings": 512}, Positions(512, learned=False)),
    "learned": ("gpt2", {"n_positions": 512}, Positions(512, learned=True)),
    "below": ("llama", {"text_config": {"max_position_embeddings": 512}}, Positions(512, learned=False)),
    "scaled from the start": (
        "llama",
        {"max_position_embeddings": 512, "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 512}},
        Positions(2048, learned=False),
    ),
    "scaled already": (
        "llama",
        {"max_position_embeddings": 2048, "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 512}},
        Positions(2048, learned=False),
    ),
    "of any number": ("llama", {"max_position_embeddings": 512, "rope_scaling": {"type": "x"}}, Positions(512, False)),
    "none": ("mamba2", {}, None),
}


@pytest.mark.parametrize("name", FOUND)
def test_positions_of_a_config(name: str) -> None:
    kind, config, wanted = FOUND[name]
    assert position_limit(model_zoo.built(kind), config) == wanted


SAID: dict[str, tuple[int, int, Any]] = {
    "within": (512, 512, None),
    "by default, and within": (4096, 500, None),
    "asked for, and within": (100_000, 500, "max_context is 100,000, and the model has 512 positions; the longest"),
    "beyond": (4096, 600, "max_context is 4,096, and the model has 512 positions: sequences of up to 600 tokens"),
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_said_of_a_length(name: str) -> None:
    asked, reach, said = SAID[name]
    remark = Positions(512, learned=False).remark("max_context", asked, 4096, reach)
    assert remark is None if said is None else str(remark).startswith(said)


def test_beyond_learned_positions_there_is_nothing() -> None:
    learned = Positions(512, learned=True)
    assert learned.remark("max_seq_length", 512, 2048, 512) is None
    with pytest.raises(UsageError, match="max_seq_length is 600, and the model has 512 positions, which are learned"):
        learned.remark("max_seq_length", 600, 2048, 513)
