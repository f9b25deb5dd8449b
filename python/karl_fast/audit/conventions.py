"""Which convention reproduces the advantages of a log: what is subtracted, what divides, over which rows.

```text
A = (r - baseline) / scale, then clipped to [-c, c]

baseline   0, mean, mean of the others, mean weighted by length          over the group, the step or all rows
scale      1, std + eps (ddof 0 or 1, of the group or of the step), mean + eps
```

Every convention is computed over the same rows and compared with what was logged. Groups that the dump has in part
are left out: their baseline refers to rollouts that are not in the file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from karl_fast import advantage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from karl_fast.audit.rollouts import Rollouts

    Column = NDArray[np.float64]
    Codes = NDArray[np.int64]

Trainer: TypeAlias = Literal["trl", "verl", "openrlhf", "prime_rl"]

EPSILONS = (0.0, 1e-9, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3)
"""Numbers that trainers add to a standard deviation."""

TOLERANCE = 2e-6
"""Largest difference that float32 leaves of advantages about 1 in size; prime-rl's are within 2e-7."""

NAMES = {
    ("centre", "group", None, None): "Dr. GRPO, prime-rl, tinker",
    ("zscore", "group", 1, 1e-4): "GRPO as in TRL",
    ("zscore", "group", 1, 1e-6): "GRPO as in verl",
    ("zscore", "group", 1, 1e-9): "GRPO as in OpenRLHF",
    ("zscore", "group", 0, 1e-4): "GRPO as in mlx-lm-lora",
    ("zscore", "group", 0, 1e-6): "GRPO with the population's deviation",
    ("leave-one-out", "group", None, None): "RLOO",
    ("length-weighted", "group", None, None): "OPO",
    ("batch-std", "group", 1, 1e-4): "TRL with scale_rewards=batch",
    ("whitened", "group", 0, 1e-8): "REINFORCE++ with a baseline",
    ("zscore", "step", 0, 1e-8): "REINFORCE++",
    ("maxrl", "group", None, 1e-6): "MaxRL",
}
"""Trainers that compute advantages so."""


@dataclass(frozen=True)
class Convention:
    """A way to compute advantages from rewards.

    Attributes:
        form: ``raw``, ``centre``, ``zscore``, ``leave-one-out``, ``length-weighted`` (baseline), ``batch-std`` (mean of
            the group, deviation of the step), ``whitened`` (centred in the group, then a z-score over the step) or
            ``maxrl``.
        scope: rows of the baseline: ``group``, ``prompt`` (rows of one prompt in one step), ``step`` or ``all``.
        ddof, eps: of the deviation; None where nothing is divided by one.
        clip: largest size; None for no limit.
        factor: what the advantages are multiplied by.
        by_length: True where they are divided by the length of the answer.
        trainer: whose float32 arithmetic is followed, groups of one included; None for float64.
    """

    form: str
    scope: str
    ddof: int | None = None
    eps: float | None = None
    clip: float | None = None
    factor: float = 1.0
    by_length: bool = False
    trainer: Trainer | None = None

    @property
    def complexity(self) -> int:
        """Return how many choices it has beyond its form: of several that fit, the simplest is taken."""
        return (self.clip is not None) + 2 * (self.factor != 1) + 2 * self.by_length + (self.trainer is not None)

    @property
    def known_as(self) -> str | None:
        """Return who computes advantages so; None of a form without a name."""
        return NAMES.get((self.form, self.scope, self.ddof, self.eps))

    def __str__(self) -> str:
        spread = "" if self.ddof is None else f", ddof {self.ddof}"
        added = "" if self.eps is None else f", eps {self.eps:g}"
        clip = "" if self.clip is None else f", clipped at {self.clip:g}"
        factor = "" if self.factor == 1 else f", times {self.factor:.4g}"
        length = ", divided by the length" if self.by_length else ""
        scope = "" if self.form == "raw" else f" over the {self.scope}" if self.scope != "all" else " over all rows"
        single = "" if self.trainer is None else f", in the float32 of {self.trainer}"
        return FORMS[self.form] + scope + spread + added + clip + factor + length + single


