"""Keywords of the functions that take settings, for type checkers and editors.

Written from the declarations of :class:`karl_fast.Settings` by ``KARL_FAST_UPDATE=1 pytest tests/unit/settings``; a
test compares both.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from karl_fast.settings.schema import MISSING, schema
from karl_fast.settings.shaping import AsymmetricScale  # noqa: TC001  (as in `fields`)
from karl_fast.settings.types import BaselineBy, BaselineKind, Sampler, Score, Shape, Signal  # noqa: TC001

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


class SampleKeywords(TypedDict, total=False):
    """Settings of `sample` and `inspect` by name."""

    format: str | None
    id: str | None
    group: str | None
    reward: dict[str, float | Signal] | None
    messages: str | None
    prompt: str | None
    completion: str | None
    domain: str | None
    order_by: str | None
    shaping: AsymmetricScale | None
    score: Score
    baseline: BaselineKind
    baseline_by: BaselineBy
    ema_alpha: float
    ema_start: float
    ddof: int
    eps: float
    ess: float | None
    inverse_temperature: float | None
    recency_half_life: str | None
    partition_by: str
    min_reward: float | None
    drop_constant_groups: bool
    variance_top_p: float | None
    max_per_group: int | None
    dedup: bool
    sampler: Sampler
    per: dict[str, str] | None
    k: int | None
    fraction: float | None
    seed: int
    shape: Shape
    split: tuple[float, float, float]
    allow_secrets: bool
    pseudonyms: str | None
    max_tokens: int | None
    tokenizer: str | None
    hash_inputs: bool
    strict: bool
    max_line_bytes: int
    threads: int


def show_keywords(kind: type) -> Callable[[F], F]:
    """Show the settings of a class as keywords in the signature of a function that takes them as ``**choices``."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        *own, _ = signature.parameters.values()
        keywords = [
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=... if one.default is MISSING else one.default,
                annotation=one.annotation,
            )
            for name, one in schema(kind).items()
            if "." not in name  # settings in a table are passed as one
        ]
        function.__signature__ = signature.replace(parameters=[*own, *keywords])  # type: ignore[attr-defined]
        return function

    return decorate
