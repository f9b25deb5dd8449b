"""Rollouts of a dump as columns: the fields that trainers log beside a reward, under the names that they use.

```text
records, 64 MiB at a time -> Row (numbers of one record) -> Rollouts: columns in the order of the log's rows
```

Texts and tokens are not kept: a row keeps counts of its words, a hash of its answer, and sums over its tokens. Words
themselves are kept of the first rows of each step, for measures of diversity.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _core, _seen_hashes
from karl_fast.audit.token_sums import TokenSums, token_sums
from karl_fast.diversity.answers import words_of
from karl_fast.log.record_fields import is_reward, value_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from karl_fast.log import Log

    Column = NDArray[np.float64]
    Codes = NDArray[np.int64]

WINDOW_BYTES = 64 << 20
"""Bytes of records that are parsed at a time."""

WORDS_OF_STEP = 20_000
"""Words that are kept of each step: enough for its diversity, few enough for thousands of steps."""

FIELDS: dict[str, tuple[str, ...]] = {
    "advantage": ("advantage", "advantages", "adv"),
    "step": (
        *("step", "global_step", "global_steps", "training_step", "train_step", "rollout_id", "round", "iteration"),
    ),
    "version": ("policy_version", "weight_version", "weight_versions", "policy_step", "version"),
    "trainer-version": ("trainer_version", "trained_version", "trainer_step", "trained_step"),
    "staleness": ("staleness", "off_policy_steps", "off_policy_level"),
    "rollout-logprobs": (
        *("rollout_log_probs", "rollout_logprobs", "inference_logprobs", "sampling_logprobs", "sampler_logprobs"),
        *(
            "sampling_per_token_logps",
            "behavior_logprobs",
            "behavior_log_probs",
            "completion_logprobs",
            "tokens.logp",
            "logprobs",
        ),
    ),
    "trainer-logprobs": (
        *("trainer_log_probs", "trainer_logprobs", "train_log_probs", "old_log_probs", "old_logprobs"),
        *("old_per_token_logps", "log_probs", "per_token_logps"),
    ),
    "mask": ("loss_mask", "response_mask", "completion_mask", "action_mask"),
    "tokens": (
        *("response_length", "completion_length", "num_output_tokens", "output_tokens", "completion_tokens"),
        *("token_usage.output_tokens", "usage.completion_tokens", "response_tokens", "completion_len", "num_tokens"),
    ),
    "entropy": ("entropy", "mean_entropy", "entropies"),
    "outcome": (
        *("outcome", "correct", "accuracy", "acc", "is_correct", "solved", "resolved", "success", "passed"),
        *("exact_match", "reward_accuracy", "correct_reward", "accuracy_reward", "correctness_reward_func"),
    ),
    "split": ("split",),
    "finish": ("is_truncated", "truncated", "finish", "finish_reason", "stop_reason", "stop_condition", "status"),
}
"""Names of each field in dumps, the most exact first.