FORMS = {
    "raw": "the reward itself",
    "centre": "reward less the mean",
    "zscore": "z-score",
    "leave-one-out": "reward less the mean of the others",
    "length-weighted": "reward less the mean weighted by length",
    "batch-std": "reward less the mean of the group, divided by the deviation of the step,",
    "whitened": "reward less the mean of the group, then z-score of the step,",
    "maxrl": "reward less the mean, divided by the mean,",
}


@dataclass(frozen=True)
class Match:
    """Differences between a convention and the logged advantages.

    Attributes:
        convention: the convention.
        largest: largest difference over the rows that are compared.
        share: share of these rows within the tolerance.
    """

    convention: Convention
    largest: float
    share: float

    def order(self) -> tuple[float, float, float]:
        """Return the key by which the best match comes first."""
        return -self.share, self.convention.complexity if self.share > 0.5 else 0, self.largest


@dataclass(frozen=True)
class Reproduction:
    """Logged advantages, and what reproduces them.

    Attributes:
        logged: rows with a logged advantage.
        compared: those of them whose group is whole.
        groups: number of their groups.
        best: the nearest convention.
        reproduced: True where all compared rows are within the tolerance.
        tolerance: largest difference that counts as equal: of float32, or of the decimals that were logged.
        equal: other conventions within the tolerance on these rows, which cannot be told apart.
        nearest: the nearest convention of each form.
        scale: root mean square of the logged advantages.
        noise: largest size of an advantage in a group whose rewards are equal.
        off: rows that the best convention does not reproduce.
        per_token: rows whose tokens have advantages that differ, which are not compared.
    """

    logged: int
    compared: int
    groups: int
    best: Match
    reproduced: bool
    tolerance: float
    equal: list[Convention]
    nearest: list[Match]
    scale: float
    noise: float
    off: list[int]
    per_token: int


def reproduce_advantages(rollouts: Rollouts) -> Reproduction | None:
    """Find the convention that reproduces the logged advantages; None where none is logged.

    Args:
        rollouts: the columns of a dump.

    Returns:
        The nearest convention, and those that are equal to it on these rows.
    """
    logged = rollouts.advantages
    known = np.isfinite(logged) & np.isfinite(rollouts.rewards)
    if not known.any():
        return None
    rows = known & whole_groups(rollouts.groups)
    rows = rows if rows.any() else known
    tolerance = max(TOLERANCE * max(1.0, float(np.abs(logged[rows]).max())), _rounding(logged[rows]))
    matches = sorted(_matches(rollouts, rows, tolerance), key=Match.order)
    best = matches[0]
    simple = [match.convention for match in matches[1:] if match.share == 1]
    equal = [convention for convention in simple if convention.complexity <= best.convention.complexity]
    nearest = {match.convention.form: match for match in reversed(matches)}
    values = compute_advantages(rollouts, best.convention)
    off = np.flatnonzero(rows & ~(np.abs(values - logged) <= tolerance))
    return Reproduction(
        logged=int(np.isfinite(logged).sum()),
        compared=int(rows.sum()),
        groups=len(np.unique(rollouts.groups[rows])),
        best=best,
        reproduced=best.share == 1,
        tolerance=tolerance,
        equal=equal if best.share == 1 else [],
        nearest=sorted(nearest.values(), key=Match.order),
        scale=float(np.sqrt(np.mean(logged[rows] ** 2))),
        noise=_noise(rollouts, logged, known),
        off=off.tolist(),
        per_token=rollouts.per_token,
    )


