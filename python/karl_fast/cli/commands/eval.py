"""`karl-fast eval`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from karl_fast._safe_text import clean, counted
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.reports.text import join_lines
from karl_fast.cli.rollout_options import (
    Attempts,
    Confidence,
    Config,
    Force,
    Out,
    Resume,
    Seed,
    SolvedAt,
    Temperature,
    build_rollout_settings,
)
from karl_fast.cli.signals import describe_nothing, describe_written, handle_signals
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps
from karl_fast.settings.schema import ToolFormat
from karl_fast.train.settings import DEFAULTS, Overlong, Rewritten, Training, TrainOn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.evaluation import RolloutSettings
    from karl_fast.train.evaluation import Loss, LossEvaluation


LOSS = "Held-out loss"
"""Section of the options of a loss in the help."""

_loss_option = partial(typer.Option, rich_help_panel=LOSS)

Split = Literal["train", "valid", "test"]

Data = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="A folder with test.jsonl, or the file of --split; with --rollouts, a file of prompts.",
        show_default=False,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model", help="A folder, or the name of a model on the hub. With --rollouts, by default that of --config."
    ),
]
ByRollouts = Annotated[bool, typer.Option("--rollouts", help="Evaluate by the rewards of attempts at prompts.")]
AdapterPath = Annotated[str | None, typer.Option("--adapter-path", help="The adapter to evaluate.")]
Against = Annotated[
    str | None, typer.Option("--against", help="Another adapter to compare with, or base for the model alone.")
]
SplitOption = Annotated[Split, _loss_option("--split", help="The rows to evaluate on.")]
By = Annotated[
    str | None,
    _loss_option(
        "--by",
        help="Path of a field, such as karl_fast.domain; its values get a loss each.",
    ),
]
Batch = Annotated[int, _loss_option("--batch-size", help="Rows in a batch.")]
Length = Annotated[
    str,
    options.option(
        Training,
        "max_seq_length",
        "Maximum tokens of a row; auto: as many as the adapter was trained with, else those of the longest row.",
        LOSS,
    ),
]
Segment = Annotated[str, options.option(Training, "segment_length", section=LOSS)]
TrainOnOption = Annotated[
    TrainOn,
    _loss_option("--train-on", help="Tokens of the loss: every assistant turn, the last one, or all."),
]
OverlongOption = Annotated[Overlong, _loss_option("--overlong", help="What to do with a longer row.")]
RewrittenOption = Annotated[
    Rewritten,
    _loss_option(
        "--rewritten",
        help="What to do where the chat template changes earlier turns.",
    ),
]
ToolFormatOption = Annotated[ToolFormat, options.option(Training, "tool_format", section=LOSS)]


@add_command(
    "eval",
    epilog="Example: karl-fast eval data --model tiny-model --adapter-path adapters --against base --split valid\n\n"
    "Example: karl-fast eval held-out.jsonl --rollouts --config rl.toml --adapter-path runs/first --against base --out "
    "evaluation",
    common="--model --adapter-path --against --split --rollouts --config --out --attempts --resume",
)
def command(
    *,
    data: Data = None,
    model: Model = None,
    rollouts: ByRollouts = False,
    adapter_path: AdapterPath = None,
    against: Against = None,
    split: SplitOption = "test",
    by: By = None,
    batch_size: Batch = DEFAULTS["batch_size"],
    max_seq_length: Length = DEFAULTS["max_seq_length"],
    segment_length: Segment = DEFAULTS["segment_length"],
    train_on: TrainOnOption = DEFAULTS["train_on"],
    overlong: OverlongOption = DEFAULTS["overlong"],
    rewritten: RewrittenOption = DEFAULTS["rewritten"],
    tool_format: ToolFormatOption = DEFAULTS["tool_format"],
    config: Config = None,
    out: Out = None,
    attempts: Attempts = 8,
    temperature: Temperature = 1.0,
    solved_at: SolvedAt = 1.0,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    resume: Resume = False,
    force: Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Evaluate a model or an adapter by its held-out loss, or by the rewards of its rollouts; compare two."""
    if rollouts:
        rollout_settings = build_rollout_settings(
            config,
            data,
            model=model,
            attempts=attempts,
            temperature=temperature,
            solved_at=solved_at,
            confidence=confidence,
            seed=seed,
        )
        _evaluate_rollouts(
            rollout_settings, adapter_path, against, out, resume=resume, force=force, json=json, quiet=quiet
        )
        return
    if data is None:
        raise UsageError("no data set given: wanted a folder with test.jsonl, or what --split names, as DATA")
    if model is None:
        raise UsageError("no model given: wanted a folder or a name on the Hugging Face hub, as --model")
    from karl_fast.train.evaluation import evaluate

    lengths: Any = {"max_seq_length": max_seq_length, "segment_length": segment_length}  # parsed already
    settings = Training(
        **lengths,
        batch_size=batch_size,
        train_on=train_on,
        overlong=overlong,
        rewritten=rewritten,
        tool_format=tool_format,
    )
    from karl_fast.cli.reports.evaluation import Tokens

    on_tokens = None if quiet else Tokens()
    evaluation = evaluate(
        data, model, adapter_path, against=against, split=split, by=by, settings=settings, on_tokens=on_tokens
    )
    print(dumps(asdict(evaluation), plain=True) if json else join_lines(_describe_losses(evaluation), sys.stdout))


