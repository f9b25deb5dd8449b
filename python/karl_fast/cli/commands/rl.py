"""`karl-fast rl`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from json import loads
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karl_fast._safe_text import clean, clean_one_to_one, counted
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.signals import describe_written, handle_signals
from karl_fast.errors import AlarmError, CheckpointError, UsageError
from karl_fast.export.manifest import dumps
from karl_fast.rl.settings import Online

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from karl_fast.rl.settings import OnlineConfig

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[show RUN]", help="Print the last --show rollouts of a run, whole.", show_default=False),
]
Print = Annotated[bool, typer.Option("--print", help="Print the axes of --recipe with their sources, and exit.")]
Toml = Annotated[bool, typer.Option("--toml", help="With --print: as TOML, which --recipe takes again.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint in --out.")]
Force = Annotated[bool, typer.Option("--force", help="Start anew where there is a run.")]


def _read_config(path: str, command: str) -> OnlineConfig:
    from karl_fast.rl.settings import read_config  # with NumPy and the objectives, which a help does not need

    return read_config(path, command)


@add_command(
    "rl",
    epilog=options.epilog(
        "--group-size",
        "the file of --config (its table [rl], or the whole file)",
        "karl-fast rl --config rl.toml --seed 1",
    ),
    common="--config --resume --model --prompts --out --rewards --recipe "
    "--rounds --group-size --max-tokens --eval-prompts",
)
@options.add_settings(Online, _read_config, "Options from a TOML file.")
def command(
    *,
    settings: Online,
    config: object,
    words: Words = None,
    print_: Print = False,
    toml: Toml = False,
    resume: Resume = False,
    force: Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a policy online: rollouts, rewards, scores, steps; its log is one that inspect and sample read."""
    if words:
        _print_rollouts(_run_to_show(words), settings.show, json)
    elif print_:
        _print_recipe(settings.recipe, toml)
    else:
        _train(settings, resume=resume, force=force, json=json, quiet=quiet)


def _run_to_show(words: list[str]) -> str:
    """Return the folder of the run to show."""
    if words[0] == "show" and len(words) == 2:
        return words[1]
    raise UsageError(
        f"unexpected argument {clean(' '.join(words))}, wanted options alone, or show and a folder",
        hint="karl-fast rl show runs/first prints the last rollout of a run",
    )


def _print_rollouts(run: str, count: int, json: bool) -> None:
    from pathlib import Path

    from karl_fast.rl.rollout import ROLLOUTS_FILE, read_last_lines

    path = Path(run) / ROLLOUTS_FILE
    lines = read_last_lines(path, count)
    try:
        print("\n".join(lines) if json else "\n\n".join(describe_rollout(loads(line)) for line in lines))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} has a line that is not a rollout of a run") from error


def _print_recipe(name: str, toml: bool) -> None:
    from karl_fast.objective import to_toml
    from karl_fast.rl.settings import load_recipe

    recipe = load_recipe(name)
    print(to_toml(recipe) if toml else str(recipe))


def _train(settings: Online, *, resume: bool, force: bool, json: bool, quiet: bool) -> None:
    if not (settings.model or settings.prompts or settings.out):
        raise UsageError(
            "model, prompts and out are not set: a run needs them, as options or in the file of --config",
            hint="karl-fast rl --config examples/rl/reversal.toml runs one of a checkout",
        )
    from karl_fast._extras import require_mlx

    require_mlx()
    from karl_fast.cli.reports.rl import describe_idle, describe_missing, watch_rounds
    from karl_fast.rl import rl

    with watch_rounds(settings.show, quiet) as viewer:
        result = rl(settings, resume=resume, force=force, viewer=viewer)
    handle_signals(partial(describe_written, str(result.out)))
    if json:
        print(dumps(asdict(result) | {"out": str(result.out)}, plain=True))
    elif not quiet:
        counts = f"{counted(result.rounds, 'round')}, {counted(result.steps, 'step')}"
        if result.missing:
            missing = f"{sum(result.missing.values()):,} of {counted(result.rollouts, 'reward')}"
            sys.stderr.write(f"missing   {missing}: {describe_missing(result.missing)}\n")
        remark = describe_idle(result) if result.steps else None
        warning = "" if remark is None else f"warning   {remark[0]}; {remark[1]}\n"
        sys.stderr.write(f"{warning}trained   {counts}\nwritten   {clean(str(result.out))}\n")
    if not result.steps and (remark := describe_idle(result)) is not None:
        raise AlarmError(f"nothing was learned: {remark[0]}", hint=remark[1])


def describe_rollout(line: Mapping[str, Any]) -> str:
    """Format a line of ``rollouts.jsonl``: its numbers, and every message, without control characters."""
    return "\n".join(_describe_rollout(line))


def _describe_rollout(line: Mapping[str, Any]) -> Iterator[str]:
    reward = f"reward {line['reward']:.4g}" if line["reward"] is not None else f"missing: {clean(line['missing'])}"
    learned = "learned" if line["learned"] else "not learned"
    yield f"rollout   {clean(str(line['id']))}, round {line['round'] + 1}, prompt {clean(line['prompt_id'])}"
    yield f"outcome   {reward}, {clean(str(line['finish']))}, {learned}"
    if line["components"]:
        yield "rewards   " + ", ".join(f"{clean(name)} {value:.4g}" for name, value in line["components"].items())
    for message in line["messages"]:
        yield from _describe_message(message)


def _describe_message(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    yield f"[{clean(str(message['role']))}]"
    yield from (
        clean_one_to_one(text) for text in (content if isinstance(content, str) else str(content or "")).split("\n")
    )
    if calls := message.get("tool_calls"):
        yield clean_one_to_one(f"tool_calls: {calls}")