def whole_groups(groups: Codes) -> NDArray[np.bool_]:
    """Return the rows of groups that are as large as most are: smaller ones lost rows to the end of a file. [B]"""
    sizes = np.bincount(groups[groups >= 0]) if (groups >= 0).any() else np.zeros(1, dtype=np.int64)
    usual = int(np.bincount(sizes[sizes > 0]).argmax()) if sizes.any() else 0
    # Where sizes vary by design no group is known to be cut.
    varied = (sizes[sizes > 0] != usual).mean() > 0.5 if sizes.any() else False
    least = 2 if varied else usual
    rows: NDArray[np.bool_] = (groups >= 0) & (sizes[np.maximum(groups, 0)] >= max(least, 1))
    return rows


def _rounding(values: Column) -> float:
    """Return half a unit of the last decimal of numbers that were logged with at most five decimals; else 0."""
    for places in range(1, 6):
        if np.array_equal(np.round(values, places), values):
            return 0.5000001 * 10.0**-places if len(np.unique(values)) > 2 * 10**places or _is_rounded(values) else 0.0
    return 0.0


def _is_rounded(values: Column) -> bool:
    """Return whether numbers look rounded: a mean of eight binary rewards has few decimals by itself."""
    eighths = np.round(values * 64) / 64
    return not np.array_equal(eighths, values)


def _noise(rollouts: Rollouts, logged: Column, known: NDArray[np.bool_]) -> float:
    """Return the largest advantage in groups of two rewards or more that are all equal."""
    low, high, counts = group_range(rollouts.rewards, rollouts.groups)
    equal = (low == high) & (counts > 1)
    rows = known & (rollouts.groups >= 0) & whole_groups(rollouts.groups)
    rows = rows & equal[np.maximum(rollouts.groups, 0)] if len(equal) else rows & False
    return float(np.abs(logged[rows]).max()) if rows.any() else 0.0


def group_range(values: Column, groups: Codes) -> tuple[Column, Column, NDArray[np.int64]]:
    """Return the least and the largest value of each group, and how many values it has; NaN are left out. [P] each"""
    count = int(groups.max()) + 1 if len(groups) else 0
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    rows = (groups >= 0) & np.isfinite(values)
    np.minimum.at(low, groups[rows], values[rows])
    np.maximum.at(high, groups[rows], values[rows])
    return low, high, np.bincount(groups[rows], minlength=count)


def _matches(rollouts: Rollouts, rows: NDArray[np.bool_], tolerance: float) -> Iterator[Match]:
    """Yield the match of each convention, with the clip, the factor or the length that improves it."""
    logged = rollouts.advantages
    limit = float(np.abs(logged[rows]).max())
    at_limit = int((np.abs(logged[rows]) >= limit * (1 - 1e-9)).sum())
    for convention in _candidates(rollouts):
        values = compute_advantages(rollouts, convention)
        match = _match(convention, values, logged, rows, tolerance)
        yield match
        if match.share == 1:
            continue
        if at_limit > 1 and np.abs(np.nan_to_num(values[rows])).max() > limit + tolerance:
            clipped = replace(convention, clip=limit)
            yield _match(clipped, np.clip(values, -limit, limit), logged, rows, tolerance)
        for scaled in (convention, replace(convention, by_length=True)):
            yield from _scaled(scaled, rollouts, rows, tolerance)


def _match(convention: Convention, values: Column, logged: Column, rows: NDArray[np.bool_], tolerance: float) -> Match:
    apart = np.abs(values - logged)[rows]
    within = apart <= tolerance  # not of NaN
    largest = float(np.where(np.isnan(apart), np.inf, apart).max())
    return Match(convention, largest, float(within.mean()))


def _scaled(convention: Convention, rollouts: Rollouts, rows: NDArray[np.bool_], tolerance: float) -> Iterator[Match]:
    """Yield the match of a convention times the number that fits best: a sign, a weight, 1 / length."""
    values, logged = compute_advantages(rollouts, convention)[rows], rollouts.advantages[rows]
    known = np.isfinite(values)
    square = float(values[known] @ values[known])
    if not square:
        return
    factor = float(values[known] @ logged[known]) / square
    # Of two advantages or fewer a factor says nothing.
    if factor and len(np.unique(np.round(values[known] / np.abs(values[known]).max(), 6))) > 2:
        scaled = replace(convention, factor=float(f"{factor:.6g}"))
        whole = compute_advantages(rollouts, scaled)
        yield _match(scaled, whole, rollouts.advantages, rows, tolerance)


