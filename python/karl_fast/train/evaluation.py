"""Held-out loss of a model, alone or against another, and the validation loss during training.

`evaluate` compares two adapters on the same rows: the difference has a confidence interval by Student's t over
independent clusters of rows (`mean_difference`). The validation loss draws no random numbers, so it does not change the
training.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast._suggest import ask_whether, nearest
from karl_fast.errors import ModelError, NothingToTrainError, UsageError
from karl_fast.export.training_rows import empty_split, open_source
from karl_fast.log.record_fields import paths
from karl_fast.modeling.checkpoint import CONFIG
from karl_fast.modeling.load import load, require_adapter, require_mlx_lm
from karl_fast.settings.toml_text import TRAIN_FILE
from karl_fast.settings.validation import refuse_empty
from karl_fast.train.batching import shuffle_numbers
from karl_fast.train.chat_template import Renderer
from karl_fast.train.config import load as load_settings
from karl_fast.train.dataset import longest_text
from karl_fast.train.examples import Example, prepare_examples, render_rows
from karl_fast.train.model_logprobs import Scorer
from karl_fast.train.settings import AUTO, Training

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    OnTokens = Callable[[int, int], object]

SEGMENT = 2048
"""Tokens that pass at a time where rows are longer."""

BASE = "base"
"""The model without an adapter, as something to compare with."""


@dataclass(frozen=True)
class Loss:
    """The mean negative log-likelihood a token, in nats.

    Attributes:
        rows: number of rows.
        tokens: of them that are learned.
        loss: of the evaluated adapter.
        against: of the one it is compared with; None without one.
    """

    rows: int
    tokens: int
    loss: float
    against: float | None = None


@dataclass(frozen=True)
class LossEvaluation:
    """Result of `evaluate`.

    Attributes:
        whole: loss of all rows.
        by: loss of the rows of each domain, by name; empty by default.
        difference: loss of the adapter less that of the other, with an interval; None without another.
        account: account of the rows.
        remarks: on how the losses were computed.
    """

    whole: Loss
    by: dict[str, Loss]
    difference: Difference | None
    account: dict[str, Any]
    remarks: list[str] = field(default_factory=list)


def evaluate(
    data: str | Path,
    model: str | Path,
    adapter_path: str | Path | None = None,
    *,
    against: str | Path | None = None,
    split: str = "test",
    by: str | None = None,
    settings: Training | None = None,
    on_tokens: OnTokens | None = None,
) -> LossEvaluation:
    """Compute the held-out loss of a model, and its difference from that of another adapter on the same rows.

    ```text
    loss = sum_i nats_i / sum_i tokens_i      difference = loss(adapter) - loss(against)
    ```

    Args:
        data: a folder with the split's file.
        model: a folder, or a name on the Hugging Face hub.
        adapter_path: the adapter to evaluate; None for the model alone.
        against: another adapter, or ``base`` for the model alone.
        split: train, valid or test.
        by: the dotted path of a field that splits the rows, with a loss for each value, such as ``karl_fast.domain``.
        settings: ``max_seq_length`` (``auto``: that of the adapter's own settings, else whole rows),
            ``segment_length``, ``batch_size``, ``train_on``, ``overlong``, ``rewritten`` and
            ``tool_format`` apply.
        on_tokens: called with the tokens evaluated and their total, before the first batch and after each.

    Returns:
        The losses; a difference below 0 is in favour of the adapter.

    Raises:
        UsageError: a field ``by`` that no row has, or an empty path.
        NothingToTrainError: the split has no rows, or none with something to learn.
        ModelError: the model or an adapter is missing, or its weights are not finite.
        FileError, DataSetError: the data set cannot be read.
    """
    require_mlx_lm()
    settings = settings or Training()
    refuse_empty(data=data, model=model, adapter_path=adapter_path, against=against)
    source = open_source(data)
    rows = source.rows(split)
    file = source.folder / f"{split}.jsonl"
    if not rows:
        raise empty_split(source, split)
    if by is not None and all(_field_value(row, by) is None for row in rows):
        raise _unknown_field_error(by, rows, file)
    if against is not None and str(against) != BASE:
        require_adapter(str(against), BASE)
    adapters = [adapter_path] + ([] if against is None else [None if str(against) == BASE else against])
    settings, length_of = _with_trained_length(settings, adapters)
    report = _Report(on_tokens, len(adapters))
    losses = _score_rows(rows, str(model), adapter_path, settings, str(file), report)
    examples, nats, counts = losses.examples, losses.nats, losses.counts
    remarks, other = [*_cut_remark(losses, settings, length_of), *losses.remarks], None
    if against is not None:
        other_losses = _score_rows(rows, str(model), adapters[1], settings, str(file), report)
        remarks, other = list(dict.fromkeys(remarks + other_losses.remarks)), other_losses.nats
    names = np.array(["" if by is None else _field_text(rows[example.row], by) for example in examples])
    domains = [] if by is None else np.unique(names).tolist()
    return LossEvaluation(
        _mean_loss_of(examples, nats, counts, other, np.ones(len(examples), dtype=np.bool_)),
        {name: _mean_loss_of(examples, nats, counts, other, names == name) for name in domains},
        None if other is None else mean_difference(nats - other, counts, _clusters(examples)),
        losses.account,
        remarks,
    )


def paired_nats(
    data: str | Path,
    model: str,
    adapter_path: str | Path,
    against: str | Path | None,
    *,
    split: str = "test",
    settings: Training | None = None,
    on_tokens: OnTokens | None = None,
    on_remark: Callable[[str], object] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the nats that an adapter gains over another on each independent group of held-out rows.

    Args:
        data, model, split, settings, on_tokens: as for `evaluate`.
        adapter_path: the adapter.
        against: the other one; None for the model alone.
        on_remark: called with a remark on an adapter that was trained on another base than the model.

    Returns:
        The nats gained by each group, and its learned tokens. [C] each

    Raises:
        KarlError: as `evaluate`.
    """
    settings, source = settings or Training(), open_source(data)
    rows, file = source.rows(split), str(source.folder / f"{split}.jsonl")
    if not rows:
        raise NothingToTrainError(f"{file} has no rows to judge by")
    adapters = (adapter_path, against)
    settings, _ = _with_trained_length(settings, adapters)
    report = _Report(on_tokens, len(adapters))
    losses, other = (_score_rows(rows, model, path, settings, file, report) for path in adapters)
    for base_remark in dict.fromkeys((losses.base_remark, other.base_remark)):
        if base_remark is not None and on_remark is not None:
            on_remark(base_remark)
    _, numbers = np.unique(np.array(_clusters(losses.examples)), return_inverse=True)
    columns = (other.nats - losses.nats, losses.counts)
    sums = (np.bincount(numbers, weights=column).astype(np.float64) for column in columns)
    return tuple(sums)  # type: ignore[return-value]


def trained_length(adapter: str | Path) -> int | None:
    """Return the maximum tokens of a row in an adapter's own settings; None if they say nothing."""
    if Path(adapter, TRAIN_FILE).is_file():
        value: Any = load_settings(adapter).settings.get("max_seq_length")
    else:
        try:
            value = json.loads(Path(adapter, CONFIG).read_text("utf-8")).get("max_seq_length")
        except (OSError, ValueError, AttributeError):
            return None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 2 else None


def _with_trained_length(settings: Training, paths: Sequence[str | Path | None]) -> tuple[Training, str | Path | None]:
    """Return the settings with the length that the first adapter which names one was trained with, and that adapter."""
    if settings.max_seq_length == AUTO:
        for path in paths:
            if path is not None and (length := trained_length(path)) is not None:
                return replace(settings, max_seq_length=length), path
    return settings, None


def _cut_remark(losses: _ExampleLosses, settings: Training, adapter: str | Path | None) -> list[str]:
    """Return a remark on rows that are longer than the length of an adapter."""
    cut = losses.account["cut"] + losses.account["dropped"].get("overlong", 0)
    if adapter is None or not cut:
        return []
    longer = "1 row is longer" if cut == 1 else f"{cut:,} rows are longer"
    limit = f"{settings.max_seq_length:,} tokens, the length that {adapter} was trained with"
    return [f"{longer} than {limit}: of each the last ones are judged; --max-seq-length sets another length"]


class _Report:
    """Counter of the tokens evaluated with one adapter or several."""

    def __init__(self, on_tokens: OnTokens | None, sides: int) -> None:
        self.on_tokens, self.sides, self.done, self.all = on_tokens, sides, 0, 0

    def begin(self, tokens: int) -> None:
        """Report the total of tokens, before the first is evaluated."""
        if not self.all:
            self.all = tokens * self.sides
            self.add(0)

    def add(self, tokens: int) -> None:
        """Report more tokens evaluated."""
        self.done += tokens
        if self.on_tokens is not None:
            self.on_tokens(self.done, self.all)


@dataclass(frozen=True)
class _ExampleLosses:
    """Examples with their losses in nats and counts of learned tokens, the account of the rows, and remarks."""

    examples: list[Example]
    nats: NDArray[np.float64]
    counts: NDArray[np.int64]
    account: dict[str, Any]
    remarks: list[str]
    base_remark: str | None


def _score_rows(
    rows: list[dict[str, Any]],
    model: str,
    adapter_path: str | Path | None,
    settings: Training,
    place: str,
    report: _Report,
) -> _ExampleLosses:
    loaded = load(model, None if adapter_path is None else str(adapter_path))
    renderer = Renderer(loaded.tokenizer, loaded.ends, settings.train_on, settings.rewritten, settings.tool_format)
    texts = render_rows(rows, renderer)
    if settings.max_seq_length == AUTO:
        settings = replace(settings, max_seq_length=max(2, longest_text({place: texts})))
    examples, account = prepare_examples(rows, texts, settings, place)
    batches = validation_batches(examples, settings.batch_size, -1, settings.seed)
    report.begin(sum(map(len, examples)))
    scorer = build_scorer(loaded.model, settings, max(map(len, examples)))
    nats, counts = scorer.losses(examples, batches, report.add)
    remark = scorer.sharing.remark()
    noted = [remark for remark in (loaded.remark, remark) if remark is not None]
    remarks = [*account.remarks(Path(place).stem), *noted]
    return _ExampleLosses(examples, nats, counts, asdict(account), remarks, loaded.remark)


def build_scorer(model: Any, settings: Training, longest: int) -> Scorer:
    """Return the scorer of a model: in segments of `SEGMENT` tokens if no length is set and the model allows it."""
    model.freeze()  # a frozen model is tried for segments without a gradient
    length = settings.segment_tokens
    if length is None and longest <= SEGMENT:
        return Scorer(model)
    scorer = Scorer(model, length or SEGMENT)
    try:
        _ = scorer.carrier
    except ModelError:
        if length is not None:
            raise
        return Scorer(model)
    return scorer


def _mean_loss_of(
    examples: list[Example],
    nats: NDArray[np.float64],
    counts: NDArray[np.int64],
    other: NDArray[np.float64] | None,
    which: NDArray[np.bool_],
) -> Loss:
    tokens = int(counts[which].sum())
    rows = len({example.row for example, included in zip(examples, which, strict=True) if included})
    mean = float(nats[which].sum() / tokens)
    return Loss(rows, tokens, mean, None if other is None else float(other[which].sum() / tokens))


def _field_value(row: dict[str, Any], path: str) -> Any:
    value: Any = row
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _unknown_field_error(by: str, rows: list[dict[str, Any]], file: Path) -> UsageError:
    error = UsageError(f"by is {by}, a field that no row of {file} has", "by")
    fields = sorted({path for row in rows for path in paths(row)})
    last = [path for path in fields if path.rpartition(".")[2] == by]
    error.hint = ask_whether(nearest(by, fields) or last)
    return error


def _field_text(row: dict[str, Any], path: str) -> str:
    value = _field_value(row, path)
    return "none" if value is None else str(value)


def _clusters(examples: list[Example]) -> list[str]:
    """Return the independent cluster of each example: its group, or its row if it has none."""
    return [f"row {example.row}" if example.group is None else f"group {example.group}" for example in examples]


def validation_batches(
    examples: list[Example], rows: int, count: int, seed: int, units: list[list[int]] | None = None
) -> list[list[int]]:
    """Return the validation batches: so many (-1 for all), of rows chosen by the seed, with similar lengths in each.

    Args:
        examples: of the split.
        rows: rows a batch, or units.
        count: of batches.
        seed: of the run.
        units: examples that stay together; None for each by itself.
    """
    units = [[row] for row in range(len(examples))] if units is None else units
    numbers = shuffle_numbers(len(units), seed, 0)[: None if count == -1 else count * rows].tolist()
    ordered = sorted(numbers, key=lambda unit: (max(len(examples[row]) for row in units[unit]), unit))
    chosen = [ordered[start : start + rows] for start in range(0, len(ordered), rows)]
    return [[row for unit in batch for row in units[unit]] for batch in chosen]


def mean_loss(scorer: Scorer, examples: list[Example], batches: list[list[int]]) -> float:
    """Compute the negative log-likelihood a learned token, in nats."""
    nats, counts = scorer.losses(examples, batches)
    return float(nats.sum() / max(1, counts.sum()))


STUDENT = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139)
"""The 97.5 % quantile of Student's t for 1 to 10 degrees of freedom."""


