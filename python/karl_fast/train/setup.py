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
from karl_fast.modeling.adapters import begin, unadapted_experts, unrecorded
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
from karl_fast.settings.toml_text import TRAIN_FILE, relative_path
from karl_fast.train import dataset
from karl_fast.train.evaluation import mean_loss, validation_batches
from karl_fast.train.length_budget import SHORTEST, LengthBudget, in_segments, settled
from karl_fast.train.memory import Need, TrainingMemory, limit_bytes, of_model
from karl_fast.train.model_logprobs import Scorer
from karl_fast.train.recipe import check_source
from karl_fast.train.settings import AUTO, LENGTHS
from karl_fast.train.step import Learner

if TYPE_CHECKING:
    from collections.abc import Collection

    from karl_fast.train.batching import BatchOrder
    from karl_fast.train.dataset import Corpus
    from karl_fast.train.examples import Example, RowAccount
    from karl_fast.train.settings import Training


class Viewer(Protocol):
    """Receiver of the progress of a run."""

    def started(self, run: OfflineRun) -> None:
        """Report that everything is loaded, before the first step."""
        ...

    def said(self, values: dict[str, Any]) -> None:
        """Report a step or a validation, as in metrics.jsonl."""
        ...

    def saved(self, place: Path) -> None:
        """Report a checkpoint on the disk."""
        ...

    def noted(self, remark: str) -> None:
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
    judged: list[Example]
    accounts: dict[str, RowAccount]
    need: Need
    limit_bytes: int
    budget: LengthBudget | None = None
    remarks: list[str] = field(default_factory=list)
    held: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    whole_step: int = 0

    @property
    def steps(self) -> int:
        """Number of steps of the run; the last may have fewer batches."""
        return -(-self.batches // self.settings.grad_accumulation_steps)

    def judge(self) -> float | None:
        """Compute the held-out loss; None without a held-out row."""
        if not self.judged:
            return None
        settings = self.settings
        chosen = validation_batches(self.judged, settings.batch_size, settings.val_batches, settings.seed)
        return mean_loss(self.learner.scorer, self.judged, chosen)

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
    source = open_source(data)
    check_source(settings.recipe, source)
    checkpoints = Checkpoints(adapter_path, {"model": model}, settings.keep)
    _free(checkpoints, resume=resume, force=force)
    rows = dataset.rows_of(source)
    loaded = load(model)
    checkpoints.config |= _adapted(loaded, settings, resume_adapter_file)
    texts = dataset.texts_of(rows, loaded, settings)
    settings = _stored(settings, checkpoints) if resume else settings
    memory, budget = settled(_memory(loaded, settings, checkpoints.config), dataset.longest(texts))
    run = _run(loaded, dataset.read(source.folder, rows, texts, memory.settings), memory, checkpoints)
    run.budget = budget
    run.remarks = _remarks(loaded, run, resume_adapter_file)
    if resume_adapter_file is not None:
        run.state.began = relative_path(adapter_path, resume_adapter_file)
    with _atomic.refused(adapter_path):
        adapter_path.mkdir(parents=True, exist_ok=True)
    seen = _seen_by(source.folder, rows, resume_adapter_file)
    with contextlib.ExitStack() as undo:
        undo.enter_context(run.held)
        run.held.enter_context(_atomic.alone(adapter_path))
        _free(checkpoints, resume=resume, force=force)  # another run may have ended there since
        _placed(run, resume)
        _seen_hashes.write(adapter_path, seen)
        undo.pop_all()
    return run


def _stored(settings: Training, checkpoints: Checkpoints) -> Training:
    """Return the settings of a resumed run, with the numbers that it found before in the place of ``auto``."""
    before = checkpoints.settings()
    found = {name: before[name] for name in LENGTHS if getattr(settings, name) == AUTO and name in before}
    return replace(settings, **found)


def _seen_by(data: Path, rows: dict[str, list[dict[str, Any]]], weights: str | None) -> _seen_hashes.Seen:
    """Return the hashes of the rows that a run learns from or chooses on, and those kept with its data and weights."""
    before = [data, *([] if weights is None else [Path(weights).parent])]
    found = _seen_hashes.of_rows(row for some in rows.values() for row in some)
    for folder in before:
        found |= _seen_hashes.read(folder) or _seen_hashes.Seen()
    return found


def _run(loaded: Loaded, learned: Corpus, memory: TrainingMemory, checkpoints: Checkpoints) -> OfflineRun:
    """Return a run at its first step, if there is enough memory."""
    order = learned.order(memory.settings)
    sizes = dataset.sizes(order)
    limit = limit_bytes(memory.settings)
    whole = max(SHORTEST, memory.settings.limit_tokens)
    memory = in_segments(memory, sizes, whole, lambda way: way.need(*way.most(sizes)).total <= limit)
    settings = memory.settings
    batches = settings.iters if settings.epochs is None else round(settings.epochs * len(order.batches(0)))
    return OfflineRun(
        settings=settings,
        learner=Learner(loaded.model, learned.examples, learned.objective, settings.segment_tokens),
        optimizer=optimizers.build(settings),
        order=order,
        batches=max(1, batches),
        state=TrainingState(settings=_identity(settings, checkpoints.config["model"], learned.examples)),
        checkpoints=checkpoints,
        trackers=[],
        judged=learned.judged,
        accounts=learned.accounts,
        need=memory.check(*memory.most(sizes)),
        limit_bytes=limit,
    )


def _placed(run: OfflineRun, resume: bool) -> None:
    """Restore a run to its first step, or from its last checkpoint."""
    model, path = run.learner.model, run.checkpoints.path
    run.optimizer.init(model.trainable_parameters())
    upto = -1  # of a run that was killed before its first checkpoint nothing is kept
    if resume and run.checkpoints.found():
        run.state = run.checkpoints.resume(model, run.optimizer, run.state.settings, run.state.began)
        upto = run.state.step
    run.order.epoch, run.order.batch = run.state.epoch, run.state.batch
    run.trackers = open_trackers(run.settings, path, upto)
    if upto < 0:
        run.checkpoints.clear()


def _free(checkpoints: Checkpoints, *, resume: bool, force: bool) -> None:
    """Raise if the folder has a run that may be neither resumed nor replaced."""
    path = checkpoints.path
    _atomic.refuse_file(path)
    there, found = (path / ADAPTERS).exists(), checkpoints.found()
    if resume and there and not found:
        raise CheckpointError(
            f"{path} has an adapter and no checkpoint in {path / FOLDER}",
            hint="--force without --resume trains anew in its place",
        )
    if resume or force:
        return
    if there or found:
        raise OutputExistsError(
            f"{path} has an adapter already",
            hint="--resume goes on from its last checkpoint, --force trains anew in its place",
        )
    _atomic.refuse_other(path, _own(path))


def _own(path: Path) -> Collection[str]:
    """Return the names that a run killed early leaves: files only beside its settings, and no complete checkpoint."""
    folder = path / FOLDER
    other = folder.is_dir() and any(not one.name.startswith(_atomic.UNFINISHED) for one in folder.iterdir())
    lone = () if (path / TRAIN_FILE).is_file() else (path / CONFIG, path / METRICS_FILE)
    alien = {file.name for file in lone if file.is_file() and file.stat().st_size > 0}
    return {TRAIN_FILE, CONFIG, METRICS_FILE, FOLDER, _seen_hashes.FILE} - alien - ({FOLDER} if other else set())


def _adapted(loaded: Loaded, settings: Training, weights: str | None) -> dict[str, Any]:
    mx.random.seed(settings.seed)
    config = adapt(loaded.model, settings)
    if weights is not None:
        begin(loaded.model, Path(weights), config)
    loaded.model.train()
    mx.eval(loaded.model.parameters())
    return config


def _remarks(loaded: Loaded, run: OfflineRun, weights: str | None) -> list[str]:
    """Return remarks on the initial weights of the run, and on lengths."""
    given = run.settings.lora_keys is not None  # whoever names the layers knows which are left out
    experts = None if given else unadapted_experts(loaded.model, run.checkpoints.config)
    found = [
        experts,
        _remark(loaded, run),
        None if weights is None else unrecorded(Path(weights), run.checkpoints.config),
    ]
    return [remark for remark in found if remark is not None]


def _remark(loaded: Loaded, run: OfflineRun) -> str | None:
    """Return a remark if rows, or the allowed length, are longer than the model's positions."""
    known = position_limit(loaded.model, loaded.config)
    longest = max([*run.order.lengths, *map(len, run.judged)])
    limit = run.settings.limit_tokens
    chosen = limit if run.budget is not None else 0  # a length that the run chose itself needs no remark
    return None if known is None else known.remark("max_seq_length", limit, chosen, longest)


def _memory(loaded: Loaded, settings: Training, config: dict[str, Any]) -> TrainingMemory:
    scorer = Scorer(loaded.model)
    return of_model(
        loaded.model, scorer.body, scorer.vocabulary, settings, config["num_layers"], lambda: scorer.carrier
    )


def _identity(settings: Training, model: str, examples: list[Example]) -> dict[str, Any]:
    """Return the facts that identify a run: settings, model and examples."""
    digest = hashlib.sha256()
    for one in examples:
        digest.update(
            one.text.tokens.tobytes()
            + one.text.learned.tobytes()
            + repr((one.reward, one.log_weight, one.group)).encode()
        )
    chosen = settings.to_dict()
    if settings.lr_schedule == "constant":  # more steps are then a longer run, and no other one
        chosen = {name: value for name, value in chosen.items() if name not in ("iters", "epochs")}
    return json.loads(json.dumps(chosen | {"model": model, ROWS: digest.hexdigest()}))  # type: ignore[no-any-return]