slime writes `rollout_log_probs` and `weight_versions`, verl `old_log_probs`, TRL `sampling_per_token_logps` and
`old_per_token_logps`, prime-rl `num_output_tokens` and `off_policy_steps`, verifiers `token_usage`, karl-fast `round`,
`version` and `tokens`.
"""

HOLDERS = ("", "components.", "metrics.", "reward_components.", "rewards.", "info.")
"""Objects of a record that may hold the outcome beside its rewards."""

CUT = ("length", "max_tokens", "max_output_tokens", "truncated", "max_turns")
"""Reasons of an end that are a limit."""


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Columns of a dump, in the order of the log's rows; NaN or -1 where a row has no value. B rows.

    Attributes:
        names: id of each row, or its number.
        rewards: rewards. [B]
        groups: number of the group that shares a baseline: the group of the log in one step, or rows of equal prompts
            in one step where the log has no groups. [B]
        group_names: name of each group.
        by_prompt: True where the log has no groups, and rows of equal prompts were taken for one.
        steps: step of the trainer. [B]
        advantages: logged advantages; NaN where tokens of one rollout differ. [B]
        per_token: rows whose tokens have advantages that differ.
        ages: steps between the policy that generated and the one that learned. [B]
        tokens: length of the answer, in ``unit``. [B]
        unit: ``tokens``, or ``words`` where no length is logged.
        outcomes: outcome beside the reward. [B]
        truncated: 1 where a limit ended the answer, 0 where it did not. [B]
        splits: number of the split, by ``split_names``. [B]
        prompts: number of the prompt. [B]
        prompt_steps: number of the prompt in one step. [B]
        answers: hash of the answer. [B]
        repetition: share of pairs of words that occurred before in the answer. [B]
        markup: headings, list items, fences and bold parts for each hundred words. [B]
        entropies: mean entropy of a token, as logged, or minus the mean log-probability of what was drawn. [B]
        sums: sums over tokens where both log-probabilities are logged.
        words: words of the first answers of each step: their codes, and the row of each answer.
        fields: path of each field that was read.
        unread: rows whose value of a field could not be read, by field.
    """

    names: list[str]
    rewards: Column
    groups: Codes
    group_names: list[str]
    by_prompt: bool
    steps: Column
    advantages: Column
    per_token: int
    ages: Column
    tokens: Column
    unit: str
    outcomes: Column
    truncated: Column
    splits: Codes
    split_names: list[str]
    prompts: Codes
    prompt_steps: Codes
    answers: Codes
    repetition: Column
    markup: Column
    entropies: Column
    sums: TokenSums
    words: list[tuple[int, list[int]]]
    fields: dict[str, str]
    unread: dict[str, int]

    def __len__(self) -> int:
        return len(self.rewards)


@dataclass
class _Columns:
    """Columns while they grow, a row at a time."""

    names: list[str] = field(default_factory=list)
    numbers: dict[str, list[float]] = field(default_factory=dict)
    splits: list[str | None] = field(default_factory=list)
    prompts: list[str | None] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    sums: list[TokenSums] = field(default_factory=list)
    words: list[tuple[int, list[int]]] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)
    held: Counter[float] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, number: float) -> None:
        self.numbers.setdefault(name, []).append(number)


