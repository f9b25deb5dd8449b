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

import contextlib
import fcntl
import json
import math
import os
import shutil
import socket
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from karl_fast import _atomic, _core, _seen_hashes
from karl_fast._safe_text import counted
from karl_fast.errors import (
    CheckpointError,
    DataSetError,
    FileError,
    NothingToTrainError,
    OutputForeignError,
    OutputTakenError,
    OverlapError,
    UsageError,
)
from karl_fast.evaluation.rollouts import BASE, IDENTITY, SIDES, adapter_hash, evaluate_rollouts
from karl_fast.export.training_rows import open_source
from karl_fast.modeling.adapters import CONFIG
from karl_fast.modeling.load import ADAPTERS, require, require_adapter
from karl_fast.resampling.comparison import FEW
from karl_fast.reward.validate import reward
from karl_fast.rl.settings import read_prompts
from karl_fast.settings.validation import refuse_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from karl_fast.evaluation.rollouts import RolloutSettings

    Column = NDArray[np.float64]

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


# Records of promotions, and the link to the adapter in use.
#
# ```text
# current -> second                   the adapter in use, a symbolic link, beside the runs
# promotions/000001/record.json       a look at held-out data: what was compared, what came out, what became of the link
#                   seen-hashes.txt   hashes of the held-out prompts and groups
#                   rollouts.jsonl    attempts, where the look made some
# ```
#
# A record passes through states; the link moves between two of them, so that the next command can finish what a killed
# one began:
#
#     begun -> refused | superseded
#     begun -> promoting -> (link) -> promoted -> rolling-back -> (link) -> rolled-back


PROMOTIONS_FOLDER, PROMOTION_RECORD, PROMOTION_LOCK = "promotions", "record.json", ".lock"


