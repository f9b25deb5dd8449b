"""Conversion of transcripts of agents and logs of rollouts to trajectories, or to KARL's records, one line each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karl_fast import _core
from karl_fast.errors import AlreadyConvertedError, UsageError
from karl_fast.log.discovery import PARQUET, skip_reason
from karl_fast.settings.sample import Settings
from karl_fast.settings.validation import check_choice
from karl_fast.transcripts.sources import (
    check_format,
    check_output,
    common_options,
    open_transcripts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from karl_fast.log.discovery import ResolvedLogs
    from karl_fast.settings.schema import Rate, To
    from karl_fast.transcripts.sources import CommonOptions

AFTER_DAYS = 14
"""Days after which a commit is judged."""

KARL_RATES = ("log", "karl-v1", "karl-v2")
"""Sources of rewards for KARL's records; by the default they have none."""


@dataclass(frozen=True)
class Conversion:
    """The account of a conversion.

    Each line read has one outcome: ``lines_read`` = ``lines_used`` + ``duplicates`` + all of ``dropped`` + all of
    ``bad``.

    Attributes:
        trajectories: number written, including those of sub-agents.
        sub_agents: number of them from sub-agents.
        rewarded: number of them with a reward; with ``to="karl"`` the number of records.
        records: number of KARL's records written; 0 unless ``to="karl"``.
        messages: messages by role.
        tool_calls: calls by outcome: ``succeeded``, ``failed``, ``unknown``, ``unanswered``.
        lines_read: lines without blank ones; a document counts as one.
        lines_used: lines converted to messages or parts of them.
        duplicates: lines that occur in several files of one session, or twice in one.
        dropped: lines left out, by reason: ``no_conversation`` (progress, hooks, snapshots and unknown types),
            ``meta``, ``compact_summary``, ``command``, ``interruption``, ``notification``, ``queue_operation``,
            ``unknown_queued_command``, ``copied_message``, ``synthetic``, ``other_branch``, ``unnamed_agent``,
            ``orphan_result``, ``unknown_role``, ``empty``, ``no_text``, ``damaged``; of rollouts ``no_trajectory``,
            ``bad_message``, ``empty_message``, ``unknown_role``, ``bad_weight``, ``bad_system``, ``unparsable``; of
            traces ``bad_graph``, of observations ``no_output``.
        bad: lines that are not records, by reason, as in `karl_fast.read`.
        types: lines by their type, known or not.
        notes: items left out or repaired inside lines that were used: ``no_text``, ``unknown_block``,
            ``unknown_item``, ``unknown_role``, ``orphan_result``, ``bad_message``, ``mended``, ``wrong_type``; messages
            without content: ``empty_message``; calls without a tool name: ``call_without_name``; reasoning without
            a text (encrypted): ``unread_reasoning``; of files with the same
            session: ``copied_session``, ``session_snapshot``, ``continued_session``, ``forked_session``; a fork of
            Codex whose beginning is in a file that was not read: ``missing_history``; texts that Codex added to a
            message: ``injected_text``; several rewards of a trial without one named ``reward``: ``rewards_by_name``;
            steps of a compaction: ``compact_summary``; sub-agents nested too deeply: ``sub_agents_too_deep``;
            records of rollouts that another file also has: ``copied_rollout``; spans of OpenTelemetry and observations
            of Langfuse that were read before: ``repeated_span``; an entry of Pi without its parent:
            ``missing_parent``; with ``to="karl"`` prompts and
            trajectories of which there is no record: ``prompt_without_calls``, ``no_trajectory``.
        blocks: message blocks left out because they are not text, and session items that are not read, by kind.
        secrets: secrets that were replaced, or with ``allow_secrets`` those that stay, by family.
        mistyped: the first hundred values of a wrong type, by file and place: ``path``, ``offset`` (the first byte of
            the line or document), ``field``, what ``came``, what was ``wanted``. The text around them was read.
        files: each transcript with its format, line count and the places of its first bad lines; with
            ``summed_columns`` where its reward is a sum of columns.
        refused: files of unsupported tools and damaged files, each with the reason.
        skipped: other files of the folders, each with the reason.
        size_bytes: bytes read, unpacked.
        written_bytes: bytes written.
        blank_lines: blank lines.
        welded_lines: lines with several records; all were read.
    """

    trajectories: int
    sub_agents: int
    rewarded: int
    records: int
    messages: dict[str, int]
    tool_calls: dict[str, int]
    lines_read: int
    lines_used: int
    duplicates: int
    dropped: dict[str, int]
    bad: dict[str, int]
    types: dict[str, int]
    notes: dict[str, int]
    blocks: dict[str, int]
    secrets: dict[str, int]
    mistyped: list[_core.MistypedFacts]
    files: list[_core.FileFacts]
    refused: list[tuple[str, str]]
    skipped: list[tuple[str, str]]
    size_bytes: int
    written_bytes: int
    blank_lines: int
    welded_lines: int