def read_rollouts(
    log: Log, paths: Mapping[str, str] | None = None, *, on_bytes: Callable[[int, int], None] | None = None
) -> Rollouts:
    """Read the records of a log again, and return what they hold beside their rewards.

    Args:
        log: the log.
        paths: path of a field of ``FIELDS`` where its usual names do not fit.
        on_bytes: called with the bytes of records read so far, about, and those there are.

    Returns:
        The columns.

    Raises:
        LogChangedError, FileError: a file is no longer what it was, or cannot be read.
    """
    columns, first, used = _Columns(), 0, dict(paths or {})
    while first < len(log):
        window = _core.answered(log.core, first, WINDOW_BYTES, log.settings.threads)
        rows = [_parse(text) for text in window]
        if not first or len(used) < len(FIELDS):
            used = _find_fields([row[2] for row in rows if row is not None], used)
        _read_window(columns, rows, first, used)
        first += len(window)
        if on_bytes is not None:
            size = sum(file["size_bytes"] for file in log.inputs)
            on_bytes(size * first // len(log), size)
    return _to_rollouts(log, columns, used)


def _parse(text: str | None) -> list[Any] | None:
    """Return the prompt, the answer and the record of a row; None of one that is damaged or nested too deeply."""
    try:
        row: list[Any] | None = None if text is None else json.loads(text, parse_int=_integer)
    except RecursionError:
        return None
    return row


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 4300 else float(digits)  # the limit of Python for int of a text


def _find_fields(records: Sequence[dict[str, Any]], known: Mapping[str, str]) -> dict[str, str]:
    """Return the path of each field: the first of its names with a value in any of some records."""
    some = [_parsed(record) for record in records[:: max(1, len(records) // 256)]]
    paths = dict(known)
    for name, keys in FIELDS.items():
        candidates = [holder + key for holder in HOLDERS for key in keys] if name == "outcome" else keys
        fits = _FITS.get(name, lambda value: value is not None)
        for path in candidates:
            if name not in paths and any(fits(value_at(record, path)) for record in some):
                paths[name] = path
    return paths


def _parsed(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with its metrics as an object where they are a JSON text, as prime-rl writes them."""
    texts = {name: record[name] for name in ("metrics", "info") if isinstance(record.get(name), str)}
    for name, text in texts.items():
        try:
            record = record | {name: json.loads(text)}
        except ValueError:
            continue
    return record


def _number(value: Any) -> float:
    """Return a number that counts, as a reward does: within 1e100 in size; NaN for anything else."""
    return float(value) if is_reward(value) else math.nan


def _is_number(value: Any) -> bool:
    return not math.isnan(_number(value))


def _numbers(value: Any) -> NDArray[np.float32] | None:
    """Return a list of numbers, a list of such lists, or base64 of little-endian float32; None for anything else."""
    if isinstance(value, str):
        try:
            return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4").astype(np.float32)
        except ValueError:
            return None
    if not isinstance(value, list):
        return None
    flat = [one for part in value for one in part] if value and isinstance(value[0], list) else value
    # An integer of any size may stand in a log, and some have no float.
    if not all(isinstance(one, float | bool) or (isinstance(one, int) and abs(one) < 1 << 63) for one in flat):
        return None
    with np.errstate(over="ignore"):
        return np.array(flat, dtype=np.float64).astype(np.float32)


_FITS: dict[str, Callable[[Any], bool]] = {
    "tokens": lambda value: _number(value) > 0,  # 0 is unknown in hosted prime-rl
    "outcome": _is_number,
    "rollout-logprobs": lambda value: _numbers(value) is not None,
    "trainer-logprobs": lambda value: _numbers(value) is not None,
    "mask": lambda value: _numbers(value) is not None,
    "split": lambda value: isinstance(value, str),
    "finish": lambda value: isinstance(value, bool | str),
    "advantage": lambda value: _is_number(value) or _numbers(value) is not None,
    "entropy": lambda value: _is_number(value) or _numbers(value) is not None,
}
"""Values that a field can have; any but None where it is not here."""


def _read_window(columns: _Columns, rows: Sequence[list[Any] | None], first: int, used: Mapping[str, str]) -> None:
    """Add the rows of a window to the columns."""
    drawn: list[NDArray[np.float32] | None] = []
    learned: list[NDArray[np.float32] | None] = []
    for place, row in enumerate(rows):
        prompt, answer, record = row if row is not None else ([], [], {})
        record = _parsed(record)
        values = {name: value_at(record, path) for name, path in used.items()}
        columns.names.append(str(record.get("id", first + place)))
        columns.splits.append(values.get("split") if isinstance(values.get("split"), str) else None)
        columns.prompts.append(
            _seen_hashes.prompt_hash(_seen_hashes.messages_of({"prompt": prompt})) if prompt else None
        )
        pair = _logprobs(values, columns.unread)
        drawn.append(pair[0])
        learned.append(pair[1])
        _add_numbers(columns, values, record, pair[0])
        _add_answer(columns, answer, first + place)
    columns.sums.append(token_sums(drawn, learned))


def _logprobs(
    values: Mapping[str, Any], unread: Counter[str]
) -> tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]:
    """Return the log-probabilities of the sampler and of the trainer, of the tokens that count."""
    mask = _numbers(values.get("mask"))
    pair = []
    for name in ("rollout-logprobs", "trainer-logprobs"):
        numbers = _numbers(values.get(name))
        if numbers is None and values.get(name) is not None:
            unread[name] += 1
        elif numbers is not None and mask is not None and len(mask) == len(numbers):
            numbers = numbers[mask > 0]
        pair.append(numbers)
    drawn, learned = pair
    if drawn is not None and learned is not None and len(drawn) != len(learned):
        unread["trainer-logprobs"] += 1
        learned = None
    return drawn, learned


def _add_numbers(
    columns: _Columns, values: Mapping[str, Any], record: Mapping[str, Any], drawn: NDArray[np.float32] | None
) -> None:
    """Add the numbers of a record."""
    for name in ("step", "trainer-version", "staleness", "outcome"):
        columns.add(name, _number(values.get(name)))
    columns.add("version", _version(values.get("version")))
    columns.add("advantage", _advantage(values.get("advantage"), values.get("mask"), columns.unread))
    columns.add("truncated", _truncated(values.get("finish")))
    tokens = _number(values.get("tokens"))
    columns.add("tokens", tokens if tokens > 0 else math.nan if drawn is None else float(len(drawn)))
    entropy = _numbers(values.get("entropy"))
    mean = float(entropy.mean()) if entropy is not None and len(entropy) else _number(values.get("entropy"))
    if math.isnan(mean) and drawn is not None and len(drawn):
        mean = -float(drawn.mean(dtype=np.float64))
    columns.add("entropy", mean)


def _version(value: Any) -> float:
    """Return the version of a policy; the oldest of several, as a rollout that was resumed has them."""
    if isinstance(value, list):
        numbers = [_version(one) for one in value]
        return min((one for one in numbers if not math.isnan(one)), default=math.nan)
    if isinstance(value, str):
        return float(value) if value.isdecimal() else math.nan
    return _number(value)


def _advantage(value: Any, mask: Any, unread: Counter[str]) -> float:
    """Return the advantage of a rollout; of a list of its tokens', that of those that count, if they are equal."""
    tokens = _numbers(value)
    if tokens is None:
        return _number(value)
    counts = _numbers(mask)
    own = tokens[counts > 0] if counts is not None and len(counts) == len(tokens) else tokens
    if len(own) and own.min() == own.max():
        # The number as it was written: an array of float32 would round it.
        return float(np.asarray(value, dtype=np.float64).ravel()[0]) if counts is None else float(own[0])
    unread["advantage"] += 1
    return math.nan


def _truncated(value: Any) -> float:
    if isinstance(value, str):
        return float(any(word in value.lower() for word in CUT))
    return _number(value)


def _add_answer(columns: _Columns, answer: Any, row: int) -> None:
    """Add the hash of an answer, its length in words, its repetition and its markup."""
    words = words_of(answer)
    text = _text_of(answer)
    digest = hashlib.blake2b(json.dumps(answer, sort_keys=True).encode("utf-8", "surrogatepass"), digest_size=8)
    columns.answers.append(int.from_bytes(digest.digest(), "little", signed=True) if words else row)
    pairs = list(pairwise(words))
    columns.add("words", float(len(words)))
    columns.add("repetition", 1 - len(set(pairs)) / len(pairs) if pairs else math.nan)
    columns.add("markup", 100 * _marks(text) / len(words) if words else math.nan)
    step = columns.numbers["step"][-1]
    if words and columns.held[step] < WORDS_OF_STEP:
        columns.held[step] += len(words)
        columns.words.append((row, [columns.codes.setdefault(word, len(columns.codes)) for word in words]))


def _text_of(answer: Any) -> str:
    if isinstance(answer, str):
        return answer
    parts = [message.get("content") for message in answer or () if isinstance(message, dict)]
    return "\n".join(part for part in parts if isinstance(part, str))


def _marks(text: str) -> int:
    """Count headings, list items, fences, and pairs of bold signs."""
    lines = [line.lstrip() for line in text.split("\n")]
    heads = sum(line.startswith(("#", "- ", "* ", "```", "|")) for line in lines)
    return heads + text.count("**") // 2


def _find_groups(log: Log, columns: _Columns, steps: Column, prompts: Codes) -> tuple[Codes, list[str], bool]:
    """Return the group of each row, their names, and whether rows of equal prompts were taken for one."""
    groups, names = _groups_by_step(log, steps)
    by_prompt = not (groups >= 0).any() and len(np.unique(prompts[prompts >= 0])) < int((prompts >= 0).sum())
    if by_prompt:
        groups = _pair_codes(prompts, steps)
        names = [f"the prompt of row {columns.names[row]}" for row in np.unique(groups, return_index=True)[1]]
        names = names[1:] if (groups < 0).any() else names
    return groups, names, by_prompt


def _to_rollouts(log: Log, columns: _Columns, used: dict[str, str]) -> Rollouts:
    """Return the columns as arrays."""
    count = len(log)
    numbers = {name: np.array(values, dtype=np.float64) for name, values in columns.numbers.items()}
    empty = np.full(count, np.nan)
    steps, words = numbers.get("step", empty), numbers.get("words", empty)
    tokens, prompts = numbers.get("tokens", empty), _codes(columns.prompts)
    unit = "tokens" if count and np.isfinite(tokens).all() else "words"
    groups, names, by_prompt = _find_groups(log, columns, steps, prompts)
    held = columns.splits if any(name is not None for name in columns.splits) else _splits_by_file(log)
    splits = sorted({name for name in held if name is not None})
    return Rollouts(
        names=columns.names,
        rewards=log.rewards,
        groups=groups,
        group_names=names,
        by_prompt=by_prompt,
        steps=steps,
        advantages=numbers.get("advantage", empty),
        per_token=columns.unread.pop("advantage", 0),
        ages=_ages(numbers, used),
        tokens=tokens if unit == "tokens" else words,
        unit=unit,
        outcomes=numbers.get("outcome", empty),
        truncated=numbers.get("truncated", empty),
        splits=_codes(held, splits),
        split_names=splits,
        prompts=prompts,
        prompt_steps=_pair_codes(prompts, steps),
        answers=np.array(columns.answers, dtype=np.int64),
        repetition=numbers.get("repetition", empty),
        markup=numbers.get("markup", empty),
        entropies=numbers.get("entropy", empty),
        sums=TokenSums.joined(columns.sums),
        words=columns.words,
        fields=used,
        unread=dict(columns.unread),
    )


def _codes(names: Sequence[str | None], known: Iterable[str] = ()) -> Codes:
    numbers = {name: code for code, name in enumerate(known)}
    return np.array([-1 if name is None else numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)


def _pair_codes(codes: Codes, steps: Column) -> Codes:
    """Number the pairs of a code and a step; -1 where there is no code."""
    pairs = np.stack([codes.astype(np.float64), np.where(np.isnan(steps), -1.0, steps)], axis=1)
    _, inverse = np.unique(pairs, axis=0, return_inverse=True)
    return np.where(codes < 0, -1, inverse.reshape(-1)).astype(np.int64)


def _groups_by_step(log: Log, steps: Column) -> tuple[Codes, list[str]]:
    """Return the groups of the log, parted by step: a prompt that is drawn again later is another group."""
    groups, names = log.groups, log.group_names
    parted = _pair_codes(groups, steps)
    kept = parted[groups >= 0]
    if len(np.unique(kept)) == len(np.unique(groups[groups >= 0])):
        return groups, names
    numbers, first, inverse = np.unique(kept, return_index=True, return_inverse=True)
    codes = np.full(len(groups), -1, dtype=np.int64)
    codes[groups >= 0] = inverse.reshape(-1)
    rows = np.flatnonzero(groups >= 0)[first]
    return codes, [f"{names[groups[row]]} at step {steps[row]:g}" for row in rows][: len(numbers)]


SPLITS = {"train": "train", "valid": "valid", "validation": "valid", "val": "valid", "test": "test", "eval": "eval"}
"""Split of a file by the first word of its name: `train_rollouts.jsonl` of prime-rl, `valid.jsonl` of a data set."""


def _splits_by_file(log: Log) -> list[str | None]:
    """Return the split of each row by the name of its file; None where the names of the files are not of splits."""
    by_path = {file["path"]: SPLITS.get(re.split(r"[_.-]", Path(file["path"]).name)[0]) for file in log.inputs}
    if len(set(by_path.values()) - {None}) < 2:
        return [None] * len(log)
    return [by_path.get(_core.place(log.core, row)[0]) for row in range(len(log))]


def _ages(numbers: Mapping[str, Column], used: Mapping[str, str]) -> Column:
    """Return how many steps each rollout was old when it was learned: as logged, or the trainer's version less its own.

    A step and a version count in the same unit where the first step is that of the first version and neither grows
    faster; rounds of several optimizer steps do not.
    """
    stale = numbers.get("staleness", np.empty(0))
    if np.isfinite(stale).any():
        return stale
    version, trainer = numbers.get("version", stale), numbers.get("trainer-version", stale)
    if np.isfinite(trainer).any() and np.isfinite(version).any():
        return trainer - version
    steps = numbers.get("step", stale)
    both = np.isfinite(steps) & np.isfinite(version) if len(version) else np.zeros(len(steps), dtype=np.bool_)
    if not both.any() or used.get("version") == used.get("step"):
        return np.full(len(steps), np.nan)
    ages = steps - version
    # Where a version is ahead of the step, the two count different things.
    return ages if ages[both].min() >= 0 else np.full(len(steps), np.nan)


def batches_of(codes: Codes) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of each code that is not negative, in order of codes."""
    order = np.argsort(codes, kind="stable")
    order = order[codes[order] >= 0]
    yield from np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else ()
