"""Preparation of a run: everything is loaded, checked and reported before the first step."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import mlx.core as mx

from karl_fast import _atomic, _seen_hashes
from karl_fast.errors import CheckpointError, OutputExistsError
from karl_fast.export.training_rows import open_source
from karl_fast.modeling import optimizer as optimizers
from karl_fast.modeling.adapters import load_start_weights, other_base_remark, unadapted_experts, unrecorded_remark
from karl_fast.modeling.checkpoint import (
    ADAPTERS,
    CONFIG,
    FOLDER,
    METRICS_FILE,
    ROWS,
    Checkpoints,
    Tracker,
    TrainingState,
    open_trackers,
)
from karl_fast.modeling.load import Loaded, adapt, load, position_limit
from karl_fast.modeling.memory import SHORTEST, Need, TrainingMemory, choose_segments, estimate_training, limit_bytes
from karl_fast.settings.toml_text import TRAIN_FILE, relative_path
from karl_fast.train import dataset
from karl_fast.train.batching import row_units
from karl_fast.train.evaluation import mean_loss, validation_batches
from karl_fast.train.memory import LengthBudget, check_batch, largest_batch, settle_length
from karl_fast.train.model_logprobs import Scorer
from karl_fast.train.recipe import OfflineObjective, check_source
from karl_fast.train.settings import AUTO, LENGTHS, PREFERENCES
from karl_fast.train.step import Learner

if TYPE_CHECKING:
    from collections.abc import Collection

    from karl_fast.train.batching import BatchOrder
    from karl_fast.train.dataset import Corpus
    from karl_fast.train.examples import Example, RowAccount
    from karl_fast.train.settings import Training


class Viewer(Protocol):
    """Receiver of the progress of a run."""

    def on_start(self, run: OfflineRun) -> None:
        """Report that everything is loaded, before the first step."""
        ...

    def on_metrics(self, values: dict[str, Any]) -> None:
        """Report a step or a validation, as in metrics.jsonl."""
        ...

    def on_checkpoint(self, place: Path) -> None:
        """Report a checkpoint on the disk."""
        ...

    def on_message(self, remark: str) -> None:
        """Report a remark on how steps are computed."""
        ...


@dataclass
class OfflineRun:
    """A run between two steps."""

    settings: Training
    learner: Learner
    optimizer: Any
    order: BatchOrder
    batches: int
    state: TrainingState
    checkpoints: Checkpoints
    trackers: list[Tracker]
    held_out: list[Example]
    accounts: dict[str, RowAccount]
    need: Need
    limit_bytes: int
    budget: LengthBudget | None = None
    remarks: list[str] = field(default_factory=list)
    lock: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    whole_step: int = 0
    judge: Learner | None = None

    @property
    def steps(self) -> int:
        """Number of steps of the run; the last may have fewer batches."""
        return -(-self.batches // self.settings.grad_accumulation_steps)

    def held_out_loss(self) -> float | None:
        """Compute the held-out loss; None without a held-out row."""
        if not self.held_out:
            return None
        settings, units = self.settings, None
        if self.judge is not None and self.judge.objective.grouped:
            units = row_units(self.judge.objective.groups, len(self.held_out))
        batches = validation_batches(self.held_out, settings.batch_size, settings.val_batches, settings.seed, units)
        if self.judge is not None:
            return self.judge.loss(batches)
        return mean_loss(self.learner.scorer, self.held_out, batches)

    @property
    def held_out_statistics(self) -> dict[str, float | None]:
        """Statistics of the last held-out loss, by the names of metrics."""
        statistics = {} if self.judge is None else self.judge.statistics
        return {f"val_{name}": value for name, value in statistics.items()}

    @property
    def stopped(self) -> bool:
        """True if patience ran out, which ends the run."""
        return self.settings.patience is not None and self.state.stale >= self.settings.patience


def prepare(
    data: str | Path,
    model: str,
    adapter_path: Path,
    settings: Training,
    *,
    resume: bool = False,
    resume_adapter_file: str | None = None,
    force: bool = False,
) -> OfflineRun:
    """Load and check all that a run needs.

    Raises:
        KarlError: whatever of it is not there or does not fit; nothing is written or removed before all is known to.
    """
    source = open_source(data, lone=settings.recipe in PREFERENCES)
    check_source(settings.recipe, source)
    checkpoints = Checkpoints(adapter_path, {"model": model}, settings.keep)
    _check_folder(checkpoints, resume=resume, force=force)
    rows = dataset.read_rows(source)
    answers = dataset.read_preferences(source, rows, settings)
    rows = rows if answers is None else {split: part.rows for split, part in answers.items()}
    loaded = load(model)
    started = adapter_path if resume else resume_adapter_file and Path(resume_adapter_file).parent
    base_remark = other_base_remark(Path(started), loaded.base) if started else None
    checkpoints.config |= _adapt(loaded, settings, resume_adapter_file)
    texts = dataset.render_texts(rows, loaded, settings)
    settings = _stored_lengths(settings, checkpoints) if resume else settings
    memory, budget = settle_length(_plan_memory(loaded, settings, checkpoints.config), dataset.longest_text(texts))
    corpus = dataset.build_corpus(source, rows, answers, texts, memory.settings)
    run = _build_run(loaded, corpus, memory, checkpoints)
    run.budget = budget
    run.remarks = [*([] if base_remark is None else [base_remark]), *_remarks(loaded, run, resume_adapter_file)]
    if resume_adapter_file is not None:
        run.state.began = relative_path(adapter_path, resume_adapter_file)
    with _atomic.name_file_errors(adapter_path):
        adapter_path.mkdir(parents=True, exist_ok=True)
    hashes = _seen_hashes_of(source.folder, rows, resume_adapter_file)
    with contextlib.ExitStack() as undo:
        undo.enter_context(run.lock)
        run.lock.enter_context(_atomic.lock_folder(adapter_path))
        _check_folder(checkpoints, resume=resume, force=force)  # another run may have ended there since
        _place_run(run, resume)
        _seen_hashes.write_seen(adapter_path, hashes)
        undo.pop_all()
    return run


def _stored_lengths(settings: Training, checkpoints: Checkpoints) -> Training:
    """Return the settings of a resumed run, with the lengths of its checkpoint in place of ``auto``."""
    stored = checkpoints.settings()
    lengths = {name: stored[name] for name in LENGTHS if getattr(settings, name) == AUTO and name in stored}
    return replace(settings, **lengths)


def _seen_hashes_of(data: Path, rows: dict[str, list[dict[str, Any]]], weights: str | None) -> _seen_hashes.Seen:
    """Return the hashes of the rows that a run learns from or chooses on, and those kept with its data and weights."""
    folders = [data, *([] if weights is None else [Path(weights).parent])]
    hashes = _seen_hashes.hash_rows(row for split_rows in rows.values() for row in split_rows)
    for folder in folders:
        hashes |= _seen_hashes.read_seen(folder) or _seen_hashes.Seen()
    return hashes


def _build_run(loaded: Loaded, learned: Corpus, memory: TrainingMemory, checkpoints: Checkpoints) -> OfflineRun:
    """Return a run at its first step, if there is enough memory."""
    order = learned.order(memory.settings)
    sizes = dataset.batch_sizes(order)
    limit = limit_bytes(memory.settings)
    whole = max(SHORTEST, memory.settings.limit_tokens)
    memory = choose_segments(memory, sizes, whole, lambda plan: plan.need(*largest_batch(plan, sizes)).total <= limit)
    settings = memory.settings
    batches = settings.iters if settings.epochs is None else round(settings.epochs * len(order.batches(0)))
    homes = order.batches(0) if learned.objective.anchored else []
    judge = None
    if learned.objective.preferences and learned.held_out:
        objective = OfflineObjective(settings, learned.held_out)
        judge = Learner(loaded.model, learned.held_out, objective, settings.segment_tokens)
    return OfflineRun(
        settings=settings,
        learner=Learner(loaded.model, learned.examples, learned.objective, settings.segment_tokens, homes),
        judge=judge,
        optimizer=optimizers.build_optimizer(settings),
        order=order,
        batches=max(1, batches),
        state=TrainingState(settings=_identity(settings, checkpoints.config["model"], learned.examples)),
        checkpoints=checkpoints,
        trackers=[],
        held_out=learned.held_out,
        accounts=learned.accounts,
        need=check_batch(memory, *largest_batch(memory, sizes)),
        limit_bytes=limit,
    )


def _place_run(run: OfflineRun, resume: bool) -> None:
    """Restore a run to its first step, or from its last checkpoint."""
    model, path = run.learner.model, run.checkpoints.path
    run.optimizer.init(model.trainable_parameters())
    upto = -1  # without a checkpoint, no line of metrics is kept
    if resume and run.checkpoints.folders():
        run.state = run.checkpoints.resume(model, run.optimizer, run.state.settings, run.state.began)
        upto = run.state.step
    run.order.epoch, run.order.batch = run.state.epoch, run.state.batch
    run.trackers = open_trackers(run.settings, path, upto)
    if upto < 0:
        run.checkpoints.clear()


def _check_folder(checkpoints: Checkpoints, *, resume: bool, force: bool) -> None:
    """Raise if the folder has a run that may be neither resumed nor replaced."""
    path = checkpoints.path
    _atomic.refuse_file(path)
    has_adapter, saved = (path / ADAPTERS).exists(), checkpoints.folders()
    if resume and has_adapter and not saved:
        raise CheckpointError(
            f"{path} has an adapter and no checkpoint in {path / FOLDER}",
            hint="--force without --resume trains anew in its place",
        )
    if resume or force:
        return
    if has_adapter or saved:
        raise OutputExistsError(
            f"{path} has an adapter already",
            hint="--resume goes on from its last checkpoint, --force trains anew in its place",
        )
    _atomic.refuse_other(path, _own_names(path))


def _own_names(path: Path) -> Collection[str]:
    """Return the names that a run killed early leaves: files only beside its settings, and no complete checkpoint."""
    folder = path / FOLDER
    other = folder.is_dir() and any(not entry.name.startswith(_atomic.UNFINISHED) for entry in folder.iterdir())
    lone = () if (path / TRAIN_FILE).is_file() else (path / CONFIG, path / METRICS_FILE)
    alien = {file.name for file in lone if file.is_file() and file.stat().st_size > 0}
    return {TRAIN_FILE, CONFIG, METRICS_FILE, FOLDER, _seen_hashes.FILE} - alien - ({FOLDER} if other else set())


def _adapt(loaded: Loaded, settings: Training, weights: str | None) -> dict[str, Any]:
    mx.random.seed(settings.seed)
    config = adapt(loaded.model, settings)
    if weights is not None:
        load_start_weights(loaded.model, Path(weights), config)
    loaded.model.train()
    mx.eval(loaded.model.parameters())
    return config | {"base": loaded.base}


def _remarks(loaded: Loaded, run: OfflineRun, weights: str | None) -> list[str]:
    """Return remarks on the initial weights of the run, and on lengths."""
    chosen_keys = run.settings.lora_keys is not None  # then it is known which layers are left out
    experts = None if chosen_keys else unadapted_experts(loaded.model, run.checkpoints.config)
    remarks = [
        experts,
        _length_remark(loaded, run),
        None if weights is None else unrecorded_remark(Path(weights), run.checkpoints.config),
    ]
    return [remark for remark in remarks if remark is not None]


def _length_remark(loaded: Loaded, run: OfflineRun) -> str | None:
    """Return a remark if rows, or the allowed length, are longer than the model's positions."""
    positions = position_limit(loaded.model, loaded.config)
    longest = max([*run.order.lengths, *map(len, run.held_out)])
    limit = run.settings.limit_tokens
    chosen = limit if run.budget is not None else 0  # a length that the run chose itself needs no remark
    return None if positions is None else positions.remark("max_seq_length", limit, chosen, longest)


def _plan_memory(loaded: Loaded, settings: Training, config: dict[str, Any]) -> TrainingMemory:
    scorer = Scorer(loaded.model)
    return estimate_training(
        loaded.model, scorer.body, scorer.vocabulary, settings, config["num_layers"], lambda: scorer.carrier
    )


def _identity(settings: Training, model: str, examples: list[Example]) -> dict[str, Any]:
    """Return the facts that identify a run: settings, model and examples."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(
            example.text.tokens.tobytes()
            + example.text.learned.tobytes()
            + repr((example.reward, example.log_weight, example.group)).encode()
            + (b"" if example.preferred is None else b"1" if example.preferred else b"0")
        )
    identity = settings.to_dict()
    if settings.lr_schedule == "constant":  # then a run with more steps continues one with fewer
        identity = {name: value for name, value in identity.items() if name not in ("iters", "epochs")}
    return json.loads(json.dumps(identity | {"model": model, ROWS: digest.hexdigest()}))  # type: ignore[no-any-return]
