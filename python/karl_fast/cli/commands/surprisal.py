"""`karl-fast surprisal`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karl_fast._safe_text import clean, counted
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.commands.eval import (
    Length,
    OverlongOption,
    RewrittenOption,
    Segment,
    ToolFormatOption,
    TrainOnOption,
)
from karl_fast.cli.reports.text import describe_counts, join_lines
from karl_fast.cli.sample_body import logs_of
from karl_fast.cli.signals import describe_nothing, describe_written, handle_signals
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import READ, RUN
from karl_fast.settings.toml import SettingsFile
from karl_fast.train.settings import BETA, DEFAULTS, LAMBDA, Training

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.train.learnability import SurprisalResult

Model = Annotated[str | None, typer.Option("--model", help="The student: a folder, or the name of a model on the hub.")]
AdapterPath = Annotated[str | None, typer.Option("--adapter-path", help="Adapter of the student.")]
Out = Annotated[
    str | None, typer.Option("--out", "-o", help="The file to write: the log, each row with its surprisal.")
]
Beta = Annotated[
    float, typer.Option("--beta", help="Sharpness of the spike: the mean gap near 0, the largest gap for a large one.")
]
Penalty = Annotated[float, typer.Option("--penalty", help="What a nat of the spike costs: learnability exp(-p spike).")]
Batch = Annotated[int, typer.Option("--batch-size", help="Rows in a batch.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a measurement that was not finished.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]


@add_command(
    "surprisal",
    epilog=options.epilog(
        "--messages", "the file of --config", "karl-fast surprisal runs/ --model tiny-model -o measured.jsonl"
    ),
    common="--model --adapter-path --out --beta --penalty --batch-size --messages --tools --resume --force --config",
)
@options.add_log_settings(READ, RUN)
def command(
    *,
    settings: Settings,
    config: SettingsFile | None,
    logs: options.Logs = None,
    model: Model = None,
    adapter_path: AdapterPath = None,
    out: Out = None,
    beta: Beta = BETA,
    penalty: Penalty = LAMBDA,
    batch_size: Batch = DEFAULTS["batch_size"],
    max_seq_length: Length = DEFAULTS["max_seq_length"],
    segment_length: Segment = DEFAULTS["segment_length"],
    train_on: TrainOnOption = DEFAULTS["train_on"],
    overlong: OverlongOption = DEFAULTS["overlong"],
    rewritten: RewrittenOption = DEFAULTS["rewritten"],
    tool_format: ToolFormatOption = DEFAULTS["tool_format"],
    resume: Resume = False,
    force: Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure how far a model is from writing each row of a log itself, and write the log with it."""
    if model is None:
        raise UsageError("no model given: wanted a folder or a name on the Hugging Face hub, as --model")
    if out is None:
        raise UsageError("no output given: wanted the name of a file, as -o")
    from karl_fast.cli.reports.evaluation import Rows
    from karl_fast.train.learnability import SurprisalSettings, surprisal

    lengths: Any = {"max_seq_length": max_seq_length, "segment_length": segment_length}  # parsed already
    training = Training(
        **lengths,
        batch_size=batch_size,
        train_on=train_on,
        overlong=overlong,
        rewritten=rewritten,
        tool_format=tool_format,
    )
    handle_signals(lambda word: f"{describe_nothing(word)}; --resume goes on with what is measured")
    how: dict[str, Any] = {} if quiet else {"on_rows": (rows := Rows()), "on_remark": rows.on_remark}
    result = surprisal(
        logs_of(logs, config),
        model,
        out,
        SurprisalSettings(beta, penalty, training),
        adapter_path=adapter_path,
        reading=settings,
        resume=resume,
        force=force,
        **how,
    )
    handle_signals(partial(describe_written, out))
    if json:
        print(dumps(asdict(result) | {"out": str(result.out)}, plain=True))
    elif not quiet:
        sys.stderr.write(join_lines(_describe(result)) + "\n")


def _describe(result: SurprisalResult) -> Iterator[str]:
    dropped = f"; dropped: {describe_counts(result.dropped)}" if result.dropped else ""
    yield f"rows      {result.rows:,} read, {result.written:,} written{dropped}"
    missed = f"; not measured: {describe_counts(result.unmeasured)}" if result.unmeasured else ""
    yield f"measured  {counted(result.measured, 'row')}, {counted(result.tokens, 'token')}{missed}"
    if result.gap is not None:
        yield f"means     gap {result.gap:.4f}, spike {result.spike:.4f}, learnability {result.learnability:.4f}"
    yield f"written   {clean(str(result.out))}"
