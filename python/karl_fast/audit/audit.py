"""The audit of a dump in one call: columns, measures, findings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast._suggest import ask_whether, nearest
from karl_fast.audit.conventions import reproduce_advantages
from karl_fast.audit.diversity import measure_diversity
from karl_fast.audit.findings import find, headline
from karl_fast.audit.mismatch import measure_mismatch, measure_staleness, read_run_mismatch
from karl_fast.audit.prompts import measure_prompts
from karl_fast.audit.result import Audit
from karl_fast.audit.reward_hacking import measure_forms
from karl_fast.audit.rollouts import FIELDS, Rollouts, read_rollouts
from karl_fast.audit.signal import measure_signal
from karl_fast.audit.write import check_file, named_convention, write_advantages
from karl_fast.errors import NothingToSampleError, UsageError
from karl_fast.export.manifest import accounting, describe_inputs, describe_run
from karl_fast.log import Log
from karl_fast.log.discovery import as_list
from karl_fast.log.exclude import excluded_rows, read_excluded
from karl_fast.log.field_hints import describe_recordless
from karl_fast.pipeline.inspect import open_with_stamps
from karl_fast.pipeline.sample import merge_settings
from karl_fast.pipeline.show import rollouts_of
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import show_keywords

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Unpack

    from karl_fast.export.write import Progress
    from karl_fast.settings.sample_fields import SampleKeywords


@show_keywords(Settings)
def audit(
    logs: Log | str | Path | Iterable[str | Path],
    settings: Settings | None = None,
    *,
    paths: Mapping[str, str] | None = None,
    write: str | Path | None = None,
    convention: str | None = None,
    force: bool = False,
    index: bool = False,
    progress: Progress | None = None,
    measured: Progress | None = None,
    **choices: Unpack[SampleKeywords],
) -> Audit:
    """Audit a dump of rollouts: is there anything to learn in it, and what is wrong with it?

    Args:
        logs: as :func:`karl_fast.inspect` takes them; the folder of a run of `rl` stands for its rollouts.
        settings: where the fields of a record are, and ``exclude``, a file with prompts that must not be learned from;
            ``choices`` change single ones.
        paths: path of a field that is logged under another name than the usual ones: ``advantage``, ``step``,
            ``version``, ``trainer-version``, ``staleness``, ``rollout-logprobs``, ``trainer-logprobs``, ``mask``,
            ``tokens``, ``entropy``, ``outcome``, ``split``, ``finish``.
        write: file to write the records to, with advantages computed anew.
        convention: the one to compute them by; by default the one that reproduces what was logged.
        force: replace that file.
        index: as of :func:`karl_fast.read`.
        progress: called with the bytes read so far and the bytes there are.
        measured: called likewise while the records are read again and measured.

    Returns:
        The audit.

    Raises:
        UsageError: an unknown field or convention; none that reproduces the log, where advantages are to be written.
        NothingToSampleError: no record was read.
        OutputExistsError: the file to write exists.
        KarlError: as :func:`karl_fast.read`.
    """
    merged = merge_settings(logs, settings, choices)
    banned = None if merged.exclude is None else read_excluded(merged.exclude)
    merged = merged.replace(exclude=None)  # their rows are audited, too
    _check_choices(paths, convention)
    if write is not None:
        check_file(Path(write), (), force=force)
    sources = logs if isinstance(logs, Log) else [rollouts_of(path) for path in as_list(logs)]
    with open_with_stamps(sources, merged, progress, index=index) as log:
        if not len(log):
            where = describe_recordless(log.inputs)
            raise NothingToSampleError((f"{where}: " if where else "") + "no record was read")
        rollouts = read_rollouts(log, paths, on_bytes=measured)
        hits = None if banned is None else excluded_rows(log, banned)
        result = measure(log, rollouts, hits, folder=None if isinstance(logs, Log) else _run_folder(as_list(logs)))
        if write is not None:
            result.written = write_advantages(log, result, write, convention, force=force)
        return result


def _check_choices(paths: Mapping[str, str] | None, convention: str | None) -> None:
    """Refuse a field or a convention that there is not, before anything is read."""
    for name in paths or ():
        if name not in FIELDS:
            raise UsageError(
                f"there is no field {name}, wanted one of {', '.join(FIELDS)}", hint=ask_whether(nearest(name, FIELDS))
            )
    if convention is not None:
        named_convention(convention)


def _run_folder(paths: list[str | Path]) -> Path | None:
    """Return the folder of the only run of `rl` that is audited; None for other logs."""
    folder = Path(paths[0]) if len(paths) == 1 and paths[0] != "-" else None
    return folder if folder is not None and rollouts_of(folder) != str(folder) else None


def measure(log: Log, rollouts: Rollouts, excluded: Any = None, *, folder: Path | None = None) -> Audit:
    """Return the audit of rollouts that were read.

    Args:
        log: the log that they are of; its ``seed`` is that of permutations and bootstraps.
        rollouts: its columns.
        excluded: rows with a prompt that must not be learned from. [B]
        folder: of the run of `rl` that wrote them, whose metrics know how far its policies are apart.
    """
    seed = log.settings.seed
    missing = int(np.isnan(rollouts.rewards).sum())
    account = accounting(log, [("kept", len(log) - missing), ("missing_reward", missing)])
    cut = rollouts.truncated[np.isfinite(rollouts.truncated)]
    known = rollouts.rewards[np.isfinite(rollouts.rewards)]
    result = Audit(
        report={"accounting": account, "inputs": describe_inputs(log), "run": describe_run(log)},
        rewards=_describe(known),
        rollouts=rollouts,
        advantages=reproduce_advantages(rollouts),
        signal=measure_signal(rollouts),
        mismatch=measure_mismatch(rollouts) or (read_run_mismatch(folder) if folder is not None else None),
        staleness=measure_staleness(rollouts),
        forms=measure_forms(rollouts, seed=seed),
        prompts=measure_prompts(rollouts, excluded),
        diversity=measure_diversity(rollouts, seed=seed),
        truncated=float(cut.mean()) if len(cut) else None,
    )
    result.findings = find(result)
    result.headline = headline(result)
    return result


def _describe(values: Any) -> dict[str, float | int]:
    if not len(values):
        return {"count": 0}
    numbers = {"mean": values.mean(), "std": values.std(), "min": values.min(), "max": values.max()}
    return {"count": len(values)} | {name: float(number) for name, number in numbers.items()}