def _evaluate_rollouts(
    settings: RolloutSettings,
    adapter_path: str | None,
    against: str | None,
    out: str | None,
    *,
    resume: bool,
    force: bool,
    json: bool,
    quiet: bool,
) -> None:
    from karl_fast.cli.reports.evaluation import Chunks, describe_evaluation
    from karl_fast.evaluation import evaluate_rollouts

    if out is None:
        raise UsageError("out names no folder, wanted one for the log of the attempts", "out")
    handle_signals(lambda word: f"{describe_nothing(word)}; --resume goes on with what is in {clean(out)}")
    chunks = None if quiet else Chunks()
    evaluation = evaluate_rollouts(
        settings,
        adapter_path,
        out=out,
        against=against,
        resume=resume,
        force=force,
        progress=chunks,
        on_tokens=None if chunks is None else chunks.on_tokens,
        on_remark=Chunks().on_remark,
    )
    handle_signals(partial(describe_written, out))
    print(dumps(evaluation.to_dict(), plain=True) if json else describe_evaluation(evaluation))


def _describe_losses(evaluation: LossEvaluation) -> Iterator[str]:
    whole = evaluation.whole
    counts = f"{counted(evaluation.account['rows'], 'row')} read, {whole.rows:,} judged"
    yield f"rows      {counts}, {counted(whole.tokens, 'token')}"
    yield f"loss      {_describe_loss(whole)}"
    for name, loss in evaluation.by.items():
        yield f"          {_describe_loss(loss)}  {counted(loss.rows, 'row')}  {clean(name)}"
    if evaluation.difference:
        yield f"differs   {_describe_difference(evaluation)}"
    yield from (f"warning   {remark}" for remark in evaluation.remarks)


def _describe_loss(loss: Loss) -> str:
    return f"{loss.loss:.4f}" + ("" if loss.against is None else f"  against {loss.against:.4f}")


def _describe_difference(evaluation: LossEvaluation) -> str:
    difference = evaluation.difference
    if difference is None:
        return ""
    if difference.low is None or difference.high is None:
        return f"by {difference.value:+.4f} nats a token; one group alone gives no interval"
    sure = "better" if difference.high < 0 else "worse" if difference.low > 0 else "no difference is sure"
    interval = f"95% from {difference.low:+.4f} to {difference.high:+.4f}, {difference.clusters:,} groups"
    return f"by {difference.value:+.4f} nats a token ({interval}): {sure}"
