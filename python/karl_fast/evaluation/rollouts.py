"""Evaluation of a policy by its rollouts on held-out prompts, alone or against another.

```text
OUT/evaluation.json     settings of the evaluation: it is resumed only under the same
OUT/rollouts.jsonl      attempts of the policy, a log that inspect and sample read
OUT/against.jsonl       attempts of the other one
OUT/result.json         the measures, once all attempts are made
```
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast import _atomic
from karl_fast._user_code import return_to, working_folder
from karl_fast.errors import CheckpointError, OutputExistsError, UsageError
from karl_fast.modeling.checkpoint import ADAPTERS
from karl_fast.modeling.load import require_adapter, require_mlx_lm
from karl_fast.resampling import Measure, PairedDifference, measure, paired_differences
from karl_fast.rl import held_out
from karl_fast.rl.rewards import count_missing
from karl_fast.rl.settings import read_prompts
from karl_fast.settings.validation import refuse_empty

if TYPE_CHECKING:
    from collections.abc import Callable

    from karl_fast.rl.rollout import Rollout
    from karl_fast.rl.settings import Online

BASE = "base"
"""The model without an adapter, as something to compare with."""

IDENTITY, RESULT = "evaluation.json", "result.json"

USED = (
    *("model", "rewards", "environment", "environment_weight", "outcome", "max_tokens", "max_turns"),
    *("max_turn_tokens", "max_depth", "max_children", "max_context", "rollouts_in_flight"),
)
"""Settings of an online run that its attempts depend on."""

SIDES = ("rollouts.jsonl", "against.jsonl")
"""Logs of the policy, and of the one it is compared with."""


@dataclass(frozen=True)
class RolloutSettings:
    """Settings of attempts at held-out prompts.

    Attributes:
        settings: of an online run: its model, rewards, environment and budgets are used.
        prompts: a file of held-out prompts, like those of a run.
        attempts: n, attempts at each prompt.
        temperature: of the attempts; 0 takes the likeliest token.
        solved_at: the least reward of a solved attempt.
        confidence: level of the intervals.
        seed: of the attempts, and of the resamples.
    """

    settings: Online
    prompts: str
    attempts: int = 8
    temperature: float = 1.0
    solved_at: float = 1.0
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise UsageError(f"attempts is {self.attempts}, wanted 1 or more", "attempts")
        if not 0 <= self.temperature < float("inf"):
            raise UsageError(f"temperature is {self.temperature}, wanted a number from 0 on", "temperature")
        if not 0 < self.confidence < 1:
            raise UsageError(f"confidence is {self.confidence}, wanted a number between 0 and 1", "confidence")
        if self.seed < 0:
            raise UsageError(f"seed is {self.seed}, wanted 0 or more", "seed")


@dataclass(frozen=True)
class RolloutEvaluation:
    """Result of an evaluation by rollouts.

    Attributes:
        prompts: number of prompts attempted.
        too_long: number of prompts that do not fit into ``max_context``.
        attempts: attempts at each prompt.
        missing: missing rewards of the policy's attempts, by reason.
        truncated: number of its attempts cut by a budget.
        measures: mean over prompts of each measure, with its interval.
        against: the same of the other policy; None without one.
        differences: paired differences, policy less other; None without one.
        columns: measures of each prompt of the policy, and of the other.
    """

    prompts: int
    too_long: int
    attempts: int
    missing: dict[str, int]
    truncated: int
    measures: dict[str, Measure]
    against: dict[str, Measure] | None = None
    differences: dict[str, PairedDifference] | None = None
    columns: tuple[dict[str, Any], ...] = field(default=(), repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the result without the measures of single prompts."""
        return {name: value for name, value in asdict(replace(self, columns=())).items() if name != "columns"}


