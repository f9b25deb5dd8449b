"""Surprisal of logged trajectories: how far a model, the student, is from writing each of them itself.

```text
log -> chunk of rows -> rows as `sample` would write them -> tokens -> forward sweep: gap and logp of each learned token
    -> gap, spike, learnability of each row -> the records with a field `surprisal`, chunk by chunk
```

```text
gap_t = max_a log p(a) - log p(token_t)                    0 where the student would choose the token itself
spike = (log sum_t exp(beta gap_t) - log T) / beta         near the largest gap
learnability G = exp(-lambda spike)
```

The result is a log again: ``--reward surprisal.learnability`` or ``--reward surprisal.reward`` (reward times G) weighs
its rows, and ``--min-reward`` filters them. Chunks that are measured stand in a file beside the result until it is
complete, so that a run that was killed goes on where it was.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _atomic, _core
from karl_fast._output_path import check_around, refuse_link, refuse_read
from karl_fast.errors import CheckpointError, ModelError, NothingToTrainError, OutputExistsError, UsageError
from karl_fast.export.data_set_reader import RAW
from karl_fast.export.write import draft_rows
from karl_fast.modeling.checkpoint import ADAPTERS
from karl_fast.modeling.load import load, require_mlx_lm
from karl_fast.pipeline.inspect import open_with_stamps
from karl_fast.pipeline.sample import lines_of
from karl_fast.settings.validation import refuse_empty
from karl_fast.train.batching import pad_rows
from karl_fast.train.chat_template import Renderer
from karl_fast.train.dataset import longest_text
from karl_fast.train.evaluation import SEGMENT, build_scorer, trained_length
from karl_fast.train.examples import RowAccount, fit_row, render_rows
from karl_fast.train.settings import AUTO, BETA, LAMBDA, Training

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from karl_fast.log import Log
    from karl_fast.modeling.load import Loaded
    from karl_fast.settings.sample import Settings
    from karl_fast.train.examples import Example

FIELD = "surprisal"
"""Field that rows get."""

CHUNK = 64
"""Rows between two places where a run can be resumed."""


@dataclass(frozen=True)
class SurprisalSettings:
    """Settings of a measurement.

    Attributes:
        beta: sharpness of the spike: the mean gap near 0, the largest gap for a large one.
        penalty: lambda, what a nat of the spike costs.
        training: ``batch_size``, ``max_seq_length`` (``auto``: that of the adapter, else whole rows),
            ``segment_length``, ``train_on``, ``overlong``, ``rewritten`` and ``tool_format`` apply.
    """

    beta: float = BETA
    penalty: float = LAMBDA
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if not 0 < self.beta < float("inf"):
            raise UsageError(f"beta is {self.beta}, wanted a number above 0", "beta")
        if not 0 <= self.penalty < float("inf"):
            raise UsageError(f"penalty is {self.penalty}, wanted a number from 0 on", "penalty")


@dataclass(frozen=True)
class SurprisalResult:
    """Result of `surprisal`: rows read = rows written + rows dropped; of those written some are not measured.

    Attributes:
        out: the file.
        rows: number of records read.
        written: those written, each with the field ``surprisal``.
        measured: those of them with numbers; the others have null.
        dropped: records that are not written, by reason.
        unmeasured: written records without numbers, by reason.
        tokens: learned tokens of the measured rows.
        gap, spike, learnability: means over the measured rows; None without one.
    """

    out: Path
    rows: int
    written: int
    measured: int
    dropped: dict[str, int]
    unmeasured: dict[str, int]
    tokens: int
    gap: float | None
    spike: float | None
    learnability: float | None


def surprisal(
    logs: str | Path | Iterable[str | Path],
    model: str | Path,
    out: str | Path,
    settings: SurprisalSettings | None = None,
    *,
    adapter_path: str | Path | None = None,
    reading: Settings | None = None,
    resume: bool = False,
    force: bool = False,
    on_rows: Callable[[int, int], object] | None = None,
    on_remark: Callable[[str], object] | None = None,
) -> SurprisalResult:
    """Measure how far a model is from each row of a log, and write the log with it.

    Args:
        logs: as `karl_fast.inspect` takes them.
        model: the student: a folder, or a name on the Hugging Face hub.
        out: the file to write, JSON Lines.
        settings: of the measurement.
        adapter_path: adapter of the student; None for the model alone.
        reading: where the fields of a record are.
        resume: go on with a measurement that was not finished.
        force: replace an existing file.
        on_rows: called with the rows measured and their total, before the first chunk and after each.
        on_remark: called with a remark on the adapter, or on how rows were computed.

    Returns:
        What was read and written, and the means.

    Raises:
        UsageError: an empty path, or a setting out of range.
        OutputExistsError: the file exists, or one that is not finished, without `resume` or `force`.
        CheckpointError: what is to be resumed is of another log, model or settings.
        NothingToTrainError: no record was read.
        KarlError: as `karl_fast.inspect` and `karl_fast.train.evaluate`.
    """
    require_mlx_lm()
    from karl_fast.settings.sample import Settings

    settings = settings or SurprisalSettings()
    on_rows, on_remark = on_rows or (lambda done, rows: None), on_remark or (lambda remark: None)
    refuse_empty(model=model, out=out, adapter_path=adapter_path)
    place = Path(out)
    draft = _UnfinishedLog(place)
    refuse_link(place)
    check_around(place)
    if place.exists() and not force:
        raise OutputExistsError(f"{place} exists", hint="--force replaces it")
    with open_with_stamps(logs, reading or Settings(), None) as log:
        refuse_read(place, (file["path"] for file in log.inputs))
        if not len(log):
            raise NothingToTrainError("no record was read")
        if log.left_out:
            columns = ", ".join(sorted({column.column for _, column in log.left_out}))
            on_remark(f"columns of Parquet files that no record can hold are left out: {columns}")
        student = _Student(str(model), adapter_path, settings, on_remark)
        with draft.locked():
            first = draft.begin(_identity(log, student, adapter_path, settings), resume=resume, force=force)
            on_rows(first, len(log))
            while first < len(log):
                chunk = np.arange(first, min(first + CHUNK, len(log)), dtype=np.int64)
                draft.add(_measure_chunk(log, chunk, student))
                first = int(chunk[-1]) + 1
                on_rows(first, len(log))
            student.finish()
            damaged = Counter({reason: count for file in log.inputs for reason, count in file["dropped"]})
            return draft.finish(len(log) + damaged.total(), damaged)


def _identity(
    log: Log, student: _Student, adapter_path: str | Path | None, settings: SurprisalSettings
) -> dict[str, Any]:
    """Return the facts that a measurement must share with the one that it resumes.

    The first bytes of each input suffice: another log under the same name has another size or beginning.
    """
    digest = None
    if adapter_path is not None:
        weights = Path(adapter_path, ADAPTERS)
        with _atomic.name_file_errors(weights, "read"):
            digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    identity = {
        "rows": len(log),
        "inputs": sorted(log.core.hashes(False)),
        "reading": log.settings.to_dict(),
        "model": student.loaded.base,
        "adapter": digest,
        "beta": settings.beta,
        "penalty": settings.penalty,
        "training": settings.training.to_dict(),
    }
    return json.loads(json.dumps(identity, default=str))  # type: ignore[no-any-return]


def _measure_chunk(log: Log, rows: NDArray[np.int64], student: _Student) -> _Chunk:
    """Measure some rows."""
    records, dropped = _read_lines(log, rows, "raw")
    conversations, _ = _read_lines(log, rows, "chat")
    wanted = [row for row in sorted(conversations) if row in records]
    measures = dict(zip(wanted, student.measure([json.loads(conversations[row]) for row in wanted]), strict=True))
    chunk = _Chunk(len(rows), dropped=dropped)
    for row in sorted(records):
        measure = measures.get(row) or {"unmeasured": _why_unwritable(log, row)}
        if "learnability" in measure:
            reward = float(log.rewards[row])
            measure["reward"] = None if np.isnan(reward) else reward * measure["learnability"]
        chunk.lines.append(_with_field(records[row], measure))
        chunk.measures.append(measure)
    return chunk


def _why_unwritable(log: Log, row: int) -> str:
    """Return why a row has no conversation that could be written."""
    _, reasons = _read_lines(log, np.array([row]), "chat")
    return next(iter(reasons), "no_conversation")


def _read_lines(log: Log, rows: NDArray[np.int64], shape: Any) -> tuple[dict[int, str], Counter[str]]:
    """Return rows as a data set of this shape has them, by number, and why others are not there."""
    draft = draft_rows(log, rows, shape)
    return dict(zip(draft.line_rows(0), lines_of(draft), strict=True)), Counter(dict(draft.facts()["dropped"]))


def _with_field(line: str, measure: dict[str, Any]) -> str:
    """Return a record with its measures, in the place of those of an earlier measurement."""
    text = line.rstrip()
    record = RAW.decode(text) if f'"{FIELD}"' in text else {}
    if FIELD in record:
        return json.dumps(record | {FIELD: measure}, ensure_ascii=False)
    # A record keeps its own bytes: numbers of any length, escapes.
    comma = "" if text[:-1].rstrip() == "{" else ", "
    return f'{text[:-1]}{comma}"{FIELD}": {json.dumps(measure)}}}'


class _Student:
    """A model that rows are measured under."""

    def __init__(
        self,
        model: str,
        adapter_path: str | Path | None,
        settings: SurprisalSettings,
        on_remark: Callable[[str], object],
    ) -> None:
        self.settings, self.on_remark = settings, on_remark
        self.loaded: Loaded = load(model, None if adapter_path is None else str(adapter_path))
        training = settings.training
        length = None if adapter_path is None else trained_length(adapter_path)
        if training.max_seq_length == AUTO and length is not None:
            training = replace(training, max_seq_length=length)
        self.training = training
        if self.loaded.remark is not None:
            on_remark(self.loaded.remark)
        self.renderer = Renderer(
            self.loaded.tokenizer, self.loaded.ends, training.train_on, training.rewritten, training.tool_format
        )
        self.account = RowAccount()
        self._scorers: dict[bool, Any] = {}

    def measure(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the measures of some rows, or why there are none."""
        texts = render_rows(rows, self.renderer)
        training = self.training
        if training.max_seq_length == AUTO:
            training = replace(training, max_seq_length=max(2, longest_text({"": texts})))
        examples: list[Example] = []
        results: list[dict[str, Any]] = []
        for number, (row, rendering) in enumerate(zip(rows, texts, strict=True)):
            account = RowAccount()
            fitted = fit_row(number, row, rendering, training, account, "log")
            results.append({} if fitted else {"unmeasured": next(iter(account.dropped))})
            examples += fitted
        if examples:
            self._fill(results, examples, training)
        return results

    def _fill(self, results: list[dict[str, Any]], examples: list[Example], training: Training) -> None:
        """Add the measures of rows, whose examples are in their order."""
        columns = self._score(examples, training)
        gaps = np.concatenate([gap for gap, _ in columns]).astype(np.float64)
        logp = np.concatenate([values for _, values in columns]).astype(np.float64)
        if not (np.isfinite(gaps).all() and np.isfinite(logp).all()):
            raise ModelError("the model gives log-probabilities that are not finite: its weights are not usable")
        counts = np.zeros(len(results), dtype=np.int64)
        np.add.at(counts, [example.row for example in examples], [len(gap) for gap, _ in columns])
        offsets = np.concatenate([[0], np.cumsum(counts)])
        # A gap is a difference of float32 numbers: one of 0 may come out as a trifle below it.
        measures = _core.learnability(
            np.maximum(gaps, 0.0), offsets, beta=self.settings.beta, lambda_=self.settings.penalty
        )
        for row in np.flatnonzero(counts).tolist():
            names = zip(("gap", "spike", "learnability"), measures, strict=True)
            nats = -float(logp[offsets[row] : offsets[row + 1]].mean())
            results[row] |= {name: float(values[row]) for name, values in names}
            results[row] |= {"nats": nats, "tokens": int(counts[row])}

    def _score(self, examples: list[Example], training: Training) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Return gap and log-probability of each learned token of each example."""
        columns: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}
        order = sorted(range(len(examples)), key=lambda number: (len(examples[number]), number))
        scorer = self._scorer_for(max(map(len, examples)))
        for start in range(0, len(order), training.batch_size):
            rows = order[start : start + training.batch_size]
            batch = pad_rows([examples[row] for row in rows])
            values = scorer.quantities(batch, ("logp", "gap"))
            ends = np.cumsum(batch.mask.sum(1))[:-1]
            parts = [np.split(values[name], ends) for name in ("gap", "logp")]
            columns |= dict(zip(rows, zip(*parts, strict=True), strict=True))
        return [columns[number] for number in range(len(examples))]

    def _scorer_for(self, longest: int) -> Any:
        """Return the scorer of a chunk, which depends on this chunk alone: a resumed run has the same."""
        is_long = longest > SEGMENT
        if is_long not in self._scorers:
            self._scorers[is_long] = build_scorer(self.loaded.model, self.training, longest)
        return self._scorers[is_long]

    def finish(self) -> None:
        """Report how rows were computed."""
        for remark in {scorer.sharing.remark() for scorer in self._scorers.values()} - {None}:
            self.on_remark(remark)


@dataclass
class _Chunk:
    """Rows that were measured together: their lines in the result with their measures, and why others have none."""

    rows: int
    lines: list[str] = field(default_factory=list)
    measures: list[dict[str, Any]] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


class _UnfinishedLog:
    """The rows of a measurement that is not finished, in a file beside its place.

    Its first line is the identity of the measurement, each other line a `_Chunk`.
    """

    def __init__(self, place: Path) -> None:
        self.place, self.path = place, place.with_name(f"{place.name}.unfinished")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the measurement for one process.

        Raises:
            OutputExistsError: another process measures into this file.
        """
        lock = self.path.with_name(f".{self.path.name}.lock")
        with _atomic.name_file_errors(lock):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        with _atomic.lock_file(lock):
            yield

    def begin(self, identity: dict[str, Any], *, resume: bool, force: bool) -> int:
        """Begin or resume a measurement; return the number of rows that are measured."""
        if self.path.exists() and not (resume or force):
            raise OutputExistsError(
                f"{self.path} has a measurement that was not finished",
                hint="--resume goes on with it, --force begins anew",
            )
        rows, size = 0, 0
        with _atomic.name_file_errors(self.path):
            if resume and self.path.exists():
                rows, size = self._read(identity)
            if not size:  # a new measurement, or one that was killed before its first line was whole
                _atomic.write_file(
                    self.path, lambda file: file.write(json.dumps({"identity": identity}).encode() + b"\n")
                )
                return 0
            with self.path.open("r+b") as file:
                file.truncate(size)
        return rows

    def _read(self, identity: dict[str, Any]) -> tuple[int, int]:
        """Return the rows that whole lines have, and the bytes of these lines."""
        rows, size = 0, 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file):
                if not line.endswith(b"\n"):  # cut off by a kill
                    break
                if number:
                    rows += json.loads(line)["rows"]
                else:
                    self._check(line, identity)
                size += len(line)
        return rows, size

    def _check(self, head: bytes, identity: dict[str, Any]) -> None:
        try:
            before = json.loads(head)["identity"]
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self.path} is damaged", hint="--force begins anew") from error
        changed = [name for name in identity if before.get(name) != identity[name]]
        if changed:
            raise CheckpointError(
                f"{self.path} is of another measurement: other {', '.join(changed)}",
                hint="give what it began with, or --force to begin anew",
            )

    def add(self, chunk: _Chunk) -> None:
        """Append a chunk."""
        with _atomic.name_file_errors(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(vars(chunk)) + "\n")

    def finish(self, read: int, dropped: Counter[str]) -> SurprisalResult:
        """Write all rows to their place, and remove the unfinished file."""
        tally = _Tally(dropped)

        def fill(file: Any) -> None:
            for chunk in self._chunks():
                tally.dropped.update(chunk.dropped)
                for line, measure in zip(chunk.lines, chunk.measures, strict=True):
                    tally.add(measure)
                    file.write(line.encode() + b"\n")
            if (rows := tally.written + tally.dropped.total()) != read:
                raise CheckpointError(
                    f"{self.path} has {rows:,} rows, and {read:,} were read", hint="--force begins anew"
                )

        _atomic.write_file(self.place, fill)
        with _atomic.name_file_errors(self.path):
            self.path.unlink()
        return tally.result(self.place, read)

    def _chunks(self) -> Iterator[_Chunk]:
        with self.path.open(encoding="utf-8") as file:
            next(file)
            yield from (_Chunk(**json.loads(line)) for line in file)


@dataclass
class _Tally:
    """Sums over the rows that are written."""

    dropped: Counter[str]
    written: int = 0
    tokens: int = 0
    measures: list[tuple[float, float, float]] = field(default_factory=list)
    unmeasured: Counter[str] = field(default_factory=Counter)

    def add(self, measure: dict[str, Any]) -> None:
        """Add a row."""
        self.written += 1
        if "unmeasured" in measure:
            self.unmeasured[measure["unmeasured"]] += 1
            return
        self.tokens += measure["tokens"]
        self.measures.append((measure["gap"], measure["spike"], measure["learnability"]))

    def result(self, out: Path, read: int) -> SurprisalResult:
        """Return the result, with the means."""
        means = np.mean(self.measures, axis=0).tolist() if self.measures else [None] * 3
        counts = (dict(self.dropped), dict(self.unmeasured), self.tokens)
        return SurprisalResult(out, read, self.written, len(self.measures), *counts, *means)
