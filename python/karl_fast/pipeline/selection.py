"""Selection: from the columns of a log to the rows that may be drawn, and their weights.

```text
rewards -> score of each row -> rules drop rows -> weight = exp(inverse temperature * score), halved by age
```

The core computes all but advantages less a baseline, which need NumPy; this module refuses settings that name what no
record has, so that no setting is without effect.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from karl_fast import _core
from karl_fast.errors import UsageError
from karl_fast.log.discovery import why_no_groups
from karl_fast.log.field_hints import explain_missing_field
from karl_fast.log.order import half_life_of
from karl_fast.log.record_fields import (
    first_keys,
    fitting_paths,
    likeliest_key,
    list_keys,
    records,
)
from karl_fast.settings.sample import Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.log import Log


def select(log: Log) -> _core.Selection:
    """Score, judge and temper every record of a log, as its settings say; or weigh it as its caller did."""
    settings = log.settings
    if log.core.weighted:
        _refuse_target(settings)
    _refuse_absent_fields(log)
    selection = _core.Selection(
        log.core,
        weights=settings.weights,
        shaping=settings.shaping.numbers if settings.shaping else None,
        score=_kind_of_score(settings),
        scores=_scores(log),
        ddof=settings.ddof,
        eps=settings.eps,
        min_reward=settings.min_reward,
        drop_constant_groups=settings.drop_constant_groups,
        variance_top_p=settings.variance_top_p,
        dedup=settings.dedup,
        partition_by="field" if settings.partition_field else settings.partition_by,
        ess=settings.wanted_ess,
        inverse_temperature=settings.tempered_by,
        half_life=half_life_of(log),
        log_factors=log.log_factors,
        sampler=settings.sampler,
        seed=settings.seed,
        threads=settings.threads,
    )
    _refuse_unknown_names(log, selection.facts()["ungrouped"])
    return selection


GROUP_RULES = ("drop_constant_groups", "variance_top_p", "max_per_group")
"""Rules that leave every row where no row has a group."""


def _refuse_target(settings: Settings) -> None:
    """Refuse settings that the weights given by the caller would make ignored."""
    defaults = Settings()
    for name in ("shaping", "score", "ess", "inverse_temperature", "partition_by"):
        if getattr(settings, name) != getattr(defaults, name):
            raise UsageError(f"{name} is {getattr(settings, name)}, but log_weight was given, which replaces it", name)
    if settings.sampler == "reservoir":
        raise UsageError("the sampler reservoir draws all rows alike: it has no use for the log_weight that was given")


def _refuse_absent_fields(log: Log) -> None:
    """Refuse settings that need a group, a domain or another field that no record has."""
    settings = log.settings
    by_group = settings.partition_by == "group"
    groupless = len(log) > 0 and not log.core.distinct("group")
    rules = [rule for rule in GROUP_RULES if getattr(settings, rule)]
    by = settings.score_by
    needs_groups = by_group or by == "group" or rules or "group" in (settings.per or ())
    if groupless and needs_groups and (why := why_no_groups(log.inputs)):
        raise UsageError(why)
    if groupless and by_group:
        raise _absent_field_error(log, "partition_by is group", "partition_by", "group")
    if groupless and by == "group":
        raise _absent_field_error(log, f"score {settings.score} is taken within groups", "score", "group")
    if by == "domain" and len(log) and not log.core.distinct("domain"):
        raise _absent_field_error(log, "baseline_by is domain", "baseline_by", "domain")
    if groupless and rules:
        raise _absent_field_error(log, f"{rules[0]} is a rule of groups", rules[0], "group")
    for field in settings.per or ():
        if len(log) and not log.core.distinct(field):
            raise _absent_field_error(log, f"per is by {field}", "per", field)
    if settings.partition_field and len(log) and not log.core.distinct("partition"):
        raise _no_partition_error(log, settings.partition_field)


def _refuse_unknown_names(log: Log, ungrouped: int) -> None:
    """Refuse paths of an id, a group or a domain that no record has: names without effect are misspelt."""
    settings, files = log.settings, log.inputs
    records_read = sum(file["rows_read"] - sum(count for _, count in file["dropped"]) for file in files)
    without_id, domains = sum(file["without_id"] for file in files), log.core.domains()
    absent = {
        "id": without_id == records_read,
        "group": ungrouped == records_read,
        "domain": not (domains["listed"] or domains["other_rows"]),
    }
    for field, is_absent in absent.items():
        if records_read and is_absent and getattr(settings, field):
            raise _absent_field_error(log, "", field, field)


def _absent_field_error(log: Log, need: str, setting: str, field: str) -> UsageError:
    """Return the error for a field that no record has, under its name if it was given, and what needs it."""
    path = getattr(log.settings, field)
    wanted = f"a {field}" if path is None else f"the {field} {path}"
    more, hint = explain_missing_field(log, field, path)
    return UsageError(
        f"{need + ', but ' if need else ''}no record has {wanted}{more}", *([setting] if need else []), hint=hint
    )


def _no_partition_error(log: Log, field: str) -> UsageError:
    keys = first_keys(log.inputs)
    error = UsageError(f"partition_by is {field}, but no record has that field{list_keys(keys)}", "partition_by")
    if key := likeliest_key("partition", fitting_paths(records(log), "partition"), field):
        error.hint = f"did you mean --partition-by {shlex.quote(key)}?"
    return error


def _kind_of_score(settings: Settings) -> str:
    """Return the score that rules judge rows by: advantages are within groups, or of each row alone."""
    if settings.score != "advantage":
        return settings.score
    return "centre" if settings.score_by == "group" else "raw"


def _scores(log: Log) -> NDArray[np.float64] | None:
    """Return the score of each record; None where the selection computes it. [B]

    Rows of a tree have the score of their root, which is compared with other roots: a tree counts once in the mean of
    its group, however many rows it has.
    """
    settings = log.settings
    if log.tree_roots is None or settings.score == "raw":
        return _advantages(log, log.rewards) if settings.score == "advantage" else None
    import numpy as np  # here, for other scores do without

    from karl_fast.advantage import centre, leave_one_out, zscore

    rewards = np.where(log.tree_roots == np.arange(len(log)), log.rewards, np.nan)
    if settings.score == "advantage":
        return _advantages(log, rewards)[log.tree_roots]
    shaped = rewards if settings.shaping is None else settings.shaping(rewards)
    if settings.score == "zscore":
        scores = zscore(shaped, log.groups, ddof=settings.ddof, eps=settings.eps)
    else:
        scores = (centre if settings.score == "centre" else leave_one_out)(shaped, log.groups)
    return scores[log.tree_roots]


def _advantages(log: Log, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the reward of each record less the baseline of its group or domain; 0 without a domain. [B]"""
    import numpy as np  # here, for other scores do without

    from karl_fast.advantage import centre, partition_baseline

    settings = log.settings
    rewards = rewards if settings.shaping is None else settings.shaping(rewards)
    codes = log.groups if settings.baseline_by == "group" else log.domains
    if settings.baseline == "mean":
        scores = centre(rewards, codes)
    elif settings.baseline == "ema":
        scores = _less_moving_mean(log, rewards, codes)
    else:  # the validation of settings has seen that there is a temperature
        scores = partition_baseline(rewards, codes, inverse_temperature=settings.inverse_temperature or 1.0)
    # A row without a domain has none to be compared with, as one that is alone in its group.
    return np.where((codes < 0) & ~np.isnan(rewards), 0.0, scores)


def _less_moving_mean(log: Log, rewards: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the reward of each record less the moving mean of those before it; equal times are in id order. [B]"""
    import numpy as np

    from karl_fast.advantage import ema_baseline

    settings, times = log.settings, log.core.order()
    assert times is not None, "settings.order_by"
    order = np.argsort(times, kind="stable")
    baseline = ema_baseline(rewards[order], codes[order], alpha=settings.ema_alpha, start=settings.ema_start)
    scores = np.empty(len(order))
    scores[order] = baseline.advantages
    return scores
