"""Turns of a policy: the request for one, what was drawn, and an answer that comes later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from karl_fast.rl.kv_cache import CachedPrefix


@dataclass(frozen=True, eq=False)
class Turn:
    """Turn of the policy in one context.

    Attributes:
        tokens: ids, including the end token, if any. int32, [T]
        logp: of each under softmax(logits / T). float32, [T]
        entropy: of each token's distribution, in nats. float32, [T]
        ended: True if a token ended it; False if the budget did.
    """

    tokens: NDArray[np.int32]
    logp: NDArray[np.float32]
    entropy: NDArray[np.float32]
    ended: bool


@dataclass(frozen=True, eq=False)
class Ask:
    """Request for a turn of the policy.

    Attributes:
        rollout: number of its rollout in the call.
        tokens: ids of its context, one or more.
        budget: maximum tokens of the turn, 1 or more.
        key: of the random numbers of its rollout, as `key` makes it.
        drawn: tokens that its rollout has drawn before.
        last: True if no turn follows, so that its caches are not kept.
        prefix: caches of the beginning of the context, if they were kept.
    """

    rollout: int
    tokens: Sequence[int]
    budget: int
    key: int
    drawn: int = 0
    last: bool = True
    prefix: CachedPrefix | None = None


@dataclass(frozen=True, eq=False)
class PendingAnswer:
    """Answer that is computed elsewhere, while other rows go on.

    Attributes:
        work: what is waited for.
        then: called when it is done; returns the next turn, or None.
    """

    work: Future[Any]
    then: Callable[[], Ask | None]


def rollout_key(*words: int) -> int:
    """Return the key of a rollout, from a seed and the numbers of its group and of its place in it."""
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])
