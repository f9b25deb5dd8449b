"""Training with MLX on the output of `karl-fast sample`, or on any directory that `mlx_lm lora --data` takes.

| name | what it does |
|---|---|
| `train` | trains an adapter, or resumes a run |
| `Training` | every choice of a run, named as in `mlx_lm lora` |
| `Trained` | the result of a run |
| `evaluate` | the held-out loss, and the difference of two adapters with its interval |
| `LossEvaluation`, `Loss`, `Difference` | the result of that |
| `surprisal` | how far a model is from writing each row of a log itself |
| `SurprisalSettings`, `SurprisalResult` | settings and result of that |

Needs the extra ``train``; MLX is imported when it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast.train.settings import GB, Training

if TYPE_CHECKING:
    from karl_fast.train.evaluation import Difference, Loss, LossEvaluation, evaluate
    from karl_fast.train.learnability import SurprisalResult, SurprisalSettings, surprisal
    from karl_fast.train.setup import OfflineRun, Viewer

__all__ = [
    "Difference",
    "Loss",
    "LossEvaluation",
    "SurprisalResult",
    "SurprisalSettings",
    "Trained",
    "Training",
    "evaluate",
    "surprisal",
    "train",
]

HOMES = dict.fromkeys(("Difference", "LossEvaluation", "Loss", "evaluate"), "evaluation") | dict.fromkeys(
    ("SurprisalResult", "SurprisalSettings", "surprisal"), "learnability"
)
"""Home modules of public names that need NumPy; loaded on first use."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    from karl_fast._extras import mlx_needed

    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with mlx_needed():
        return getattr(import_module(f"karl_fast.train.{HOMES[name]}"), name)


@dataclass(frozen=True)
class Trained:
    """Result of a run.

    Attributes:
        adapter_path: the folder for ``mlx_lm generate --adapter-path``.
        steps: number of steps made, and of those planned; fewer if patience ran out.
        learned_tokens: number of tokens learned, repetitions included.
        best: the least held-out loss and its step; None without held-out rows.
        adapter_step: the step of the adapter's weights: that of `best` if the run ended early and a checkpoint of it
            exists, else the last.
        rows: account of the rows of each split.
        peak_bytes: the maximum memory of MLX.
        max_seq_length: maximum tokens of a row.
    """

    adapter_path: Path
    steps: tuple[int, int]
    learned_tokens: int
    best: tuple[float, int] | None
    adapter_step: int
    rows: dict[str, dict[str, Any]]
    peak_bytes: int
    max_seq_length: int

    def _repr_html_(self) -> str:
        """Return a table and the curves of the run, for the output of a cell of a notebook."""
        from karl_fast._plots import counts_table, fragment, metric_plots, row_of_plots
        from karl_fast.modeling.checkpoint import METRICS_FILE

        done, planned = self.steps
        facts: dict[str, object] = {"steps": done, "planned": planned, "learned tokens": self.learned_tokens}
        if self.best is not None:
            facts |= {"least held-out loss": self.best[0], "at step": self.best[1]}
        facts |= {"maximum memory, GB": self.peak_bytes / GB}
        names = {"loss": "Loss", "val_loss": "Validation loss", "grad_norm": "Norm of the gradient"}
        return fragment(counts_table(facts), row_of_plots(metric_plots(self.adapter_path / METRICS_FILE, names)))


class _SilentViewer:
    """Viewer that ignores the progress."""

    def on_start(self, run: OfflineRun) -> None:
        """Do nothing."""

    def on_metrics(self, values: dict[str, Any]) -> None:
        """Do nothing."""

    def on_checkpoint(self, place: Path) -> None:
        """Do nothing."""

    def on_message(self, remark: str) -> None:
        """Do nothing."""


def train(
    data: str | Path,
    model: str | Path,
    adapter_path: str | Path = "adapters",
    settings: Training | None = None,
    *,
    resume: bool = False,
    resume_adapter_file: str | Path | None = None,
    force: bool = False,
    viewer: Viewer | None = None,
) -> Trained:
    """Train a model on a data set, and write an adapter that mlx-lm loads.

    The bytes of the adapter are a function of data, model, settings and the machine's arithmetic: a run that is killed
    at any point and resumed gives the same bytes as one that was not.

    Args:
        data: the folder with ``train.jsonl`` and, for validation, ``valid.jsonl``.
        model: a folder, or a name on the Hugging Face hub.
        adapter_path: the folder to write; it appears with the first checkpoint.
        settings: all settings; ``Training()`` by default.
        resume: continue from the last checkpoint; start anew if there is no run.
        resume_adapter_file: initial weights of a new run, as in `mlx_lm lora`. Each tensor has to match in name, shape
            and type, and so has `adapter_config.json` beside them, if there is one.
        force: train anew over an existing adapter. It and its checkpoints are removed just before the first step, after
            all checks; other files stay.
        viewer: called with the progress of the run.

    Returns:
        The result of the run.

    Raises:
        UsageError: conflicting settings, a recipe that does not fit the data set, too little memory, or an empty path.
        ModelError: the model is missing or cannot be trained, or initial weights do not match.
        TemplateError: the chat template rewrites earlier turns, and the settings make that an error.
        NothingToTrainError: no row has anything to learn.
        OutputExistsError: the folder already has an adapter, or another run writes there.
        OutputForeignError: the path is a file, or a folder with other content than a run, without `resume` or `force`.
        CheckpointError: the checkpoint to resume is damaged, of another run, or missing beside an adapter.
        DivergedError: gradients or a held-out loss are no longer finite.
        FileError: a file cannot be read or written; the last checkpoint is kept.

    Reference: Hu et al. 2021, LoRA (arXiv:2106.09685).
    """
    from dataclasses import asdict

    from karl_fast.modeling.load import require_mlx_lm

    require_mlx_lm()
    import mlx.core as mx

    from karl_fast import _atomic
    from karl_fast.modeling.memory import cache_bytes, limit_memory
    from karl_fast.modeling.model_views import checkpoint_layers
    from karl_fast.settings.toml_text import TRAIN_FILE, dump_training
    from karl_fast.settings.validation import refuse_empty
    from karl_fast.train import trainer
    from karl_fast.train.setup import prepare

    settings = settings or Training()
    mx.set_cache_limit(int(settings.cache_limit * GB))
    refuse_empty(data=data, model=model, adapter_path=adapter_path, resume_adapter_file=resume_adapter_file)
    weights = None if resume_adapter_file is None else str(resume_adapter_file)
    run = prepare(
        data, str(model), Path(adapter_path), settings, resume=resume, resume_adapter_file=weights, force=force
    )
    mx.set_cache_limit(cache_bytes(run.settings, run.need.total))
    mx.reset_peak_memory()
    text = dump_training(run.settings, data, str(model), run.checkpoints.path, run.state.began)
    try:
        _atomic.write_file(run.checkpoints.path / TRAIN_FILE, lambda file: file.write(text.encode()))
        with (
            checkpoint_layers(run.learner.model, settings.grad_checkpoint),
            limit_memory(run.need.total - run.need.weights),
        ):
            adapter_step = trainer.train(run, viewer or _SilentViewer())
    finally:
        with run.lock:
            for tracker in run.trackers:
                tracker.finish()
    rows = {split: asdict(account) for split, account in run.accounts.items()}
    steps, state, peak = (run.state.step, run.steps), run.state, mx.get_peak_memory()
    limit = run.settings.limit_tokens
    return Trained(Path(adapter_path), steps, state.tokens, state.best, adapter_step, rows, peak, limit)