def evaluate_rollouts(
    rollouts: RolloutSettings,
    adapter_path: str | Path | None = None,
    *,
    out: str | Path,
    against: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Callable[[str, int, int, list[str]], None] | None = None,
    on_tokens: Callable[[int, int, int], object] | None = None,
    on_remark: Callable[[str], object] | None = None,
) -> RolloutEvaluation:
    """Attempt held-out prompts with a policy, and with another on the same prompts, and compare them.

    ```text
    value = mean over prompts of a measure;   difference = mean over prompts of (policy - other)
    ```

    Both have the same seeds. Prompts are drawn in chunks of ``rollouts_in_flight`` attempts, each with its own seed,
    so that an evaluation that is killed and resumed has the log of one that was not.

    Args:
        rollouts: settings of the attempts.
        adapter_path: the adapter to evaluate; None or ``base`` for the model alone.
        out: the folder to write.
        against: another adapter, or ``base`` for the model alone; None for no comparison.
        resume: continue an evaluation of the same settings, or begin one.
        force: begin anew over an existing evaluation.
        progress: called after each chunk with the log's name, the prompts done, all prompts, and failures in sentences.
        on_tokens: called within a chunk, after each position, with its attempts finished, all its attempts, and the
            tokens generated for it.
        on_remark: called with a remark on an adapter that was trained on another base than the model.

    Returns:
        The measures.

    Raises:
        UsageError: a setting out of range, or prompts that do not fit, or attempts that need more memory than there is.
        ModelError: the model or an adapter is missing, or does not fit.
        OutputExistsError: the folder has an evaluation, and neither `resume` nor `force`.
        OutputForeignError: the folder has something else.
        CheckpointError: the evaluation to resume is of other settings, or its log is damaged.
        FileError: a file cannot be read or written; the attempts made so far are kept.

    Reference: Chen et al. 2021 (arXiv:2107.03374) for pass@k.
    """
    require_mlx_lm()
    from karl_fast.evaluation.attempts import PolicyAttempts  # with MLX, which `require_mlx_lm` has checked

    refuse_empty(out=out, prompts=rollouts.prompts, adapter_path=adapter_path, against=against)
    began, folder = working_folder(), working_folder() / out
    sides = [_existing_adapter(adapter_path)] + ([] if against is None else [_existing_adapter(against)])
    prompts = read_prompts(rollouts.prompts)
    identity = _identity(rollouts, sides)
    fresh = _is_fresh(folder, identity, resume=resume, force=force)
    logs: list[list[Rollout]] = []
    for side, adapter in zip(SIDES, sides, strict=False):
        with return_to(began):
            run = PolicyAttempts(
                rollouts.settings,
                adapter,
                prompts,
                folder / side,
                number=rollouts.attempts,
                temperature=rollouts.temperature,
                seed=rollouts.seed,
                on_remark=on_remark,
            )
        if fresh and not logs:  # only now: prompts or memory may have been refused
            _begin(folder, identity)
        logs.append(run.attempt(progress, on_tokens))
    return _result(rollouts, logs, run.too_long, folder)


def _existing_adapter(path: str | Path | None) -> str | None:
    """Return the path of an adapter that exists; None for the model alone."""
    if path is None or str(path) == BASE:
        return None
    require_adapter(str(path), BASE)
    return str(path)


def _identity(rollouts: RolloutSettings, sides: list[str | None]) -> dict[str, Any]:
    """Return the facts that an evaluation must share with the one it resumes."""
    settings = rollouts.settings.to_dict()
    own = {setting.name: getattr(rollouts, setting.name) for setting in fields(rollouts) if setting.name != "settings"}
    own |= {name: settings[name] for name in USED}
    source = rollouts.prompts.rpartition(":")[0] if ".py:" in rollouts.prompts else rollouts.prompts
    own["prompts_sha256"] = _sha256(Path(source))
    own["adapters"] = [{"path": path, "sha256": path and adapter_hash(path)} for path in sides]
    # By way of JSON, so that tuples and paths compare with what the file has of them.
    return json.loads(json.dumps(own, default=str))  # type: ignore[no-any-return]


def adapter_hash(path: str | Path) -> str:
    """Return the SHA-256 of the weights of an adapter."""
    return _sha256(Path(path) / ADAPTERS)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _is_fresh(folder: Path, identity: dict[str, Any], *, resume: bool, force: bool) -> bool:
    """Return whether an evaluation begins; False if it goes on with the one in the folder, which is checked."""
    _atomic.refuse_file(folder)
    file = folder / IDENTITY
    if file.is_file() and resume:
        _check_same(file, identity)
        return False
    if file.is_file() and not force:
        raise OutputExistsError(
            f"{folder} has an evaluation already", hint="--resume goes on with it, --force begins anew in its place"
        )
    if not force:
        _atomic.refuse_other(folder, ())
    return True


def _begin(folder: Path, identity: dict[str, Any]) -> None:
    """Make the folder of an evaluation, without the files of an earlier one."""
    with _atomic.name_file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name in (IDENTITY, RESULT, *SIDES):
            (folder / name).unlink(missing_ok=True)
    text = json.dumps(identity, indent=1, sort_keys=True) + "\n"
    _atomic.write_file(folder / IDENTITY, lambda file: file.write(text.encode()))


def _check_same(file: Path, identity: dict[str, Any]) -> None:
    try:
        before = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} is damaged") from error
    changed = [name for name in sorted(before.keys() | identity.keys()) if before.get(name) != identity.get(name)]
    if changed:
        raise CheckpointError(
            f"{file.parent} is of another evaluation: other {', '.join(changed)}",
            hint="give the settings that it began with, or another --out",
        )


def _result(rollouts: RolloutSettings, logs: list[list[Rollout]], too_long: int, folder: Path) -> RolloutEvaluation:
    columns = tuple(held_out.attempt_columns(log).columns(solved_at=rollouts.solved_at) for log in logs)
    intervals: dict[str, Any] = {"level": rollouts.confidence, "seed": rollouts.seed}
    evaluation = RolloutEvaluation(
        prompts=len({rollout.prompt.id for rollout in logs[0]}),
        too_long=too_long,
        attempts=rollouts.attempts,
        missing=count_missing(logs[0]),
        truncated=sum(rollout.truncated for rollout in logs[0]),
        measures=measure(columns[0], **intervals),
        against=measure(columns[1], **intervals) if len(columns) > 1 else None,
        differences=paired_differences(columns[0], columns[1], **intervals) if len(columns) > 1 else None,
        columns=columns,
    )
    text = json.dumps(evaluation.to_dict(), indent=1, allow_nan=False) + "\n"
    _atomic.write_file(folder / RESULT, lambda file: file.write(text.encode()))
    return evaluation
