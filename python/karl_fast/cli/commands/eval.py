"""`karl-fast eval`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from karl_fast._text import clean, counted
from karl_fast.cli import options
from karl_fast.cli.app import app
from karl_fast.cli.reports.sample import page
from karl_fast.cli.root_help import COMMANDS
from karl_fast.export.manifest import dumps
from karl_fast.train.settings import DEFAULTS, Overlong, Rewritten, Training, TrainOn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.train.evaluation import Evaluation, Loss


Split = Literal["train", "valid", "test"]

Data = Annotated[str, typer.Argument(metavar="DATA", help="A folder with test.jsonl, or what --split names.")]
Model = Annotated[str, typer.Option("--model", help="A folder, or the name of a model on the Hugging Face hub.")]
AdapterPath = Annotated[str | None, typer.Option("--adapter-path", help="The adapter to judge.")]
Against = Annotated[str | None, typer.Option("--against", help="Another adapter, or base for the model alone.")]
Which = Annotated[Split, typer.Option("--split", help="The rows to judge by.")]
By = Annotated[str | None, typer.Option("--by", help="Path of a field to tell losses apart by: karl_fast.domain.")]
Batch = Annotated[int, typer.Option("--batch-size", help="Rows a batch.")]
Length = Annotated[int, typer.Option("--max-seq-length", help="Tokens a row may have.")]
On = Annotated[TrainOn, typer.Option("--train-on", help="Judge every assistant turn, the last one, or all tokens.")]
Long = Annotated[Overlong, typer.Option("--overlong", help="What to do with a longer row.")]
Rewrites = Annotated[Rewritten, typer.Option("--rewritten", help="What to do where a template rewrites history.")]


@app.command(
    "eval",
    short_help=COMMANDS["eval"],
    epilog="Example: karl-fast eval data --model tiny-model --adapter-path adapters --against base --split valid",
)
def command(
    *,
    data: Data,
    model: Model,
    adapter_path: AdapterPath = None,
    against: Against = None,
    split: Which = "test",
    by: By = None,
    batch_size: Batch = DEFAULTS["batch_size"],
    max_seq_length: Length = DEFAULTS["max_seq_length"],
    train_on: On = DEFAULTS["train_on"],
    overlong: Long = DEFAULTS["overlong"],
    rewritten: Rewrites = DEFAULTS["rewritten"],
    json: options.Json = False,
) -> None:
    """The held-out loss of a model or an adapter, by domain, and beside another with an interval."""
    from karl_fast.train.evaluation import evaluate

    settings = Training(
        batch_size=batch_size,
        max_seq_length=max_seq_length,
        train_on=train_on,
        overlong=overlong,
        rewritten=rewritten,
    )
    found = evaluate(data, model, adapter_path, against=against, split=split, by=by, settings=settings)
    print(dumps(asdict(found), plain=True) if json else page(_lines(found)))


def _lines(found: Evaluation) -> Iterator[str]:
    whole = found.whole
    kept = f"{counted(found.account['rows'], 'row')} read, {whole.rows:,} judged"
    yield f"rows      {kept}, {counted(whole.tokens, 'token')}"
    yield f"loss      {_loss(whole)}"
    for name, loss in found.by.items():
        yield f"          {_loss(loss)}  {counted(loss.rows, 'row')}  {clean(name)}"
    if found.difference:
        yield f"differs   {_difference(found)}"


def _loss(loss: Loss) -> str:
    return f"{loss.loss:.4f}" + ("" if loss.against is None else f"  against {loss.against:.4f}")


def _difference(found: Evaluation) -> str:
    one = found.difference
    if one is None:
        return ""
    if one.low is None or one.high is None:
        return f"by {one.value:+.4f} nats a token; one group alone gives no interval"
    sure = "better" if one.high < 0 else "worse" if one.low > 0 else "no difference is sure"
    interval = f"95% from {one.low:+.4f} to {one.high:+.4f}, {one.clusters:,} groups"
    return f"by {one.value:+.4f} nats a token ({interval}): {sure}"