def _candidates(rollouts: Rollouts) -> Iterator[Convention]:
    """Yield the conventions that differ on these rollouts."""
    yield Convention("raw", "all")
    positive = float(np.nanmin(rollouts.rewards)) >= 0
    for scope, codes in scopes(rollouts).items():
        yield Convention("centre", scope)
        yield Convention("leave-one-out", scope)
        for ddof in (1, 0):
            yield from (Convention("zscore", scope, ddof, eps) for eps in EPSILONS[1:])
            yield Convention("zscore", scope, ddof, 0.0)
        if len(np.unique(codes)) > 1 and scope in ("group", "prompt"):
            yield from (Convention("maxrl", scope, None, 1e-6) for _ in range(positive))
            yield Convention("length-weighted", scope)
            yield from (_in_float32(trainer, scope) for trainer in SINGLE)
            for ddof in (1, 0):
                yield from (Convention("batch-std", scope, ddof, eps) for eps in EPSILONS)
                yield from (Convention("whitened", scope, ddof, eps) for eps in (0.0, 1e-8, 1e-4))


SINGLE: tuple[Trainer, ...] = ("trl", "verl", "openrlhf", "prime_rl")
"""Trainers whose float32 arithmetic is followed: a mean that is off by a bit makes noise of equal rewards."""


def _in_float32(trainer: Trainer, scope: str) -> Convention:
    facts = advantage.CONVENTIONS[trainer]
    form, eps = ("centre", None) if facts.ddof is None else ("zscore", facts.eps)
    return Convention(form, scope, facts.ddof, eps, trainer=trainer)


def scopes(rollouts: Rollouts) -> dict[str, Codes]:
    """Return the rows that a baseline may be over, by name; one of several that are equal, the narrowest name first."""
    count = len(rollouts)
    named = {
        "group": rollouts.groups,
        "prompt": rollouts.prompt_steps,
        "step": _step_codes(rollouts.steps),
        "all": np.zeros(count, dtype=np.int64),
    }
    distinct: dict[str, Codes] = {}
    for name, codes in named.items():
        if (codes >= 0).any() and not any(_same_parts(codes, other) for other in distinct.values()):
            distinct[name] = codes
    return distinct


def _same_parts(first: Codes, second: Codes) -> bool:
    """Return whether two columns of codes part rows in the same way."""
    if not np.array_equal(first < 0, second < 0):
        return False
    pairs = len(np.unique(np.stack([first, second]), axis=1).T)
    return pairs == len(np.unique(first)) == len(np.unique(second))


def _step_codes(steps: Column) -> Codes:
    _, codes = np.unique(steps, return_inverse=True)
    return np.where(np.isnan(steps), -1, codes.reshape(-1)).astype(np.int64)


def compute_advantages(rollouts: Rollouts, convention: Convention) -> Column:
    """Return the advantages of rollouts by a convention; NaN where the reward is missing. [B]

    Args:
        rollouts: the columns of a dump.
        convention: how.

    Returns:
        float64; a group of equal rewards has 0, and so has a group of one.
    """
    codes = scopes_of(rollouts, convention.scope)
    if convention.trainer is not None:
        values = advantage.by_convention(convention.trainer, rollouts.rewards.astype(np.float32), codes)
    else:
        values = _FORMS[convention.form](rollouts, codes, convention)
    if convention.by_length:
        values = values / np.maximum(rollouts.tokens, 1)
    if convention.factor != 1:
        values = values * convention.factor
    return values if convention.clip is None else np.clip(values, -convention.clip, convention.clip)


