"""`karl-fast audit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.cli.progress import show_progress
from karl_fast.cli.sample_body import logs_of
from karl_fast.errors import UsageError
from karl_fast.export.manifest import dumps
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import READ, RUN
from karl_fast.settings.toml import SettingsFile

if TYPE_CHECKING:
    from karl_fast.audit.result import Audit
    from karl_fast.cli.progress import Watch

Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--field",
        metavar="NAME=PATH",
        help="Path of a field that is logged under another name than the usual ones: advantage=adv.value. Others are "
        "step, version, trainer-version, staleness, rollout-logprobs, trainer-logprobs, mask, tokens, entropy, "
        "outcome, split and finish.",
        show_default=False,
    ),
]
Exclude = Annotated[
    str | None,
    options.option(Settings, "exclude", "File with prompts of a benchmark: rows whose prompt is or contains one."),
]
Write = Annotated[
    str | None,
    typer.Option(
        "--write", metavar="FILE", help="Write the records with advantages computed anew.", show_default=False
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        "--convention",
        help="With --write: trl, verl, openrlhf, mlx-lm-lora, prime-rl, tinker, dr-grpo, rloo or opo. [default: the "
        "one that reproduces what was logged]",
        show_default=False,
    ),
]
PageFile = Annotated[
    str | None,
    typer.Option("--page", metavar="FILE", help="Write a page of HTML with plots and rows, too.", show_default=False),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the files of --write and --page.")]


@add_command(
    "audit",
    epilog=options.epilog("--reward", "the file of --config", "karl-fast audit rollouts/ --exclude benchmark.jsonl"),
    common="--field --exclude --page --write --convention --force --group --reward --config",
)
@options.add_log_settings(READ, RUN)
def command(
    *,
    settings: Settings,
    config: SettingsFile | None,
    logs: options.Logs = None,
    field: Fields = None,
    exclude: Exclude = None,
    write: Write = None,
    convention: By = None,
    page: PageFile = None,
    force: Force = False,
    index: options.Index = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Audit a dump of RL rollouts: is there anything to learn, and what is wrong with it?"""
    from karl_fast.audit.audit import audit  # with NumPy, which the help does without
    from karl_fast.cli.reports.audit import describe_audit

    if convention is not None and write is None:
        raise UsageError("--convention says how --write computes advantages, and there is no --write")
    if page is not None:
        _refuse_page(page, write, logs_of(logs, config))
    target = None if page is None else _check_page(page, force)
    with show_progress(quiet) as watch:
        result = audit(
            logs_of(logs, config),
            settings if exclude is None else settings.replace(exclude=exclude),
            paths=_paths(field or ()),
            write=write,
            convention=convention,
            force=force,
            index=index,
            progress=watch("reading"),
            measured=watch("measuring"),
        )
        if target is not None:
            _write_page(result, logs_of(logs, config), target, settings, watch("packing"))
    print(dumps(result.to_dict(), plain=True) if json else describe_audit(result))


def _refuse_page(page: str, write: str | None, logs: list[str]) -> None:
    if "-" in logs:
        raise UsageError(
            "--page reads the log twice, and standard input is there once", hint="name a file in its place"
        )
    if write is not None and Path(page).resolve() == Path(write).resolve():
        raise UsageError(f"--page and --write name the same file, {page}")


def _check_page(path: str, force: bool) -> Path:
    from karl_fast.page.report import check_page_path

    return check_page_path(path, force=force)


def _write_page(result: Audit, logs: list[str], target: Path, settings: Settings, packing: Watch | None) -> None:
    from karl_fast.page.audit_page import audit_page
    from karl_fast.page.report import add_rows, save_page
    from karl_fast.page.rows import ROWS
    from karl_fast.pipeline.show import rollouts_of

    page = audit_page(result, ", ".join(logs))
    add_rows(page, [rollouts_of(path) for path in logs], settings.replace(exclude=None), ROWS, None, packing)
    save_page(page, target)


def _paths(fields: list[str] | tuple[str, ...]) -> dict[str, str]:
    """Return the path of each field that the command line names."""
    paths = {}
    for text in fields:
        name, sign, path = text.partition("=")
        if not (name and sign and path):
            raise UsageError(f"--field is {text!r}, wanted NAME=PATH, as advantage=adv.value")
        paths[name] = path
    return paths
