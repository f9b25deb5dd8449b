"""The gate: alpha spending over the looks at held-out data, so that an adapter is promoted only if it is better.

```text
p        = sign-flip test of the paired differences, new less old, less the margin
alpha_j  = (1 - confidence) / (j (j + 1)) at the j-th look at the held-out data;   sum over all j = 1 - confidence

look j:  refuse overlap -> reserve the look -> compare -> p <= alpha_j ?  move the link : refuse
```

Alpha spending: what a look may spend is fixed before it (Lan & DeMets 1983), so that by the union bound the chance of
any false promotion is at most 1 - confidence, however many looks there are and however they depend on each other. It
holds for candidates that are chosen by the decisions of earlier looks too: before the first promotion there is only
one sequence of refusals (Blum & Hardt 2015, arXiv:1502.04585). A look is spent once something of it can be read: its
attempts, or its decision.

`evidence` has the test, `overlap` what an adapter learned from, `promotions` the records of looks and the link.
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
from karl_fast.errors import (
    CheckpointError,
    OutputTakenError,
    UsageError,
)
from karl_fast.evaluation.evidence import (
    Evidence,
    compare_columns,
    compare_likelihoods,
    compare_logs,
    read_rows,
    smallest_p,
)
from karl_fast.evaluation.overlap import hash_data_set, read_learned_hashes, refuse_overlap
from karl_fast.evaluation.promotions import PromotionRecords, is_seen
from karl_fast.evaluation.rollouts import BASE, IDENTITY, SIDES, adapter_hash, evaluate_rollouts
from karl_fast.export.training_rows import open_source
from karl_fast.modeling.load import require_adapter, require_mlx_lm
from karl_fast.resampling import FEW
from karl_fast.rl.settings import read_prompts
from karl_fast.settings.validation import refuse_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karl_fast.evaluation.rollouts import RolloutSettings


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
    on_attempts: Callable[[int, int, int], object] | None = None,
    on_remark: Callable[[str], object] | None = None,
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
        on_attempts: as ``on_tokens`` of `evaluate_rollouts`, for ``rollouts``.
        on_remark: called with a remark on an adapter that was trained on another base than the model.

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
        require_mlx_lm()
    require_adapter(str(new))
    if str(over) != BASE:
        require_adapter(str(over), BASE)
    held_out, units = _hash_held_out(data, by, split)
    refuse_overlap(new, read_learned_hashes(Path(new)), held_out)
    records = PromotionRecords(Path(os.path.abspath(link or Path(os.path.abspath(new)).parent / LINK)))  # noqa: PTH100  the link is not followed
    paths = {"new": os.path.realpath(new), "over": None if str(over) == BASE else os.path.realpath(over)}
    facts = {"data": str(data), "by": by, "margin": margin, "confidence": confidence}
    place, look, before = _reserve_look(records, paths, held_out, units, facts, 1 - confidence)
    alpha = alpha_at(look, 1 - confidence)
    try:
        evidence = _gather_evidence(
            new, over, data, by, rollouts, model, split, place, progress, on_tokens, on_attempts, on_remark
        )
    except BaseException:  # a signal, too
        if not is_seen(place):
            records.forget(place)
        raise
    result: dict[str, Any] = {"value": evidence.value, "limit": evidence.limit(alpha), "p": evidence.p(margin)}
    result |= {"units": len(evidence.differences), "unit": evidence.unit}
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
    held_out, units = _hash_held_out(data, by, split)
    refuse_overlap(learned, hash_data_set(learned), held_out)
    look = 1 + PromotionRecords(link).looks_at(held_out)
    if smallest_p(units) > alpha_at(look, alpha):
        raise _too_few_error(units, look, alpha_at(look, alpha))


def rollback(link: str | Path) -> dict[str, Any]:
    """Move the link back to the adapter before the last promotion.

    Args:
        link: the link.

    Returns:
        The record of the promotion.

    Raises:
        CheckpointError: there is no promotion, or the link was moved by hand since.
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


def _hash_held_out(data: str | Path, by: By, split: str) -> tuple[_seen_hashes.Seen, int]:
    """Return the hashes of held-out data, and the most units that it can have."""
    if by == "rollouts":
        prompts = read_prompts(data)
        groups = (prompt.columns.get("group") for prompt in prompts)
        return _seen_hashes.hash_prompts((prompt.messages for prompt in prompts), groups), len(prompts)
    if by == "rewards":
        folder = Path(data)
        rows = [row for name in SIDES for row in read_rows(folder / name)]
        groups = (None if "prompt_id" in row else row["group"] for row in rows)
        return _seen_hashes.hash_prompts(map(_seen_hashes.messages_of, rows), groups), len(
            compare_logs(folder).differences
        )
    rows = open_source(data).rows(split)
    return _seen_hashes.hash_rows(rows), len(rows)


def _reserve_look(
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
        spendable = alpha_at(look, alpha)
        if smallest_p(units) > spendable:
            raise _too_few_error(units, look, spendable)
        adapters = {
            name: None if path is None else {"path": path, "sha256": adapter_hash(path)} for name, path in paths.items()
        }
        previous = {"previous": before or paths["over"], "previous_link": before}
        record = {"look": look, "alpha": spendable, **adapters, **previous, **facts}
        return records.begin(record, held_out), look, before


def _too_few_error(units: int, look: int, alpha: float) -> UsageError:
    # Beyond FEW units sign patterns are drawn, and the smallest p no longer falls with their number.
    needed = next(count for count in range(units, 2000) if smallest_p(count) <= alpha or count > FEW)
    why = f"look {look} promotes at p <= {alpha:.2g}: wanted {needed} or more"
    return UsageError(
        f"the held-out data has {counted(units, 'prompt')}, and {why}",
        hint="no result could promote, and nothing was looked at; fresh held-out data begins at look 1",
    )


def _gather_evidence(
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
    on_attempts: Callable[[int, int, int], object] | None,
    on_remark: Callable[[str], object] | None,
) -> Evidence:
    """Look at the held-out data."""
    if by == "rewards":
        _check_adapters(Path(data), [new, over])
        return compare_logs(Path(data))
    if by == "likelihood":
        return compare_likelihoods(
            data, str(model), new, None if str(over) == BASE else over, split, on_tokens, on_remark
        )
    assert rollouts is not None
    settings = replace(rollouts, prompts=str(data))
    hooks: Any = {"progress": progress, "on_tokens": on_attempts, "on_remark": on_remark}
    evaluation = evaluate_rollouts(settings, new, out=place, against=over, force=True, **hooks)
    return compare_columns(*evaluation.columns)


def _check_adapters(folder: Path, paths: Sequence[str | Path]) -> None:
    """Raise where an evaluation is of other adapters than those to compare."""
    file = folder / IDENTITY
    if not file.is_file():
        return  # logs of other tools, which say nothing of adapters
    evaluated = [adapter["sha256"] for adapter in json.loads(file.read_text("utf-8"))["adapters"]]
    if evaluated != [None if str(path) == BASE else adapter_hash(path) for path in paths]:
        raise UsageError(f"{folder} is an evaluation of other adapters than {paths[0]} against {paths[1]}", "data")