def scopes_of(rollouts: Rollouts, scope: str) -> Codes:
    """Return the codes of a scope by its name."""
    if scope == "step":
        return _step_codes(rollouts.steps)
    if scope == "prompt":
        return rollouts.prompt_steps
    return rollouts.groups if scope == "group" else np.zeros(len(rollouts), dtype=np.int64)


def _batch(rollouts: Rollouts) -> Codes:
    """Return the step of each row; one batch where no step is logged."""
    codes = _step_codes(rollouts.steps)
    return codes if (codes >= 0).all() else np.zeros(len(codes), dtype=np.int64)


def _deviation(values: Column, codes: Codes, ddof: int) -> Column:
    """Return the standard deviation of the group of each row. [B]"""
    centred = advantage.centre(values, codes)
    rows = np.isfinite(values) & (codes >= 0)
    counts = np.bincount(codes[rows], minlength=int(codes.max()) + 1)
    squares = np.bincount(codes[rows], centred[rows] ** 2, minlength=len(counts))
    return np.sqrt(squares / np.maximum(counts - ddof, 1))[np.maximum(codes, 0)]


def _batch_std(rollouts: Rollouts, codes: Codes, how: Convention) -> Column:
    spread = _deviation(rollouts.rewards, _batch(rollouts), how.ddof or 0)
    scale = spread + (how.eps or 0.0)
    return np.where(scale > 0, advantage.centre(rollouts.rewards, codes) / np.where(scale > 0, scale, 1.0), 0.0)


def _whitened(rollouts: Rollouts, codes: Codes, how: Convention) -> Column:
    centred = np.ascontiguousarray(advantage.centre(rollouts.rewards, codes))
    return advantage.zscore(centred, _batch(rollouts), ddof=how.ddof or 0, eps=how.eps or 0.0)


def _length_weighted(rollouts: Rollouts, codes: Codes, how: Convention) -> Column:
    del how
    rows = np.isfinite(rollouts.rewards) & (codes >= 0)
    weights = np.where(rows, rollouts.tokens, 0.0)
    count = int(codes.max()) + 1
    total = np.bincount(codes[rows], weights[rows], minlength=count)
    sums = np.bincount(codes[rows], (weights * rollouts.rewards)[rows], minlength=count)
    baseline = sums / np.where(total > 0, total, 1.0)
    low, high, _ = group_range(rollouts.rewards, codes)
    values = rollouts.rewards - baseline[np.maximum(codes, 0)]
    values = np.where((low == high)[np.maximum(codes, 0)], 0.0, values)
    return np.where(rows, values, np.nan)


_FORMS: dict[str, Callable[[Any, Any, Convention], Any]] = {
    "raw": lambda rollouts, codes, how: rollouts.rewards,
    "centre": lambda rollouts, codes, how: advantage.centre(rollouts.rewards, codes),
    "zscore": lambda rollouts, codes, how: advantage.zscore(
        rollouts.rewards, codes, ddof=how.ddof or 0, eps=how.eps or 0.0
    ),
    "leave-one-out": lambda rollouts, codes, how: advantage.leave_one_out(rollouts.rewards, codes),
    "maxrl": lambda rollouts, codes, how: advantage.maxrl(rollouts.rewards, codes, eps=how.eps or 0.0),
    "length-weighted": _length_weighted,
    "batch-std": _batch_std,
    "whitened": _whitened,
}
"""Functions that compute each form."""

BY_NAME = {
    "trl": Convention("zscore", "group", 1, 1e-4),
    "verl": Convention("zscore", "group", 1, 1e-6),
    "openrlhf": Convention("zscore", "group", 1, 1e-9),
    "mlx-lm-lora": Convention("zscore", "group", 0, 1e-4),
    "prime-rl": Convention("centre", "group"),
    "tinker": Convention("centre", "group"),
    "dr-grpo": Convention("centre", "group"),
    "rloo": Convention("leave-one-out", "group"),
    "opo": Convention("length-weighted", "group"),
}
"""Conventions that advantages can be computed by, by name."""
