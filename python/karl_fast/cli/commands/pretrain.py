"""`karl-fast pretrain`."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated, Any

import typer

from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.signals import describe_written, handle_signals
from karl_fast.diffusion.settings import Pretraining, read_config
from karl_fast.export.manifest import dumps

Force = Annotated[bool, typer.Option("--force", help="Write in the place of a model that is there.")]


@add_command(
    "pretrain",
    epilog=options.epilog(
        "--kind",
        "the file of --config",
        "karl-fast pretrain --data forms.py:rows --kind discrete-flow --out runs/flow",
    ),
    common="--data --kind --out --force --config --iters --batch-size --learning-rate --seed",
)
@options.add_settings(Pretraining, read_config, "Options from a TOML file.")
def command(
    *,
    settings: Pretraining,
    config: Any,
    force: Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Pre-train a small model that is not left to right, discrete flow or masked diffusion, for karl-fast rl."""
    from karl_fast._extras import require_mlx

    require_mlx()
    from karl_fast.diffusion.pretrain import describe, pretrain

    def report(step: int, loss: float) -> None:
        if not quiet:
            sys.stderr.write(f"step {step:>6} of {settings.iters}  loss {loss:.4f}\n")

    result = pretrain(settings, force=force, on_steps=report)
    handle_signals(partial(describe_written, result.out))
    if json:
        print(dumps(result._asdict(), plain=True))
    elif not quiet:
        sys.stderr.write(f"written   {describe(result)}\n")
