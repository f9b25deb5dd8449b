"""`karl-fast sample`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from karl_fast.cli import app, options
from karl_fast.cli.progress import progress
from karl_fast.cli.show import sampled
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps
from karl_fast.pipeline import sample
from karl_fast.settings import Settings


@app.command("sample", epilog="Example: karl-fast sample runs/ -o data -k 512 --score zscore --drop-constant-groups")
def command(
    logs: options.Logs,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="The directory to write, or - to print the rows.", rich_help_panel="Output")
    ] = None,
    k: Annotated[int | None, typer.Option("-k", help="How many rows to draw, all splits together.")] = None,
    fraction: Annotated[float | None, typer.Option("--fraction", help="Instead of -k: a share of the kept rows.")] = None,
    format: options.Format = None,
    id: options.Id = None,
    group: options.Group = None,
    reward: options.Reward = None,
    messages: options.Messages = None,
    domain: options.Domain = None,
    score: options.Score = "raw",
    ddof: options.Ddof = 0,
    eps: options.Eps = 1e-6,
    ess: options.Ess = None,
    inverse_temperature: options.InverseTemperature = None,
    partition_by: options.PartitionBy = "global",
    min_reward: options.MinReward = None,
    drop_constant_groups: options.DropConstantGroups = False,
    max_per_group: options.MaxPerGroup = None,
    dedup: options.Dedup = False,
    sampler: Annotated[
        str, typer.Option("--sampler", help="gumbel: k without replacement; all: every kept row, weighted.", rich_help_panel="Target")
    ] = "gumbel",
    shape: Annotated[
        str, typer.Option("--as", help="chat, prompt-completion, text, or raw (the records' own bytes).", rich_help_panel="Output")
    ] = "chat",
    split: Annotated[
        str, typer.Option("--split", help="Shares of train, valid and test, dealt by group.", rich_help_panel="Output")
    ] = "0.9,0.1,0",
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", help="Drop longer rows; needs --tokenizer.", rich_help_panel="Output")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option("--tokenizer", help="Folder of the model's tokenizer.", rich_help_panel="Output")
    ] = None,
    allow_secrets: Annotated[
        bool, typer.Option("--allow-secrets", help="Do not replace keys and passwords.", rich_help_panel="Output")
    ] = False,
    hash_inputs: Annotated[
        bool, typer.Option("--hash-inputs", help="Hash whole inputs, not their first and last MiB.", rich_help_panel="Output")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a data set that is there.", rich_help_panel="Output")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do everything but write.", rich_help_panel="Output")] = False,
    seed: options.Seed = 0,
    strict: options.Strict = False,
    max_line_bytes: options.MaxLineBytes = 64 << 20,
    threads: options.Threads = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Draw a training set from trajectory logs, in proportion to exp(inverse temperature * score)."""
    to_stdout = out == "-"
    if out is None and not dry_run:
        raise UsageError("say where to write: -o DIR, -o - for stdout, or --dry-run")
    if to_stdout and json:
        raise UsageError("-o - and --json both want stdout: give one")
    settings = Settings(
        format=format, id=id, group=group, reward=options.weights(reward), messages=messages, domain=domain,
        score=score, ddof=ddof, eps=eps, ess=ess, inverse_temperature=inverse_temperature, partition_by=partition_by,
        min_reward=min_reward, drop_constant_groups=drop_constant_groups, max_per_group=max_per_group, dedup=dedup,
        sampler=sampler, k=k, fraction=fraction, seed=seed, shape=shape, split=_split(split, to_stdout),
        allow_secrets=allow_secrets, max_tokens=max_tokens, tokenizer=tokenizer, hash_inputs=hash_inputs, strict=strict,
        max_line_bytes=max_line_bytes, **options.given(threads=threads),
    )  # fmt: skip
    target = None if dry_run or to_stdout else out
    with progress(quiet) as watch:
        result = sample(logs, target, settings, force=force, progress=watch)
    if to_stdout and not dry_run:
        sys.stdout.writelines(line + "\n" for line in result.lines())
        sys.stdout.flush()
    if json:
        print(dumps(result.manifest))
    elif not quiet:
        sys.stderr.write(sampled(result.manifest, None if dry_run else out) + "\n")


def _split(text: str, to_stdout: bool) -> tuple[float, float, float]:
    if to_stdout:
        return (1.0, 0.0, 0.0)
    try:
        train, valid, test = map(float, text.split(","))
    except ValueError as error:
        raise UsageError(f"split is {text!r}, wanted three shares: 0.9,0.1,0") from error
    return train, valid, test