@dataclass(frozen=True)
class PromotionRecords:
    """Promotions that move one link.

    Attributes:
        link: path of the link.
    """

    link: Path

    @property
    def folder(self) -> Path:
        """Folder of the records."""
        return self.link.parent / PROMOTIONS_FOLDER

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Wait for other promotions, finish one that was killed, and keep others out."""
        with _atomic.refused(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            file = (self.folder / PROMOTION_LOCK).open("ab")
        with file:
            with contextlib.suppress(OSError):  # a disk without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            self._finish()
            yield

    def looks(self) -> list[tuple[Path, dict[str, Any]]]:
        """Return the folder and the record of each look, the oldest first."""
        return [(place.parent, _read_record(place)) for place in sorted(self.folder.glob(f"[0-9]*/{PROMOTION_RECORD}"))]

    def looks_at(self, held_out: _seen_hashes.Seen) -> int:
        """Return the number of looks at held-out data that shares a prompt or a group with this."""
        return sum(
            bool((_seen_hashes.read(place) or _seen_hashes.Seen()) & held_out)
            for place, record in self.looks()
            if not _is_lost(place, record)
        )

    def begin(self, record: dict[str, Any], held_out: _seen_hashes.Seen) -> Path:
        """Write the record of a new look, and return its folder; the lock has to be held."""
        number = 1 + max((int(place.name) for place, _ in self.looks()), default=0)
        with _atomic.folder(self.folder / f"{number:06d}") as draft:
            _seen_hashes.write(draft, held_out)
            _write_record(
                draft, record | _process() | {"state": "begun", "time": datetime.now(UTC).isoformat(timespec="seconds")}
            )
        return self.folder / f"{number:06d}"

    def update(self, place: Path, **values: Any) -> dict[str, Any]:
        """Write values into a record, and return it; the lock has to be held."""
        record = _read_record(place / PROMOTION_RECORD) | values
        _write_record(place, record)
        return record

    def forget(self, place: Path) -> None:
        """Remove a look that saw nothing."""
        with _atomic.refused(place):
            shutil.rmtree(place, ignore_errors=True)

    def target(self) -> str | None:
        """Return the real path of the adapter that the link leads to; None if there is no link.

        Raises:
            OutputForeignError: something else than a link is in its place.
        """
        if not os.path.lexists(self.link):
            return None
        if not self.link.is_symlink():
            raise OutputForeignError(f"{self.link} exists and is not a symbolic link: it is left as it is")
        return os.path.realpath(self.link)

    def move(self, target: str | None) -> None:
        """Make the link lead to an adapter in one step, or remove it; readers find the old one or the new one."""
        self.target()
        with _atomic.refused(self.link):
            if target is None:
                self.link.unlink(missing_ok=True)
                return
            draft = self.link.with_name(_atomic.UNFINISHED + self.link.name)
            draft.unlink(missing_ok=True)
            draft.symlink_to(os.path.relpath(target, os.path.realpath(self.link.parent)))
            draft.replace(self.link)

    def promote(self, place: Path, **values: Any) -> dict[str, Any]:
        """Move the link to the new adapter of a look, and record it; the lock has to be held."""
        record = self.update(place, state="promoting", **values)
        self.move(record["new"]["path"])
        return self.update(place, state="promoted")

    def rollback(self) -> dict[str, Any]:
        """Move the link back to the adapter before the last promotion; the lock has to be held.

        Raises:
            CheckpointError: there is none, or the link leads elsewhere since.
        """
        promoted = [(place, record) for place, record in self.looks() if record["state"] == "promoted"]
        if not promoted:
            raise CheckpointError(f"{self.folder} has no promotion to roll back")
        place, record = promoted[-1]
        if self.target() != record["new"]["path"]:
            raise CheckpointError(
                f"{self.link} leads to {self.target()}, and the last promotion to {record['new']['path']}",
                hint="it was moved by hand since: move it by hand again",
            )
        self.update(place, state="rolling-back")
        self.move(record["previous"])
        return self.update(place, state="rolled-back")

    def _finish(self) -> None:
        """Finish moves of the link that a killed command began."""
        for place, record in self.looks():
            if record["state"] == "promoting":
                self._moved(place, record["previous_link"], record["new"]["path"], "promoted")
            elif record["state"] == "rolling-back":
                self._moved(place, record["new"]["path"], record["previous"], "rolled-back")

    def _moved(self, place: Path, source: str | None, target: str | None, state: str) -> None:
        """Move the link from one adapter to another unless that was done; it may lead elsewhere since."""
        now = self.target()
        if now == source != target:
            self.move(target)
        self.update(place, state=state if now in (source, target) else "superseded")


def is_seen(place: Path) -> bool:
    """Return whether attempts of a look can be read in its folder."""
    return any(file.stat().st_size for file in place.glob("*.jsonl"))


def _process() -> dict[str, Any]:
    return {"host": socket.gethostname(), "process": os.getpid()}


def _is_lost(place: Path, record: dict[str, Any]) -> bool:
    """Return whether the process of a look was killed before anything of the look could be read."""
    if record["state"] != "begun" or is_seen(place) or record.get("host") != socket.gethostname():
        return False
    try:
        os.kill(int(record["process"]), 0)
    except ProcessLookupError:
        return True
    except (OSError, KeyError, ValueError):
        return False
    return False


def _read_record(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text("utf-8"))
        return found | {"state": found["state"]}  # type: ignore[no-any-return]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{file} is damaged: it is not a record of a promotion") from error


def _write_record(place: Path, record: dict[str, Any]) -> None:
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    _atomic.write(place / PROMOTION_RECORD, lambda file: file.write(text.encode()))


# Hashes of what an adapter learned from: kept beside it, or those of the data set that mlx-lm trained it on.
#
# ```text
# ADAPTER/seen-hashes.txt       of a run of karl-fast
# ADAPTER/adapter_config.json   of mlx-lm: "data" names the data set, "resume_adapter_file" the adapter it began from
# ```
#
# The rows of a data set are hashed when an adapter is judged, not when they are drawn: they are all there, and a run of
# `karl-fast train` hashes the same ones.


LEARNED = ("train", "valid")
"""Splits that an adapter learned from or was chosen on."""


def read_learned_hashes(adapter: Path, later: tuple[Path, ...] = ()) -> _seen_hashes.Seen:
    """Return the hashes of what an adapter, and those that it began from, learned from or were chosen on.

    Args:
        adapter: its folder.
        later: folders of adapters that began from it.

    Raises:
        OverlapError: that is not known.
        KarlError: a file is damaged or cannot be read.
    """
    kept = _seen_hashes.read(adapter)
    if kept is not None:
        return kept
    config, later = _read_adapter_config(adapter), (*later, adapter.resolve())
    found = _of_data(adapter, config.get("data"))
    weights = config.get("resume_adapter_file")
    if not weights:
        return found
    before = Path(weights).parent
    if before.resolve() in later:
        raise _unknown(
            adapter, f"began from {weights}, which a later run replaced", "train each adapter in its own folder"
        )
    return found | read_learned_hashes(before, later)


def of_data_set(folder: Path) -> _seen_hashes.Seen:
    """Return the hashes of what an adapter of a data set would learn from or be chosen on."""
    source, found = open_source(folder), _seen_hashes.read(folder) or _seen_hashes.Seen()
    for split in LEARNED:
        found |= _seen_hashes.of_rows(source.rows(split))
    return found


def _read_adapter_config(adapter: Path) -> dict[str, Any]:
    """Return the settings of the run of mlx-lm that made an adapter; empty if there are none."""
    file = adapter / CONFIG
    try:
        found = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} is damaged: {error}") from error
    return found if isinstance(found, dict) else {}


def _of_data(adapter: Path, data: Any) -> _seen_hashes.Seen:
    """Return the hashes of the data set that an adapter was trained on."""
    if not isinstance(data, str):
        hint = f"karl-fast train and rl write it beside the adapter; mlx_lm lora names its data in {CONFIG}"
        raise _unknown(adapter, f"has no {_seen_hashes.FILE}, and no {CONFIG} that names its data", hint)
    folder = Path(data)
    if not folder.is_dir():
        hint = f"run this where mlx_lm ran, if {data} is relative to it, or bring the data set back"
        raise _unknown(adapter, f"names the data {data} in its {CONFIG}, which is not a folder", hint)
    trained = (adapter / ADAPTERS).stat().st_mtime
    files = [folder / f"{split}.jsonl" for split in LEARNED]
    newer = next((file for file in files if file.is_file() and file.stat().st_mtime > trained), None)
    if newer is not None:
        hint = "train again, or bring back the data set that it was trained on"
        raise _unknown(adapter, f"is older than its data {newer}", hint)
    return of_data_set(folder)


def _unknown(adapter: Path, why: str, hint: str) -> OverlapError:
    return OverlapError(f"{adapter} {why}: what it learned from is not known", hint=hint)


# Paired evidence that one adapter is better than another: a difference for each independent unit of held-out data.


DRAWS = 999_999
"""Drawn sign patterns for more units than can be counted: p-values down to one in a million."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Paired differences in favour of the new adapter.

    Attributes:
        differences: new less old of each unit, a prompt or a group; for likelihoods in nats gained. [U]
        weights: of each unit: 1, or its tokens. [U]
        unit: of the value: ``reward`` or ``nats a token``.
    """

    differences: Column
    weights: Column
    unit: str

    @property
    def value(self) -> float:
        """Weighted mean difference."""
        return float(self.differences.sum() / self.weights.sum())

    @property
    def least_p(self) -> float:
        """Smallest p-value that so many units can have."""
        return smallest_p(len(self.differences))

    def p(self, margin: float) -> float:
        """Return the one-sided p-value of a mean difference of at most a margin."""
        ends = np.array([0, len(self.differences)], dtype=np.int64)
        return float(_core.sign_flip(self.differences - margin * self.weights, ends, draws=DRAWS)[0])

    def limit(self, alpha: float) -> float | None:
        """Return the lower confidence limit of the mean difference; None where nothing is excluded."""
        found = _core.sign_flip_limit(self.differences, self.weights, alpha=alpha, draws=DRAWS)
        return found if math.isfinite(found) else None


def smallest_p(units: int) -> float:
    """Return the smallest p-value of the test of so many units."""
    return 2.0**-units if units <= FEW else 1 / (DRAWS + 1)


def compare_means(new: Mapping[str, float], old: Mapping[str, float]) -> Evidence:
    """Return the evidence of mean rewards by prompt; a prompt without one on either side is left out."""
    names = sorted(name for name in new.keys() & old.keys() if not math.isnan(new[name] - old[name]))
    return Evidence(np.array([new[name] - old[name] for name in names]), np.ones(len(names)), "reward")


def compare_columns(new: Mapping[str, Column], old: Mapping[str, Column]) -> Evidence:
    """Return the evidence of two evaluations of the same prompts."""
    difference = new["reward"] - old["reward"]
    difference = np.ascontiguousarray(difference[~np.isnan(difference)])
    return Evidence(difference, np.ones(len(difference)), "reward")


def read_rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a log of trajectories.

    Raises:
        FileError: it cannot be read.
        DataSetError: a line is no trajectory with a group, a reward and messages.
    """
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise FileError(f"cannot read {file}: {error.strerror}", error.errno, str(file)) from error
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataSetError(f"{file}, line {number:,}: the row is not JSON") from error
        if not isinstance(row, dict) or not {"group", "reward", "messages"} <= row.keys():
            raise DataSetError(f"{file}, line {number:,}: wanted an object with group, reward and messages")
        yield row