def convert(
    sources: str | Path | Iterable[str | Path],
    out: str | Path,
    *,
    format: str | None = None,
    to: To = "trajectory",
    rate: Rate = "log",
    allow_secrets: bool = False,
    pseudonyms: str | Path | None = None,
    max_line_bytes: int = Settings.max_line_bytes,
    threads: int | None = None,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Conversion:
    """Convert transcripts of agents, or logs of rollouts, to one file of canonical trajectories, written atomically.

    Write one line a session and one for each of its sub-agents, or one a rollout. The page ``trajectory`` of the manual
    describes it; every other function of karl-fast reads the file as any log.

    Args:
        sources: files, folders, globs or ``-``, as `karl_fast.read` takes them: ``~/.claude/projects``, say. A
            file ``.parquet`` needs the extra ``arrow``.
        out: the file to write, ``trajectories.jsonl``; missing parent folders are created.
        format: format of the transcripts, one of ``_core.transcripts()``; detected from each file by default.
        to: what is written. ``trajectory``: one trajectory a session and sub-agent. ``karl``: KARL's records, one a
            prompt with calls of tools, as its taps write them, annotated by the next prompt.
        rate: source of the rewards. ``log``: from the log, if it has one. ``result``: from the end of the run if the
            log has it, 1 for success, else 0. ``karl-v1``, ``karl-v2``: KARL's reward of the calls of tools, as
            `karl_fast.reward.compute_reward` gives it. ``outcomes``: from the outcome of the work, which is
            written too, as `karl_fast.outcomes` finds it, by the weights of ``_core.outcome_components()``.
            KARL's records take ``karl-v1`` and ``karl-v2``, and have no reward by default: ``backfill_rewards``
            computes it.
        allow_secrets: keep secrets, which are replaced by default as in `karl_fast.sample`.
        pseudonyms: file with the key of pseudonyms, made if it is missing: e-mail addresses, and the names of users and
            hosts, are replaced in what is written, alike under one key. None leaves them.
        max_line_bytes: longer lines are dropped and counted.
        threads: number of threads; all cores by default. The output does not depend on it.
        force: replace an existing file of trajectories, or of KARL's records if all of them were converted; no other
            file is ever replaced.
        progress: called with the bytes read so far and the bytes there are, as `karl_fast.read` does.

    Raises:
        FileError: a file cannot be read, or the output cannot be written.
        LogError: a named file is not a transcript, or there is no conversation; names the first damaged line.
        BadRewardError: the first damage is an invalid reward.
        MissingExtraError: a Parquet file without pyarrow.
        AlreadyConvertedError: a named file already contains trajectories.
        PackedError, EncodingError: a named file has an unsupported compression or is not UTF-8.
        LogChangedError: a file changed while it was read, other than at its end.
        OutputExistsError: the output exists.
        UsageError: an unknown format, no file, a limit below 1, an output with the suffix of a packed file, or a file
            that is not a key of pseudonyms.
    """
    check_format(format)
    check_choice("to", to, ("trajectory", "karl"))
    if to == "karl" and rate not in KARL_RATES:
        raise UsageError(
            f"rate is {rate!r}, and to is 'karl': wanted {' or '.join(KARL_RATES[1:])}",
            "rate",
            hint="without --rate the records have no reward yet, and KARL's backfill computes it",
        )
    check_output(out, "trajectories.jsonl")
    options = common_options(
        allow_secrets=allow_secrets, pseudonyms=pseudonyms, max_line_bytes=max_line_bytes, threads=threads
    )
    place = _core.Target.karl_records if to == "karl" else _core.Target.trajectories
    with open_transcripts(sources, out, place, format=format, force=force, rewarded=rate != "log") as (logs, target):
        if rate == "outcomes":
            return account_of(_convert_with_outcomes(logs, target, format, options, progress), logs)
        weights = [0.0, 0.0, 0.0]  # only the rates of KARL read them
        if rate in KARL_RATES[1:]:
            from karl_fast.reward import karl  # NumPy comes with it

            weights = karl.weights()
        try:
            facts = _core.convert(
                logs.files, target, format=format, to=to, rate=rate, weights=weights, progress=progress, **options
            )
        except AlreadyConvertedError as error:
            if to == "karl":
                error.hint = "give the transcripts that they were converted from: records are made of those"
            raise
    return account_of(facts, logs)


def _convert_with_outcomes(
    logs: ResolvedLogs,
    target: _core.Target,
    format: str | None,
    options: CommonOptions,
    progress: Callable[[int, int], None] | None,
) -> _core.ConversionFacts:
    """Convert transcripts with their outcomes, and rewards from these; return the account of the conversion."""
    facts = _core.outcomes(
        logs.files,
        target,
        format=format,
        rate=True,
        reports=(),
        repositories=(),
        after_days=AFTER_DAYS,
        pull_requests=(),
        progress=progress,
        **options,
    )
    converted = facts["converted"]
    assert converted is not None, "without transcripts the conversion raises"
    converted["rewarded"], converted["written_bytes"] = facts["rewarded"], facts["written_bytes"]
    if not options["allow_secrets"]:
        converted["secrets"] = facts["secrets"]
    return converted


PAIRS = ("messages", "tool_calls", "dropped", "bad", "types", "notes", "blocks", "secrets")
"""Counts by name that the extension returns as pairs."""


def account_of(facts: Any, logs: ResolvedLogs | None = None) -> Conversion:
    """Return the account of a conversion, with the files skipped by name."""
    values = dict(facts)
    if logs is not None:
        values["skipped"] = [*values["skipped"], *logs.skipped]
        sums = {name: {"summed_columns": {reward.name: reward.columns}} for name, reward in logs.summed}
        values["files"] = [file | sums.get(file["path"], {}) for file in values["files"]]
        for path in logs.passed:
            kind = "skipped" if path.endswith(PARQUET) else "refused"
            values[kind] = [*values[kind], (path, skip_reason(path))]
    return Conversion(**(values | {name: dict(values[name]) for name in PAIRS}))
