"""`karl-fast export`."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated

import typer

from karl_fast._safe_text import clean, counted, in_bytes
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.reports.text import join_lines
from karl_fast.cli.signals import handle_signals
from karl_fast.export.manifest import dumps
from karl_fast.model_export import ExportResult, Form, export_adapter

Adapter = Annotated[
    str, typer.Argument(metavar="ADAPTER", help="The folder of an adapter that train, rl or mlx_lm lora wrote.")
]
To = Annotated[
    Form,
    typer.Option(
        "--to",
        help="mlx: the model with the adapter in its weights. lmstudio: the same for LM Studio. peft: the adapter for "
        "PEFT. gguf: a file for llama.cpp. ollama: such a file and a Modelfile.",
    ),
]
Out = Annotated[str, typer.Option("--out", "-o", help="The folder to write; for gguf, the file.")]
Model = Annotated[
    str | None,
    typer.Option("--model", help="The model that it was trained on. [default: that of train.toml beside the adapter]"),
]
Base = Annotated[
    str | None, typer.Option("--base", help="peft: the name of the model as PEFT loads it. [default: the model]")
]


@add_command("export", epilog="Example: karl-fast export adapter --to ollama -o my-model")
def command(
    *,
    adapter: Adapter,
    to: To,
    out: Out,
    model: Model = None,
    base: Base = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write an adapter in the form that another program runs."""
    handle_signals(lambda word: f"{word}; nothing was written")
    result = export_adapter(adapter, out, to, model=model, base=base)
    if json:
        print(dumps(dataclasses.asdict(result) | {"path": str(result.path)}, plain=True))
    elif not quiet:
        sys.stderr.write(join_lines(describe_export(result)) + "\n")


def describe_export(result: ExportResult) -> list[str]:
    """Return the lines of the report."""
    files = counted(len(result.files), "file")
    return [
        f"model     {clean(result.model)}",
        *(f"note      {clean(remark)}" for remark in result.remarks),
        f"written   {result.form} to {clean(str(result.path))}: {files}, {in_bytes(result.size_bytes)}",
    ]