def mean_by_prompt(file: Path) -> dict[str, float]:
    """Return the mean reward of each prompt of a log; NaN where all of its rewards are missing."""
    found: dict[str, list[float]] = {}
    for row in read_rows(file):
        value = reward(row["reward"])
        group = found.setdefault(str(row.get("prompt_id", row["group"])), [])
        group += [value] if isinstance(value, float) else []
    return {name: sum(values) / len(values) if values else math.nan for name, values in found.items()}


def compare_logs(folder: Path) -> Evidence:
    """Return the evidence of two logs of attempts at the same prompts, as `karl-fast eval --rollouts` writes them.

    Raises:
        FileError, DataSetError: as `rows`.
        NothingToTrainError: no prompt has a reward in both.
    """
    found = compare_means(*(mean_by_prompt(folder / name) for name in SIDES))
    if not len(found.differences):
        raise NothingToTrainError(f"no prompt has a reward in both {folder / SIDES[0]} and {folder / SIDES[1]}")
    return found


def compare_likelihoods(
    data: str | Path,
    model: str,
    new: str | Path,
    old: str | Path | None,
    split: str,
    on_tokens: Callable[[int, int], object] | None = None,
) -> Evidence:
    """Return the evidence of the likelihood of held-out rows: nats gained by each group, weighted by its tokens.

    Raises:
        KarlError: as `evaluate`.
    """
    from karl_fast.train.evaluation import paired_nats  # with MLX, which evidence from logs does not need

    gained, tokens = paired_nats(data, model, new, old, split=split, on_tokens=on_tokens)
    return Evidence(gained, tokens, "nats a token")
