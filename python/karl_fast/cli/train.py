"""`karl-fast train`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from karl_fast.cli import options
from karl_fast.cli.app import app
from karl_fast.cli.training import takes_training, trained, watching
from karl_fast.export.manifest import dumps
from karl_fast.train import Training, train

Data = Annotated[str, typer.Argument(metavar="DATA", help="A folder with train.jsonl and valid.jsonl.")]
Model = Annotated[str, typer.Option("--model", help="A folder, or the name of a model on the Hugging Face hub.")]
AdapterPath = Annotated[str, typer.Option("--adapter-path", help="The folder to write.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in --adapter-path.")]
ResumeFile = Annotated[
    str | None, typer.Option("--resume-adapter-file", help="Weights to begin with; the run is a new one.")
]
Force = Annotated[bool, typer.Option("--force", help="Train anew where an adapter is there.")]

VARIABLES = "Each option from --recipe on may also stand in a variable, as --batch-size in KARL_FAST_BATCH_SIZE."


@app.command(
    "train",
    short_help="Train an adapter on a data set, with MLX.",
    epilog=f"{VARIABLES}\n\nExample: karl-fast train data --model mlx-community/Qwen3-0.6B-4bit --epochs 3",
)
@takes_training
def command(
    *,
    settings: Training,
    data: Data,
    model: Model,
    adapter_path: AdapterPath = "adapters",
    resume: Resume = False,
    resume_adapter_file: ResumeFile = None,
    force: Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train an adapter on a data set that sample wrote, or on any that mlx_lm lora takes; mlx_lm loads it."""
    with watching(settings, quiet) as watch:
        result = train(
            data,
            model,
            adapter_path,
            settings,
            resume=resume,
            resume_adapter_file=resume_adapter_file,
            force=force,
            watch=watch,
        )
    if json:
        print(dumps(asdict(result) | {"adapter_path": str(result.adapter_path)}, plain=True))
    elif not quiet:
        sys.stderr.write(trained(result) + "\n")
