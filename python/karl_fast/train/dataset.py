"""Training and validation rows of a data set, as tokens of its model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karl_fast.errors import DataSetError, NothingToTrainError, UsageError
from karl_fast.train.batching import BatchOrder, row_units
from karl_fast.train.chat_template import Renderer
from karl_fast.train.examples import Example, RowAccount, group_numbers, prepare_examples, render_rows
from karl_fast.train.memory import answers_per_row
from karl_fast.train.preferences import AnswerSet, prepare_answers, read_answers
from karl_fast.train.recipe import OfflineObjective
from karl_fast.train.settings import PAIRED, PREFERENCES

if TYPE_CHECKING:
    from karl_fast.export.training_rows import Source
    from karl_fast.modeling.load import Loaded
    from karl_fast.train.chat_template import Rendering
    from karl_fast.train.settings import Training

    Rows = dict[str, list[dict[str, Any]]]
    Texts = dict[str, list[Rendering]]
    Answers = dict[str, AnswerSet]


@dataclass(frozen=True)
class Corpus:
    """The examples of a run.

    Attributes:
        examples: to learn from.
        held_out: of the validation split.
        objective: over the examples.
        accounts: account of the rows of each split.
    """

    examples: list[Example]
    held_out: list[Example]
    objective: OfflineObjective
    accounts: dict[str, RowAccount]

    def order(self, settings: Training) -> BatchOrder:
        """Return the order of the examples."""
        groups = group_numbers(self.examples) if self.objective.grouped else None
        units = row_units(groups, len(self.examples))
        texts = [example.text.tokens.tobytes() for example in self.examples]
        distinct = len({tuple(texts[row] for row in unit) for unit in units})
        rows = settings.batch_size * answers_per_row(settings)
        return BatchOrder(list(map(len, self.examples)), units, rows, settings.seed, distinct)


def read_rows(source: Source) -> Rows:
    """Read the training and validation rows by split, before a model is loaded.

    Raises:
        NothingToTrainError: the training split is empty.
    """
    rows = {split: source.rows(split) for split in ("train", "valid")}
    if not rows["train"]:
        raise NothingToTrainError(f"{source.place('train')} has no rows")
    return rows


def read_preferences(source: Source, rows: Rows, settings: Training) -> Answers | None:
    """Read the answers of each split; None for a recipe without preferences.

    Raises:
        DataSetError: a row is neither a pair nor an answer with a label; or it has a label, which the recipe would
            not read, so that unwanted answers would be learned.
    """
    if settings.recipe not in PREFERENCES:
        _refuse_labels(source, rows)
        return None
    return {split: read_answers(split_rows, source.place(split), settings) for split, split_rows in rows.items()}


def _refuse_labels(source: Source, rows: Rows) -> None:
    """Raise where rows are answers with a label.

    Raises:
        DataSetError: they are; the message names the first.
    """
    for split, split_rows in rows.items():
        for number, row in enumerate(split_rows, 1):
            if {"prompt", "completion"} <= row.keys() and isinstance(row.get("label"), bool):
                raise DataSetError(
                    f"{source.place(split)}, row {number:,} is an answer with a label, and unwanted answers "
                    "would be learned too",
                    hint="--recipe kto learns from labels",
                )


def render_texts(rows: Rows, loaded: Loaded, settings: Training) -> Texts:
    """Render the rows of each split for a model, at full length.

    Raises:
        TemplateError: as `rendered`.
    """
    renderer = Renderer(loaded.tokenizer, loaded.ends, settings.train_on, settings.rewritten, settings.tool_format)
    return {split: render_rows(split_rows, renderer) for split, split_rows in rows.items()}


def longest_text(texts: Texts) -> int:
    """Return the tokens of the longest text; 1 if there is none."""
    return max(
        (len(text.tokens) for renderings in texts.values() for row in renderings for text in row.texts), default=1
    )


def build_corpus(source: Source, rows: Rows, answers: Answers | None, texts: Texts, settings: Training) -> Corpus:
    """Fit the texts of a data set into the limit, and keep those that the recipe can learn from.

    Args:
        source: the data set, for errors to name.
        rows: by split.
        answers: of the rows by split, where the recipe has preferences.
        texts: what rows, or answers, were rendered to.
        settings: what is learned of a row, and how much of it.

    Raises:
        NothingToTrainError: as `prepared`.
        UsageError: a recipe that compares whole rows, where some are in parts.
    """
    prepared = {}
    for split, split_rows in rows.items():
        place = str(source.place(split))
        if answers is None:
            prepared[split] = prepare_examples(split_rows, texts[split], settings, place)
        else:
            paired = settings.recipe in PAIRED
            prepared[split] = prepare_answers(answers[split], texts[split], settings, place, paired)
    accounts = {split: account for split, (_, account) in prepared.items()}
    examples, objective = _learnable(settings, *prepared["train"])
    return Corpus(examples, prepared["valid"][0], objective, accounts)


def _learnable(
    settings: Training, examples: list[Example], account: RowAccount
) -> tuple[list[Example], OfflineObjective]:
    """Return the examples with what the recipe needs, and count the others."""
    objective = OfflineObjective(settings, examples)
    if objective.grouped and (account.cut or account.windows or account.unrolled):
        raise UsageError(
            f"the recipe {settings.recipe} compares whole rows, and some are cut or in parts",
            hint="--overlong drop leaves long rows out, --train-on last learns from one turn a row",
        )
    if objective.kept.all():
        return examples, objective
    counted = [example for example, kept in zip(examples, objective.kept, strict=True) if kept]
    for _ in {example.row for example in examples} - {example.row for example in counted}:
        account.drop("missing_reward")
    return counted, OfflineObjective(settings, counted)


def batch_sizes(order: BatchOrder) -> list[tuple[int, int]]:
    """Return rows and tokens a row, padding included, of each batch in the first epoch; rows in memory at a time."""
    return [(min(len(rows), order.rows), max(order.lengths[row] for row in rows)) for rows in order.batches(0)]
