"""`karl-fast convert`."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karl_fast import _core
from karl_fast._safe_text import clean, counted, in_bytes
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.progress import show_progress
from karl_fast.cli.reports.sample import describe_sums
from karl_fast.cli.reports.text import INDENT, PLACES_SHOWN, describe_counts, describe_places, join_lines
from karl_fast.cli.signals import watch_output
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps
from karl_fast.log.discovery import PARQUET, neighbours_glob
from karl_fast.settings.sample import Settings
from karl_fast.settings.schema import Rate, To
from karl_fast.transcripts.commits import convert_commits
from karl_fast.transcripts.conversion import convert

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.transcripts.conversion import Conversion

TRANSCRIPTS = [name for name, _ in _core.transcripts()]
"""Formats of transcripts."""

GIT = "git"
"""Format of repositories."""

Sources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SOURCE",
        help="Transcripts or logs of rollouts: files, folders, globs, or - for standard input.",
        show_default=False,
    ),
]
Out = Annotated[str | None, typer.Option("--out", "-o", help="The file to write, a .jsonl; never standard output.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help=f"Format of the files: {', '.join(TRANSCRIPTS)}; detected from each by default.",
        autocompletion=lambda: TRANSCRIPTS,
    ),
]
FormatOrGit = Annotated[
    str | None,
    typer.Option(
        "--format",
        help=f"Format of the files: {', '.join(TRANSCRIPTS)}; detected from each by default. "
        "git: the sources are repositories, and each commit becomes a synthetic question, answered by its diff.",
        autocompletion=lambda: [*TRANSCRIPTS, GIT],
    ),
]
ToOption = Annotated[
    To,
    typer.Option(
        "--to",
        help="What to write: trajectories, one for each session; or KARL's records, one for each prompt with tool "
        "calls.",
    ),
]
RateOption = Annotated[
    Rate,
    typer.Option(
        "--rate",
        help="Source of the rewards: log, as logged; result, 1 where the run ended in success, else 0; karl-v1 and "
        "karl-v2, KARL's reward of tool calls; outcomes, the outcome of the work.",
    ),
]
AllowSecrets = Annotated[bool, typer.Option("--allow-secrets", help="Keep secrets, which are replaced by default.")]
Pseudonyms = Annotated[
    str | None,
    typer.Option(
        "--pseudonyms",
        metavar="FILE",
        help="Replace e-mail addresses and the names of users and hosts by pseudonyms; the file has their key, and is "
        "made if it is missing.",
        show_default=False,
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace a file that this command wrote before; no other file is replaced.")
]
MaxLineBytes = Annotated[int, typer.Option("--max-line-bytes", help="Longer lines are dropped and counted.")]
Threads = Annotated[int | None, typer.Option("--threads", help="Threads to use. [default: all cores]")]


@add_command(
    "convert",
    epilog="Example: karl-fast convert ~/.claude/projects -o trajectories.jsonl",
    common="--out --format --rate --force --pseudonyms --json --quiet",
)
def command(
    *,
    sources: Sources = None,
    out: Out = None,
    format: FormatOrGit = None,
    to: ToOption = "trajectory",
    rate: RateOption = "log",
    allow_secrets: AllowSecrets = False,
    pseudonyms: Pseudonyms = None,
    force: Force = False,
    max_line_bytes: MaxLineBytes = Settings.max_line_bytes,
    threads: Threads = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Convert transcripts of agents to trajectories, one line for each session, as sample reads them."""
    sources, out = require_paths(sources, out, "transcript")
    settings = _check_commit_options(rate, to) if format == GIT else {"format": format, "to": to, "rate": rate}
    run = convert_commits if format == GIT else convert
    with show_progress(quiet) as watch:
        account = run(
            sources,
            out,
            **settings,
            allow_secrets=allow_secrets,
            pseudonyms=pseudonyms,
            max_line_bytes=max_line_bytes,
            threads=threads,
            force=force,
            progress=watch("reading"),
        )
    if json:
        print(dumps(dataclasses.asdict(account), plain=True))
    elif not quiet:
        sys.stderr.write(describe_conversion(account, clean(out), rate, allowed=allow_secrets) + "\n")


def require_paths(sources: list[str] | None, out: str | None, what: str) -> tuple[list[str], str]:
    """Return the inputs and the output of a conversion, which a signal that ends it names from here on.

    Raises:
        UsageError: one of them is not given.
    """
    if not sources:
        raise UsageError(f"no {what} given: wanted files, folders, globs, or - for standard input")
    if not out:
        raise UsageError("say where to write: -o FILE")
    watch_output(out)
    return sources, out


def _check_commit_options(rate: str, to: str) -> dict[str, Any]:
    """Return the settings of a conversion of commits, which has none of these.

    Raises:
        UsageError: rewards or KARL's records are asked for.
    """
    for option, value, usual in (("--rate", rate, "log"), ("--to", to, "trajectory")):
        if value != usual:
            raise UsageError(
                f"{option} is {value!r}, and --format is git: commits become trajectories without rewards",
                hint="sample --reward synthetic takes 1 for the reward of each",
            )
    return {}


TYPES_SHOWN = 8

