"""`karl-fast inspect`."""

from __future__ import annotations

from karl_fast.cli import app, options
from karl_fast.cli.progress import progress
from karl_fast.cli.show import inspected
from karl_fast.export.manifest import dumps
from karl_fast.pipeline import inspect
from karl_fast.settings import Settings


@app.command("inspect", epilog="Example: karl-fast inspect runs/ --score zscore")
def command(
    logs: options.Logs,
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
    seed: options.Seed = 0,
    strict: options.Strict = False,
    max_line_bytes: options.MaxLineBytes = 64 << 20,
    threads: options.Threads = None,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Look at logs before sampling: rows, groups, rewards, duplicates, and what each temperature would do."""
    settings = Settings(
        format=format, id=id, group=group, reward=options.weights(reward), messages=messages, domain=domain,
        score=score, ddof=ddof, eps=eps, ess=ess, inverse_temperature=inverse_temperature, partition_by=partition_by,
        min_reward=min_reward, drop_constant_groups=drop_constant_groups, max_per_group=max_per_group, dedup=dedup,
        seed=seed, strict=strict, max_line_bytes=max_line_bytes, **options.given(threads=threads),
    )  # fmt: skip
    with progress(quiet) as watch:
        found = inspect(logs, settings, progress=watch)
    if json:
        print(dumps(found.report | {"ladder": found.ladder}))
    elif not quiet:
        print(inspected(found.report, found.ladder))
