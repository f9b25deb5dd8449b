"""The gate: an adapter is promoted only if it is better on held-out data that it has not seen.

```text
p      = sign-flip test of the paired differences, new less old, less the margin
alpha  = (1 - confidence) / (j (j + 1)) at the j-th look at the held-out data;   sum over all j = 1 - confidence
```

Promoted where p <= alpha. By the union bound the chance of any false promotion, however many looks there are and
however they depend on each other, is at most 1 - confidence: what a look may spend is fixed before it (alpha spending,
Lan & DeMets 1983). It holds for candidates that are chosen by the decisions of earlier looks too: before the first
promotion there is only one sequence of refusals (Blum & Hardt 2015, arXiv:1502.04585). A look is spent
once something of it can be read: its attempts, or its decision.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from karl_fast import _seen_hashes
from karl_fast._safe_text import counted
from karl_fast.errors import CheckpointError, OutputTakenError, OverlapError, UsageError
from karl_fast.evaluation.evidence import compare_columns, compare_likelihoods, compare_logs, read_rows, smallest_p
from karl_fast.evaluation.learned_from import of_data_set, read_learned_hashes
from karl_fast.evaluation.promotions import PromotionRecords, is_seen
from karl_fast.evaluation.rollouts import BASE, IDENTITY, SIDES, adapter_hash, evaluate_rollouts
from karl_fast.export.training_rows import open_source
from karl_fast.modeling.load import require, require_adapter
from karl_fast.rl.config import read_prompts
from karl_fast.settings.validation import refuse_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karl_fast.evaluation.evidence import Evidence
    from karl_fast.evaluation.settings import RolloutSettings

By = Literal["rollouts", "rewards", "likelihood"]

LINK = "current"
"""Name of the link, beside the new adapter."""


@dataclass(frozen=True)
class Decision:
    """Result of a look.

    Attributes:
        promoted: whether the link was moved.
        value: the mean difference, new less old.
        limit: its lower confidence limit at this look; None where nothing is excluded.
        p: of the test of a difference of at most the margin.
        alpha: the p-value that it had to reach.
        look: number of this look at the held-out data, from 1.
        units: number of prompts, or of groups.
        unit: of the value.
        link: path of the link.
        record: folder of the record.
    """

    promoted: bool
    value: float
    limit: float | None
    p: float
    alpha: float
    look: int
    units: int
    unit: str
    link: Path
    record: Path


def alpha_at(look: int, alpha: float) -> float:
    """Return the error that a look may spend, such that all of them together spend alpha.

    ```text
    alpha_j = alpha / (j (j + 1)),   sum_{j >= 1} alpha_j = alpha
    ```
    """
    return alpha / (look * (look + 1))


def promote(
    new: str | Path,
    *,
    over: str | Path,
    data: str | Path,
    by: By = "rollouts",
    margin: float = 0.0,
    confidence: float = 0.95,
    link: str | Path | None = None,
    rollouts: RolloutSettings | None = None,
    model: str | None = None,
    split: str = "test",
    progress: Callable[[str, int, int, list[str]], None] | None = None,
    on_tokens: Callable[[int, int], object] | None = None,
) -> Decision:
    """Promote an adapter if it is better than another by at least a margin, at a confidence.

    ```text
    promoted where p(new - old - margin) <= (1 - confidence) / (j (j + 1)),   j = number of this look
    ```

    Args:
        new: the folder of the new adapter.
        over: that of the adapter in use; ``base`` for the model alone.
        data: held-out data: a file of prompts for ``rollouts``; for ``rewards`` a folder with two logs of attempts at
            the same prompts, ``rollouts.jsonl`` of the new adapter and ``against.jsonl`` of the old one; a data set
            for ``likelihood``.
        by: what is compared: attempts made now, rewards measured before, or the likelihood of a split.
        margin: the least difference, in units of the reward or in nats a token.
        confidence: one less the chance of any false promotion on this held-out data, over all looks.
        link: the link to move; ``current`` beside the new adapter by default.
        rollouts: settings of the attempts, for ``rollouts``.
        model: the model, for ``likelihood``.
        split: the split of the data set, for ``likelihood``.
        progress: as for `evaluate_rollouts`.
        on_tokens: as for `evaluate`, for ``likelihood``.

    Returns:
        The decision; its record is beside the link.

    Raises:
        UsageError: a setting out of range; the link leads to another adapter than `over`; or too few prompts for any
            p-value that this look could accept.
        OverlapError: the new adapter learned from, or was chosen on, some of the held-out data, or what it
            learned from is not known.
        OutputTakenError: another promotion moved the link meanwhile.
        KarlError: as `evaluate_rollouts` and `evaluate`.

    Reference: Fisher 1935 (the test); Lan & DeMets 1983 (alpha spending).
    """
    refuse_empty(new=new, over=over, data=data, link=link)
    _check(by, margin, confidence, rollouts, model)
    if by != "rewards":
        require()
    require_adapter(str(new))
    if str(over) != BASE:
        require_adapter(str(over), BASE)
    held_out, units = _held_out(data, by, split)
    _refuse_overlap(Path(new), held_out)
    records = PromotionRecords(Path(os.path.abspath(link or Path(os.path.abspath(new)).parent / LINK)))  # noqa: PTH100  the link is not followed
    paths = {"new": os.path.realpath(new), "over": None if str(over) == BASE else os.path.realpath(over)}
    place, look, before = _begin(records, paths, held_out, units, _facts(data, by, margin, confidence), 1 - confidence)
    alpha = alpha_at(look, 1 - confidence)
    try:
        found = _evidence(new, over, data, by, rollouts, model, split, place, progress, on_tokens)
    except BaseException:  # a signal, too
        if not is_seen(place):
            records.forget(place)
        raise
    result: dict[str, Any] = {"value": found.value, "limit": found.limit(alpha), "p": found.p(margin)}
    result |= {"units": len(found.differences), "unit": found.unit}
    promoted = result["p"] <= alpha
    with records.locked():
        if not promoted:
            records.update(place, state="refused", **result)
        elif records.target() != before:
            records.update(place, state="superseded", **result)
            raise OutputTakenError(
                f"{records.link} leads to {records.target()} since this promotion began: compare with that"
            )
        else:
            records.promote(place, **result)
    return Decision(promoted=promoted, alpha=alpha, look=look, link=records.link, record=place, **result)


def check_evidence(learned: Path, data: str | Path, by: By, split: str, link: Path, alpha: float) -> None:
    """Raise before an adapter is trained that could not be promoted.

    Args:
        learned: the data set that it is to learn.
        data, by, split: held-out data, as for `promote`.
        link: the link that a promotion would move.
        alpha: chance of any false promotion.

    Raises:
        OverlapError: some of the held-out data is in the data set.
        UsageError: no result of the next look could promote.
    """
    held_out, units = _held_out(data, by, split)
    _refuse_shared(learned, of_data_set(learned), held_out)
    look = 1 + PromotionRecords(link).looks_at(held_out)
    if smallest_p(units) > alpha_at(look, alpha):
        raise _too_few(units, look, alpha_at(look, alpha))


def rollback(link: str | Path) -> dict[str, Any]:
    """Move the link back to the adapter before the last promotion.

    Args:
        link: the link.

    Returns:
        The record of the promotion.

    Raises:
        CheckpointError: there is no promotion, or the link was moved by hand since.

    Reference: none.
    """
    refuse_empty(link=link)
    records = PromotionRecords(Path(os.path.abspath(link)))  # noqa: PTH100  the link is not followed
    if not records.folder.is_dir():
        raise CheckpointError(f"{records.folder} has no promotion to roll back")
    with records.locked():
        return records.rollback()


def _check(by: str, margin: float, confidence: float, rollouts: RolloutSettings | None, model: str | None) -> None:
    if not (math.isfinite(margin) and margin >= 0):
        raise UsageError(f"margin is {margin}, wanted a number from 0 on", "margin")
    if not 0 < confidence < 1:
        raise UsageError(f"confidence is {confidence}, wanted a number between 0 and 1", "confidence")
    if by == "rollouts" and rollouts is None:
        raise UsageError("by is rollouts, and there is no config with a model and rewards", "by", "config")
    if by == "likelihood" and model is None:
        raise UsageError("by is likelihood, and there is no model", "by", "model")


def _held_out(data: str | Path, by: By, split: str) -> tuple[_seen_hashes.Seen, int]:
    """Return the hashes of held-out data, and the most units that it can have."""
    if by == "rollouts":
        asked = read_prompts(data)
        return _seen_hashes.of((one.messages for one in asked), (one.columns.get("group") for one in asked)), len(asked)
    if by == "rewards":
        folder = Path(data)
        rows = [row for name in SIDES for row in read_rows(folder / name)]
        own = (None if "prompt_id" in row else row["group"] for row in rows)
        return _seen_hashes.of(map(_seen_hashes.messages_of, rows), own), len(compare_logs(folder).differences)
    held = open_source(data).rows(split)
    return _seen_hashes.of_rows(held), len(held)


def _refuse_overlap(new: Path, held_out: _seen_hashes.Seen) -> None:
    """Raise where an adapter learned from held-out data, or does not know what it learned from."""
    _refuse_shared(new, read_learned_hashes(new), held_out)


def _refuse_shared(new: Path, learned: _seen_hashes.Seen, held_out: _seen_hashes.Seen) -> None:
    both = learned & held_out
    if both:
        said = [_share(getattr(both, kind), getattr(held_out, kind), kind) for kind in ("prompts", "groups")]
        shared = " and ".join(one for one in said if one)
        raise OverlapError(
            f"{new} learned from, or was chosen on, {shared} of the held-out data",
            hint="promote by data that no run has seen",
        )


def _share(both: frozenset[str], all: frozenset[str], kind: str) -> str:
    return f"{len(both):,} of {counted(len(all), kind[:-1])} ({len(both) / len(all):.0%})" if both else ""


def _facts(data: str | Path, by: str, margin: float, confidence: float) -> dict[str, Any]:
    return {"data": str(data), "by": by, "margin": margin, "confidence": confidence}


def _begin(
    records: PromotionRecords,
    paths: dict[str, Any],
    held_out: _seen_hashes.Seen,
    units: int,
    facts: dict[str, Any],
    alpha: float,
) -> tuple[Path, int, str | None]:
    """Reserve a look before anything is seen; return its folder, its number, and the adapter in use."""
    with records.locked():
        before = records.target()
        if before is not None and before != paths["over"]:
            raise UsageError(
                f"over is {paths['over'] or BASE}, and {records.link} leads to {before}",
                "over",
                hint=f"compare with what is in use: --over {records.link}",
            )
        look = 1 + records.looks_at(held_out)
        wanted = alpha_at(look, alpha)
        if smallest_p(units) > wanted:
            raise _too_few(units, look, wanted)
        ends = {
            name: None if path is None else {"path": path, "sha256": adapter_hash(path)} for name, path in paths.items()
        }
        previous = {"previous": before or paths["over"], "previous_link": before}
        return records.begin({"look": look, "alpha": wanted, **ends, **previous, **facts}, held_out), look, before


def _too_few(units: int, look: int, alpha: float) -> UsageError:
    needed = next(count for count in range(units, 2000) if smallest_p(count) <= alpha or count > 40)
    held = counted(units, "prompt")
    why = f"look {look} promotes at p <= {alpha:.2g}: wanted {needed} or more"
    return UsageError(
        f"the held-out data has {held}, and {why}",
        hint="no result could promote, and nothing was looked at; fresh held-out data begins at look 1",
    )


def _evidence(
    new: str | Path,
    over: str | Path,
    data: str | Path,
    by: By,
    rollouts: RolloutSettings | None,
    model: str | None,
    split: str,
    place: Path,
    progress: Callable[[str, int, int, list[str]], None] | None,
    on_tokens: Callable[[int, int], object] | None,
) -> Evidence:
    """Look at the held-out data."""
    if by == "rewards":
        _same_adapters(Path(data), [new, over])
        return compare_logs(Path(data))
    if by == "likelihood":
        return compare_likelihoods(data, str(model), new, None if str(over) == BASE else over, split, on_tokens)
    assert rollouts is not None
    asked = replace(rollouts, prompts=str(data))
    found = evaluate_rollouts(asked, new, out=place, against=over, force=True, progress=progress)
    return compare_columns(*found.columns)


def _same_adapters(folder: Path, paths: Sequence[str | Path]) -> None:
    """Raise where an evaluation is of other adapters than those to compare."""
    file = folder / IDENTITY
    if not file.is_file():
        return  # logs of other tools, which say nothing of adapters
    made = [one["sha256"] for one in json.loads(file.read_text("utf-8"))["adapters"]]
    now = [None if str(path) == BASE else adapter_hash(path) for path in paths]
    if made != now:
        raise UsageError(f"{folder} is an evaluation of other adapters than {paths[0]} against {paths[1]}", "data")