RATES = {
    "log": ": --rate karl-v1 or karl-v2 gives some, result that of the run",
    "result": ": --rate karl-v1 or karl-v2 gives some",
    "outcomes": ": there is no evidence of outcomes",
}
"""Hints for more rewards, by the way of rating that gave none."""


def describe_conversion(account: Conversion, out: str, rate: Rate, *, allowed: bool = False) -> str:
    """Return the report of `convert`; ``rate`` is the source of its rewards, and secrets may be allowed."""
    formats = ", ".join(sorted({file["format"] for file in account.files}))
    if formats == GIT:
        inputs = counted(len(account.files), "repository", "repositories")
        lines = f"commits   {account.lines_read:,} read"
        rewards = "rewards   none: the rows are synthetic, and sample --reward synthetic takes 1 for each"
    else:
        inputs = f"{counted(len(account.files), 'file')}: {in_bytes(account.size_bytes)}"
        lines = f"lines     {account.lines_read:,} read: {_describe_types(account.types)}"
        rewards = _describe_rewards(account, rate) + describe_sums(account.files)
    calls = sum(account.tool_calls.values())
    rejected = account.notes.get("rejected")
    return join_lines(
        [
            f"read      {inputs}, {formats}",
            lines,
            _describe_lines(account),
            *_describe_refused(account),
            f"left      rejected is not used: {counted(rejected, 'record')} of preferences keep it in their source"
            if rejected
            else "",
            f"calls     {calls:,} of tools: {describe_counts(account.tool_calls)}" if calls else "",
            rewards,
            f"written   {_describe_output(account)} to {out}: {in_bytes(account.written_bytes)}",
            _describe_secrets(account, allowed),
            *describe_places(account.files, "bad_lines"),
            *_describe_mistyped(account),
        ]
    )


def _describe_types(types: dict[str, int]) -> str:
    most = sorted(types.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{clean(name) or '(none)'} {count:,}" for name, count in most[:TYPES_SHOWN]]
    more = [f"and {len(most) - TYPES_SHOWN:,} more types"] if len(most) > TYPES_SHOWN else []
    return ", ".join(shown + more)


def _describe_lines(account: Conversion) -> str:
    """Return what became of the lines, and what was noted in those that were used."""
    fates = [
        describe_counts({"used": account.lines_used, "duplicates": account.duplicates}),
        f"dropped: {describe_counts(account.dropped)}" if any(account.dropped.values()) else "",
        f"bad: {describe_counts(account.bad)}" if any(account.bad.values()) else "",
    ]
    notes = {"blank_lines": account.blank_lines, "lines_of_several_records": account.welded_lines, **account.notes}
    blocks = f"left out: {_describe_types(account.blocks)}" if account.blocks else ""
    also = "; ".join(filter(None, (describe_counts(notes), blocks)))
    return INDENT + "; ".join(filter(None, fates)) + (f"\n{INDENT}(also: {also})" if also else "")


def _describe_refused(account: Conversion) -> Iterator[str]:
    for path, why in account.refused:
        yield f"refused   {clean(path)}: {why}"
    parquet = [path for path, _ in account.skipped if path.endswith(PARQUET)]
    if others := [path for path, _ in account.skipped if not path.endswith(PARQUET)]:
        more = ", ..." if len(others) > 1 else ""
        are_not = counted(len(others), "file is not a transcript", "files are not transcripts")
        yield f"passed    {are_not}: {clean(others[0])}{more}"
    if parquet:
        files = counted(len(parquet), "file")
        yield f"passed    {files} of Parquet, which is read where it is named: {clean(neighbours_glob(parquet[0]))}"


def _describe_rewards(account: Conversion, rate: Rate) -> str:
    if account.records:
        known = f"{account.rewarded:,} of {counted(account.records, 'record')}"
        return f"rewards   {known if account.rewarded else 'none: --rate karl-v1 or karl-v2 gives some'}"
    if account.rewarded:
        weights = [f"{name} {weight:g}" for name, _, weight in _core.outcome_components() if weight]
        by = f"; weights: {', '.join(weights)}" if rate == "outcomes" else ""
        return f"rewards   {account.rewarded:,} of {counted(account.trajectories, 'trajectory', 'trajectories')}{by}"
    return f"rewards   none{RATES.get(rate, '')}"


def _describe_output(account: Conversion) -> str:
    of_sub_agents = f" ({account.sub_agents:,} of sub-agents)" if account.sub_agents else ""
    trajectories = counted(account.trajectories, "trajectory", "trajectories") + of_sub_agents
    if account.records:
        return f"{counted(account.records, 'record')} of {trajectories}"
    messages = counted(sum(account.messages.values()), "message")
    return f"{trajectories} with {messages} ({describe_counts(account.messages)})"


def _describe_secrets(account: Conversion, allowed: bool) -> str:
    if not account.secrets:
        return ""
    if not allowed:
        return f"secrets   replaced: {describe_counts(account.secrets)}"
    secrets = counted(sum(account.secrets.values()), "secret stays", "secrets stay")
    return f"warning   {secrets} in it ({describe_counts(account.secrets)}): --allow-secrets was given"


def _describe_mistyped(account: Conversion) -> Iterator[str]:
    for value in account.mistyped[:PLACES_SHOWN]:
        place = f"{clean(value['path'])}, byte {value['offset']}: {clean(value['field'])}"
        yield f"  {place} is {value['came']}, wanted {value['wanted']}"
