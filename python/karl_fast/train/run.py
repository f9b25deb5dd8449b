"""A run, ready to go: everything is loaded, checked and told before the first step."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from karl_fast.errors import NothingToTrainError, OutputExistsError
from karl_fast.train import optimizer as optimizers
from karl_fast.train import validation
from karl_fast.train.checkpoint import ADAPTERS, Checkpoints, State
from karl_fast.train.examples import Account, Example, groups_of, prepared
from karl_fast.train.memory import Memory, Need, limit_bytes, shape_of
from karl_fast.train.metrics import Tracker, trackers
from karl_fast.train.model import Loaded, adapt, load
from karl_fast.train.order import Order, units_of
from karl_fast.train.recipe import Objective, check_source
from karl_fast.train.rows import open_source
from karl_fast.train.step import Learner
from karl_fast.train.template import Renderer

if TYPE_CHECKING:
    from karl_fast.train.settings import Training


class Watch(Protocol):
    """Somebody who is told how a run goes."""

    def started(self, run: Run) -> None:
        """Everything is loaded, and the first step comes."""
        ...

    def said(self, values: dict[str, Any]) -> None:
        """A step or a validation, as in metrics.jsonl."""
        ...

    def saved(self, place: Path) -> None:
        """A checkpoint is on the disk."""
        ...


@dataclass
class Run:
    """A run between two steps."""

    settings: Training
    learner: Learner
    optimizer: Any
    order: Order
    steps: int
    batches: int
    state: State
    checkpoints: Checkpoints
    trackers: list[Tracker]
    judged: list[Example]
    accounts: dict[str, Account]
    need: Need
    limit: int

    def judge(self) -> float | None:
        """The held-out loss; None without a held-out row."""
        if not self.judged:
            return None
        settings = self.settings
        chosen = validation.batches(self.judged, settings.batch_size, settings.val_batches, settings.seed)
        return validation.mean_loss(self.learner.scorer, self.judged, chosen)

    @property
    def stopped(self) -> bool:
        """Whether nothing got better for so long that the run ends."""
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
) -> Run:
    """Load and check all that a run needs.

    Raises:
        KarlError: whatever of it is not there or does not fit; nothing is written before all is known to.
    """
    source = open_source(data)
    check_source(settings.recipe, source)
    _free(adapter_path, resume=resume, force=force)
    rows = source.rows("train")
    if not rows:
        raise NothingToTrainError(f"{source.folder / 'train.jsonl'} has no rows")
    loaded = load(model)
    renderer = Renderer(loaded.tokenizer, loaded.ends, settings.train_on, settings.rewritten)
    examples, account = prepared(rows, renderer, settings, f"{source.folder / 'train.jsonl'}")
    judged, held_out = prepared(source.rows("valid"), renderer, settings, f"{source.folder / 'valid.jsonl'}")
    config = _adapted(loaded, settings, resume_adapter_file)
    objective = Objective(settings, examples)
    examples, objective = _counted(settings, examples, objective, account)
    order = Order(
        [len(one) for one in examples],
        units_of(groups_of(examples) if objective.grouped else None, len(examples)),
        settings.batch_size,
        settings.seed,
    )
    need = _memory(loaded, settings, config).check(*_largest(order))
    learner = Learner(loaded.model, examples, objective)
    optimizer = optimizers.build(settings)
    optimizer.init(loaded.model.trainable_parameters())
    batches = settings.iters if settings.epochs is None else round(settings.epochs * len(order.batches(0)))
    checkpoints = Checkpoints(adapter_path, config | {"model": model}, settings.keep)
    state = State(settings=_identity(settings, model, examples))
    if resume and checkpoints.found():
        state = checkpoints.resume(loaded.model, optimizer, state.settings)
    order.epoch, order.batch = state.epoch, state.batch
    adapter_path.mkdir(parents=True, exist_ok=True)
    return Run(
        settings,
        learner,
        optimizer,
        order,
        -(-max(1, batches) // settings.grad_accumulation_steps),
        max(1, batches),
        state,
        checkpoints,
        trackers(settings, adapter_path, state.step),
        judged,
        {"train": account, "valid": held_out},
        need,
        limit_bytes(settings),
    )


def _free(adapter_path: Path, *, resume: bool, force: bool) -> None:
    """Raise where something is there already that nobody said to go on from, or to replace."""
    if resume or not (adapter_path / ADAPTERS).exists() and not (adapter_path / "checkpoints").exists():
        return
    if not force:
        error = OutputExistsError(f"{adapter_path} has an adapter already")
        error.hint = "--resume goes on from its last checkpoint, --force trains anew in its place"
        raise error
    shutil.rmtree(adapter_path / "checkpoints", ignore_errors=True)
    for name in (ADAPTERS, "metrics.jsonl"):
        (adapter_path / name).unlink(missing_ok=True)


def _adapted(loaded: Loaded, settings: Training, weights: str | None) -> dict[str, Any]:
    import mlx.core as mx

    from karl_fast.errors import ModelError

    mx.random.seed(settings.seed)
    config = adapt(loaded.model, settings)
    if weights is not None:
        try:
            loaded.model.load_weights(weights, strict=False)
        except (RuntimeError, ValueError, OSError) as error:
            raise ModelError(f"cannot load weights from {weights}: {' '.join(str(error).split())[:120]}") from error
    loaded.model.train()
    mx.eval(loaded.model.parameters())
    return config


def _counted(
    settings: Training, examples: list[Example], objective: Objective, account: Account
) -> tuple[list[Example], Objective]:
    """Only the examples that have what the recipe needs, the others counted."""
    if objective.kept.all():
        return examples, objective
    left = [one for one, kept in zip(examples, objective.kept, strict=True) if kept]
    for _ in {one.row for one in examples} - {one.row for one in left}:
        account.drop("missing_reward")
    return left, Objective(settings, left)


def _largest(order: Order) -> tuple[int, int]:
    """The batch of the first epoch with the most padded tokens: rows, and tokens a row."""
    sizes = [(len(rows), max(order.lengths[row] for row in rows)) for rows in order.batches(0)]
    return max(sizes, key=lambda size: size[0] * size[1])


def _memory(loaded: Loaded, settings: Training, config: dict[str, Any]) -> Memory:
    from mlx.utils import tree_flatten

    parameters = dict(tree_flatten(loaded.model.parameters()))
    trainable = sum(value.nbytes for _, value in tree_flatten(loaded.model.trainable_parameters()))
    size = max(2, *(value.itemsize for name, value in parameters.items() if name.endswith("norm.weight")))
    total = sum(value.nbytes for value in parameters.values())
    return Memory(shape_of(loaded.config, size), total, trainable, config["num_layers"], settings)


def _identity(settings: Training, model: str, examples: list[Example]) -> dict[str, Any]:
    """What has to be the same for a run to be the same: settings, model and examples."""
    digest = hashlib.sha256()
    for one in examples:
        digest.update(one.text.tokens.tobytes() + one.text.learned.tobytes() + repr((one.reward, one.log_weight, one.group)).encode())
    chosen = settings.to_dict()
    if settings.lr_schedule == "constant":  # more steps are then a longer run, and no other one
        chosen = {name: value for name, value in chosen.items() if name not in ("iters", "epochs")}
    return json.loads(json.dumps(chosen | {"model": model, "examples": digest.hexdigest()}))  # type: ignore[no-any-return]
