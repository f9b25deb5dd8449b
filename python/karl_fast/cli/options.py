"""The options that commands share, each said once."""

from __future__ import annotations

from typing import Annotated

import typer

from karl_fast.errors import UsageError

Logs = Annotated[list[str], typer.Argument(metavar="LOG...", help="Files, folders, globs, or - for standard input.")]
Format = Annotated[
    str | None,
    typer.Option("--format", help="generic or tau-bench; found by looking at a record if absent.", rich_help_panel="Fields"),
]
Id = Annotated[
    str | None, typer.Option("--id", help="Path of the record's id; several, by commas, are joined.", rich_help_panel="Fields")
]
Group = Annotated[
    str | None, typer.Option("--group", help="Path of what rollouts share: the task or prompt.", rich_help_panel="Fields")
]
Reward = Annotated[
    str | None,
    typer.Option(
        "--reward", help="Path of the reward, or components with weights: outcome=0.5,cost=-0.1.", rich_help_panel="Fields"
    ),
]
Messages = Annotated[
    str | None, typer.Option("--messages", help="Path of the conversation.", rich_help_panel="Fields")
]
Domain = Annotated[
    str | None, typer.Option("--domain", help="Path of a category to report by.", rich_help_panel="Fields")
]
Score = Annotated[
    str, typer.Option("--score", help="What is tempered: raw, centre, zscore or leave-one-out.", rich_help_panel="Target")
]
Ddof = Annotated[int, typer.Option("--ddof", help="zscore: divisor of the variance is n - ddof.", rich_help_panel="Target")]
Eps = Annotated[float, typer.Option("--eps", help="zscore: added to the deviation.", rich_help_panel="Target")]
Ess = Annotated[
    float | None,
    typer.Option(
        "--ess",
        help="Effective sample size wanted, as a share of the kept rows; 0.5 unless a temperature is given.",
        rich_help_panel="Target",
    ),
]
InverseTemperature = Annotated[
    float | None,
    typer.Option("--inverse-temperature", help="b of exp(b * score), instead of --ess.", rich_help_panel="Target"),
]
PartitionBy = Annotated[
    str,
    typer.Option("--partition-by", help="What log Z is taken over: global, group, or a field's path.", rich_help_panel="Target"),
]
MinReward = Annotated[
    float | None, typer.Option("--min-reward", help="Drop rows with a smaller reward.", rich_help_panel="Rules")
]
DropConstantGroups = Annotated[
    bool,
    typer.Option("--drop-constant-groups", help="Drop groups whose rewards are all equal.", rich_help_panel="Rules"),
]
MaxPerGroup = Annotated[
    int | None, typer.Option("--max-per-group", help="Draw at most so many rows of a group.", rich_help_panel="Rules")
]
Dedup = Annotated[
    bool, typer.Option("--dedup", help="Of identical trajectories in a group, keep one.", rich_help_panel="Rules")
]
Seed = Annotated[int, typer.Option("--seed", help="Same seed, records and settings: same bytes.")]
Strict = Annotated[bool, typer.Option("--strict", help="Fail (exit 3) at the first row that is no record.")]
MaxLineBytes = Annotated[int, typer.Option("--max-line-bytes", help="Longer records are dropped and counted.")]
Threads = Annotated[int | None, typer.Option("--threads", help="Threads to read with; all cores if absent.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout instead of text.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Accepted as in sample: inspect never writes.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]


def weights(text: str | None) -> dict[str, float] | None:
    """`outcome=0.5,cost=-0.1` to weights by path; a path alone has weight 1."""
    if text is None:
        return None
    parts = [part.strip().partition("=") for part in text.split(",")]
    try:
        found = {path: float(weight) if equals else 1.0 for path, equals, weight in parts}
    except ValueError as error:
        raise UsageError(f"reward is {text!r}, wanted a path or path=weight,path=weight") from error
    if len(found) < len(parts) or not all(found):
        raise UsageError(f"reward is {text!r}, wanted each component once and named")
    return found


def given(**choices: object) -> dict[str, object]:
    """The choices that were made: the others keep their defaults."""
    return {name: value for name, value in choices.items() if value is not None}
