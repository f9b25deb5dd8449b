"""`karl-fast train`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.reports.text import join_lines
from karl_fast.cli.reports.train import describe_training, watch_training
from karl_fast.cli.signals import describe_written, handle_signals
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps
from karl_fast.train import Training, train
from karl_fast.train.config import TrainConfig, load

Data = Annotated[
    str | None, typer.Argument(metavar="DATA", help="A folder with train.jsonl and valid.jsonl.", show_default=False)
]
Model = Annotated[str | None, typer.Option("--model", help="A folder, or the name of a model on the Hugging Face hub.")]
AdapterPath = Annotated[str | None, typer.Option("--adapter-path", help="The folder to write. [default: adapters]")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint in --adapter-path.")]
ResumeFile = Annotated[str | None, typer.Option("--resume-adapter-file", help="Weights that a new run starts from.")]
Force = Annotated[bool, typer.Option("--force", help="Start anew where there is an adapter.")]


@add_command(
    "train",
    epilog=options.epilog(
        "--batch-size",
        "the table [train] of the file of --config, as may data, model, adapter_path and resume_adapter_file",
        "karl-fast train data --model mlx-community/Qwen3-0.6B-4bit --epochs 3",
    ),
    common="--model --adapter-path --config --recipe --iters --epochs --batch-size "
    "--max-seq-length --num-layers --lora-rank --learning-rate",
)
@options.add_settings(
    Training, load, "Options from the table [train] of a TOML file, or from the adapter of a run to make it again."
)
def command(
    *,
    settings: Training,
    config: TrainConfig | None,
    data: Data = None,
    model: Model = None,
    adapter_path: AdapterPath = None,
    resume: Resume = False,
    resume_adapter_file: ResumeFile = None,
    force: Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train an adapter on a data set that sample wrote, or on any that mlx_lm lora takes; mlx_lm loads it."""
    config = config or TrainConfig("")
    data, model = _first(data, config.data), _first(model, config.model)
    adapter_path = _first(adapter_path, config.adapter_path)
    if not data:
        raise UsageError("no data set given: wanted a folder with train.jsonl, as DATA or in the file of --config")
    if not model:
        raise UsageError("no model given: wanted a folder or a name on the Hugging Face hub, as --model")
    with watch_training(settings, quiet) as viewer:
        result = train(
            data,
            model,
            "adapters" if adapter_path is None else adapter_path,
            settings,
            resume=resume,
            resume_adapter_file=_first(resume_adapter_file, config.resume_adapter_file),
            force=force,
            viewer=viewer,
        )
    handle_signals(partial(describe_written, str(result.adapter_path)))
    if json:
        print(dumps(asdict(result) | {"adapter_path": str(result.adapter_path)}, plain=True))
    elif not quiet:
        sys.stderr.write(join_lines([describe_training(result)]) + "\n")


def _first(*paths: str | None) -> str | None:
    """Return the first value given, or None; an empty one counts as given."""
    return next((path for path in paths if path is not None), None)
