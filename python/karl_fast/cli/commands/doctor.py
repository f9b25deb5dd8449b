"""`karl-fast doctor`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karl_fast import _atomic
from karl_fast._safe_text import in_time
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.doctor import BUDGET, QUICK, examine
from karl_fast.doctor.report import describe_report
from karl_fast.errors import OutputExistsError, UsageError
from karl_fast.export.manifest import dumps
from karl_fast.settings.validation import refuse_empty

if TYPE_CHECKING:
    from karl_fast.doctor import Check, Outcome

DAY = 86_400
"""Seconds."""

Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="A folder, or the name of a model on the Hugging Face hub, which is downloaded. [default: a random model, "
        "made here]",
        show_default=False,
    ),
]
Report = Annotated[
    str | None, typer.Option("--report", help="File for the report, in Markdown. [default: stdout]", show_default=False)
]
Budget = Annotated[
    float, typer.Option("--budget", help="Seconds for all checks; what does not fit is left out by name.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Small sizes: shows what runs, and no speed.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file of --report.")]


@add_command("doctor", epilog="Example: karl-fast doctor --report report.md")
def command(
    *,
    model: Model = None,
    report: Report = None,
    budget: Budget = BUDGET,
    quick: Quick = False,
    force: Force = False,
    json: options.Json = False,
    silent: options.Quiet = False,
) -> None:
    """Check karl-fast on this machine, beside mlx_lm, and report speeds, memory and failures for an issue.

    The report has no name of a user or a host, and no path of a home. Nothing is downloaded unless a model is named,
    and nothing is sent. It takes ten minutes at most. The exit code is 1 if a check failed.
    """
    refuse_empty("a model or a file", model=model, report=report)
    if not 0 < budget <= DAY:
        raise UsageError(f"budget is {budget:g}, wanted seconds from above 0 to {DAY:,}", "budget")
    if report is not None:
        _check_place(Path(report), force=force)
    examination = examine(
        model,
        sizes=QUICK if quick else None,
        budget=budget,
        on_check=(lambda _: None) if silent else _print_check,
        on_outcome=(lambda _: None) if silent else _print_outcome,
    )
    if report is not None:
        text = describe_report(examination)
        _atomic.write_file(Path(report), lambda file: file.write(text.encode()))
    if json:
        print(dumps(examination, plain=True))
    elif report is None:
        print(describe_report(examination), end="")
    if not silent:
        sys.stderr.write(f"wrote {report}; look at it before you publish it\n" if report else "")
    if examination["failed"]:
        raise typer.Exit(1)


def _check_place(path: Path, *, force: bool) -> None:
    """Refuse a place for the report before all the work."""
    _atomic.refuse_special(path)
    if path.exists() and not force:
        raise OutputExistsError(f"{path} exists already")


def _print_check(check: Check) -> None:
    sys.stderr.write(f"{check.name:<19} {check.does:<36} ")
    sys.stderr.flush()


def _print_outcome(outcome: Outcome) -> None:
    reason = f": {outcome.reason}" if outcome.reason else ""
    sys.stderr.write(f"{outcome.status}, {in_time(outcome.seconds)}{reason}\n")