@dataclass(frozen=True)
class Difference:
    """A mean difference a token, in nats.

    Attributes:
        value: the difference over all rows.
        low, high: its 95% interval by Student's t over clusters; None where there is but one cluster.
        clusters: groups of rows that vary together.
    """

    value: float
    low: float | None
    high: float | None
    clusters: int


def mean_difference(nats: NDArray[np.float64], counts: NDArray[np.int64], clusters: list[str]) -> Difference:
    """Compute the difference a token, and its 95% interval.

    ```text
    value = sum_c d_c / sum_c n_c
    half  = t(C - 1) sqrt(C / (C - 1) sum_c (d_c - value n_c)^2) / sum_c n_c
    ```

    C clusters have differences d_c and tokens n_c; t is the 97.5% quantile of Student's t. Rows are paired, so what
    makes a row hard for both falls out; rows of one group share a prompt and make one cluster, so that they do not
    count as independent. Of two or three clusters the interval is wide, as it has to be.

    Args:
        nats: the difference of each row, summed over its tokens. [B]
        counts: tokens of each row. [B]
        clusters: the name of each row's cluster. [B]

    Returns:
        The difference with its interval.

    Reference: Cochran 1977, Sampling Techniques, sections 6.4 and 9A.2 (the variance of a ratio over clusters).
    """
    _, numbers = np.unique(np.array(clusters), return_inverse=True)
    sums: NDArray[np.float64] = np.bincount(numbers, weights=nats).astype(np.float64)
    sizes: NDArray[np.float64] = np.bincount(numbers, weights=counts).astype(np.float64)
    count, value = len(sums), float(sums.sum() / sizes.sum())
    if count < 2:
        return Difference(value, None, None, count)
    spread = float(np.square(sums - value * sizes).sum()) * count / (count - 1)
    half = student(count - 1) * spread**0.5 / float(sizes.sum())
    return Difference(value, value - half, value + half, count)


def student(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t: a table to 10 degrees of freedom, then the Cornish-Fisher expansion.

    Reference: Abramowitz & Stegun 1964, table 26.10 and formula 26.7.5.
    """
    if freedom <= len(STUDENT):
        return STUDENT[freedom - 1]
    z = 1.959964
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    return z + (z**3 + z) / (4 * freedom) + second + third
