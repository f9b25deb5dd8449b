"""The memory that training may take at most, known before there is a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast.modeling.load import adapt, load, require
from karl_fast.train.memory import limit_bytes, of_model
from karl_fast.train.model_logprobs import Scorer
from karl_fast.train.settings import AUTO

if TYPE_CHECKING:
    from karl_fast.train.settings import Training


def estimate_memory(model: str, settings: Training) -> dict[str, int]:
    """Return the bytes of a batch of ``batch_size`` rows of ``max_seq_length`` tokens, and the limit.

    With ``auto`` for the length, a run takes what is below the limit: the estimate is then the limit.

    Raises:
        ModelError: the model is missing or cannot be trained.
    """
    require()
    limit = limit_bytes(settings)
    if settings.max_seq_length == AUTO:
        return {"memory_bytes": limit, "memory_limit_bytes": limit}
    loaded = load(model)
    config, scorer = adapt(loaded.model, settings), Scorer(loaded.model)
    loaded.model.train()
    memory = of_model(loaded.model, scorer.body, scorer.vocabulary, settings, config["num_layers"])
    need = memory.need(settings.batch_size, settings.limit_tokens)
    return {"memory_bytes": need.total, "memory_limit_bytes": limit}
