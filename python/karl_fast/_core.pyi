"""Types of the extension module; held against the built module by ``mypy.stubtest``."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NotRequired, TypedDict, final, type_check_only

import numpy as np
from numpy.typing import NDArray

from karl_fast.reward.karl import Calls
from karl_fast.typing import ArrowArray, ArrowStream, Floats, Integers, Reals

__all__ = [
    "DEBUG",
    "VERSION",
    "Alias",
    "BetaPosterior",
    "Draft",
    "Export",
    "Log",
    "LogSplits",
    "LogSumExp",
    "Moments",
    "Selection",
    "Target",
    "Top",
    "VarOpt",
    "accuracy_error",
    "age_distribution",
    "answered",
    "awr_weights",
    "best_at_k",
    "best_of_k",
    "boltzmann",
    "bootstrap_mean",
    "build_facts",
    "by_convention",
    "centre",
    "check_clip",
    "choose_tokens",
    "collect",
    "columns_needed",
    "composite",
    "constant_groups",
    "conventions",
    "convert",
    "convert_commits",
    "coverage",
    "data_set_rows",
    "delight",
    "delight_gate",
    "discounted_returns",
    "distinct_n",
    "draw",
    "draw_priority",
    "draw_var_opt",
    "draw_with_inclusion",
    "effective_number",
    "ema_baseline",
    "empg",
    "entropy",
    "ess",
    "evenness",
    "exponential_decay",
    "file_digest",
    "fixed_baseline",
    "formats",
    "gdpo",
    "gigpo",
    "gini",
    "gumbel_keys",
    "importance_log_weights",
    "inclusion",
    "karl_backfill",
    "karl_column_rewards",
    "karl_efficiency",
    "karl_longest_failure",
    "karl_outcome",
    "karl_process",
    "karl_reward",
    "karl_rewards",
    "karl_rewards_in",
    "karl_stored",
    "karl_stored_rewards",
    "kl_categorical",
    "kl_categorical_gradient",
    "kl_estimate",
    "kl_gradient",
    "kl_in_reward",
    "kondo_price",
    "largest",
    "learnability",
    "leave_one_out",
    "log_mean_exp",
    "log_sum_exp",
    "log_sum_exp_by",
    "low_ratio_negatives",
    "maxrl",
    "mixed_group_probability",
    "mixed_groups",
    "mutual_information",
    "nearest_rate",
    "ngram_gram",
    "objective_balance",
    "objective_correction",
    "objective_likelihood",
    "objective_linear_term",
    "objective_policy_gradient",
    "objective_preference",
    "objective_target_policy",
    "outcome_components",
    "outcome_variance",
    "outcomes",
    "overlong",
    "pairs",
    "partition_baseline",
    "pass_at_k",
    "place",
    "policy_loss",
    "power_decay",
    "prioritised",
    "probability_difference",
    "pseudonymous",
    "read",
    "reasons",
    "redacted",
    "regression_intercept",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
    "reservoir",
    "reservoir_of",
    "rewarded",
    "rewards_of",
    "rwr_weights",
    "segment_weights",
    "self_bleu",
    "sequence_log_ratio",
    "set_scores",
    "shaped",
    "shrunk",
    "sign_flip",
    "sign_flip_limit",
    "soft_overlong_penalty",
    "soft_value",
    "stale",
    "starved",
    "stream",
    "surprisal",
    "threshold",
    "token_log_ratio",
    "token_weights",
    "top",
    "tpo_target",
    "transcript_by_keys",
    "transcripts",
    "tree_roots",
    "uniforms",
    "variance_top",
    "vendi_ngrams",
    "weighted_reservoir",
    "weighted_reservoir_of",
    "whiten",
    "window_decay",
    "zscore",
]

VERSION: str
DEBUG: bool

@type_check_only
class BuildFacts(TypedDict):
    target: str
    profile: str
    rustc: str
    abi: str
    simd: str

def build_facts() -> BuildFacts: ...

@type_check_only
class BadRow(TypedDict):
    reason: str
    line: int
    offset: int
    key: NotRequired[str]
    value: NotRequired[str]

@type_check_only
class BesideFacts(TypedDict):
    path: str
    key: str
    number: int | None
    problem: str | None

@type_check_only
class InputFacts(TypedDict):
    path: str
    codec: str
    layout: str
    format: str
    fields: list[tuple[str, str]]
    beside: BesideFacts | None
    keys: list[str]
    size_bytes: int
    modified_seconds: float
    rows_read: int
    dropped: list[tuple[str, int]]
    bad_rows: list[BadRow]
    blank_lines: int
    welded_lines: int
    duplicate_keys: int
    without_id: int
    unusable_domains: int
    orders: list[tuple[str, int, int]]

@type_check_only
class DomainFacts(TypedDict):
    listed: list[tuple[str, int, int]]
    others: int | None
    other_rows: int

@type_check_only
class GroupFacts(TypedDict):
    count: int
    comparable: int
    constant_at_top: int
    constant_at_bottom: int
    constant_other: int

@type_check_only
class SelectionFacts(TypedDict):
    verdicts: list[tuple[str, int]]
    kept: int
    duplicates_with_other_reward: int | None
    groups: GroupFacts | None
    ungrouped: int
    inverse_temperature: float
    wanted_ess: float | None
    tempered_share: float
    reached_ess: float
    reached_share: float
    note: str | None
    log_z: LogZ
    largest_weight_share: float
    expected_reward: float

@type_check_only
class LogZ(TypedDict):
    scopes: int
    min: float | None
    max: float | None
    values: list[float] | None

@type_check_only
class Stratum(TypedDict):
    name: str | None
    kept: int
    budget: int
    drawn: int

@type_check_only
class SummaryFacts(TypedDict):
    count: int
    mean: float
    std: float
    min: float
    max: float
    histogram: tuple[list[float], list[int]] | None

@type_check_only
class Tempered(TypedDict):
    inverse_temperature: float
    ess: float
    share: float
    top_share: float
    expected_reward: float

@type_check_only
class DraftFacts(TypedDict):
    rows: list[int]
    shape: str | None
    dropped: list[tuple[str, int]]
    trimmed_rows: int
    trimmed_messages: int
    reasoning_left_out: int
    label_above: float | None
    doubled_rows: int
    secrets: list[tuple[str, int]]
    splits: list[int]
    split_quotas: list[float]
    split_groups: list[int]
    merged_into_train: list[int]
    larger_split: tuple[list[float], list[int]] | None
    duplicates: int
    threshold: float | None
    over_group_cap: int
    strata: list[Stratum]
    strata_count: int

@type_check_only
class FailedRow(TypedDict):
    reason: str
    path: str
    offset: int

@final
class Log:
    def __len__(self) -> int: ...
    @property
    def components(self) -> int: ...
    @property
    def compared(self) -> str | None: ...
    @property
    def weighted(self) -> bool: ...
    @property
    def streamed(self) -> tuple[int, int] | None: ...
    def arrow_stream(self, *, components: list[str], weights: list[float], partition: bool) -> object: ...
    def arrow_schema(self, *, components: list[str], weights: list[float], partition: bool) -> object: ...
    def with_columns(
        self,
        frame: ArrowArray | ArrowStream,
        *,
        reward: str | None = None,
        group: str | None = None,
        domain: str | None = None,
        log_weight: str | None = None,
    ) -> tuple[Log, int, bool]: ...
    def inputs(self) -> list[InputFacts]: ...
    def skipped(self) -> list[tuple[str, str]]: ...
    def refused(self) -> list[tuple[str, str]]: ...
    def hashes(self, whole: bool) -> list[str]: ...
    def component(self, index: int) -> NDArray[np.float64]: ...
    def keys(self) -> NDArray[np.uint64]: ...
    def order(self) -> NDArray[np.float64] | None: ...
    def codes(self, name: str) -> NDArray[np.int64]: ...
    def names(self, name: str) -> list[str]: ...
    def distinct(self, name: str) -> int: ...
    def count_of(self, name: str, rows: list[int]) -> tuple[list[int], int]: ...
    def domains(self, rows: list[int] | None = None) -> DomainFacts: ...
    def mixed_numbers(self, name: str) -> tuple[int, list[str]] | None: ...
    def duplicates(self) -> tuple[int, int | None]: ...
    def estimate_duplicates(self, seed: int, bytes: int, threads: int) -> DuplicateFacts: ...
    def lengths(self) -> list[int] | None: ...
    def record_lengths(self) -> NDArray[np.float64]: ...
    def group_sizes(self) -> list[int] | None: ...
    def outcomes(self, threads: int) -> OutcomeFacts | None: ...

_Form = tuple[str, str | None, str, int | None, str]

@final
class LogSplits:
    def __new__(
        cls,
        *,
        format: str | None = None,
        id: str | None = None,
        group: str | None = None,
        reward: list[str] | None = None,
        messages: str | None = None,
        prompt: str | None = None,
        completion: str | None = None,
        system: str | None = None,
        tools: str | None = None,
        domain: str | None = None,
        partition: str | None = None,
        order: str | None = None,
        max_line_bytes: int,
        compare: str | None = None,
        domain_asked: bool,
        strict: bool,
        threads: int,
    ) -> LogSplits: ...
    def probe(self, head: str, name: str, optional: bool, part: bool) -> tuple[bool, _Form | None]: ...
    def file_parts(self, name: str, form: _Form) -> list[str | None]: ...
    def scan(
        self,
        copy: str,
        name: str,
        form: _Form,
        *,
        range: tuple[int, int] | None = None,
        frames: tuple[int, int] | None = None,
        base: int = 0,
    ) -> tuple[bytes, bool, bool]: ...
    @staticmethod
    def records(
        copy: str, name: str, places: list[tuple[int, int]], *, start: tuple[int, int] = ...
    ) -> list[bytes]: ...
    @staticmethod
    def unpacked_size(copy: str, name: str, frames: tuple[int, int], base: int) -> int | None: ...
    @staticmethod
    def is_sound(part: bytes) -> bool: ...
    def join(
        self,
        spool: str,
        parts: list[tuple[int, int, int]],
        *,
        copies: list[tuple[int, str, int, float]],
        fetch: Callable[[list[tuple[int, int, int]]], object] | None = None,
    ) -> Log: ...

@type_check_only
class DuplicateFacts(TypedDict):
    groups: int
    groups_compared: int
    rows_compared: int
    rows_left_out: int
    copies_compared: int
    copies: float
    error_95: float

@type_check_only
class ComponentFacts(TypedDict):
    name: str
    known: int
    mean: float
    constant: bool
    length: tuple[int, float] | None

@type_check_only
class TogetherFacts(TypedDict):
    components: tuple[str, str]
    rows: int
    correlation: float

@type_check_only
class OutcomeFacts(TypedDict):
    rows: int
    rows_known: int
    components: list[ComponentFacts]
    correlations: list[TogetherFacts]

@final
class Selection:
    def __new__(
        cls,
        log: Log,
        *,
        weights: list[float],
        shaping: tuple[float, float, float] | None = None,
        score: str,
        scores: NDArray[np.float64] | None = None,
        ddof: int,
        eps: float,
        min_reward: float | None = None,
        drop_constant_groups: bool,
        variance_top_p: float | None = None,
        dedup: bool,
        partition_by: str,
        ess: float | None = None,
        inverse_temperature: float | None = None,
        half_life: float | None = None,
        log_factors: NDArray[np.float64] | None = None,
        sampler: str,
        seed: int,
        threads: int,
    ) -> Selection: ...
    @property
    def available(self) -> int: ...
    def facts(self) -> SelectionFacts: ...
    def temper(self, inverse_temperatures: list[float]) -> list[Tempered]: ...
    def summaries(
        self, component: int | None = None, rows: list[int] | None = None
    ) -> tuple[SummaryFacts, SummaryFacts, SummaryFacts | None]: ...
    def score_summary(self) -> SummaryFacts: ...

@final
class Export:
    def __new__(
        cls,
        *,
        shape: str,
        allow_secrets: bool,
        pseudonyms: tuple[bytes, list[str], list[str]] | None = None,
        prepared: Literal["held", "judged", "unread"],
        fractions: tuple[float, float, float],
        fewest: int,
        seed: int,
        threads: int,
        max_per_group: int | None = None,
        judge: Callable[[str], str | None] | None = None,
        per: tuple[str, str] | None = None,
    ) -> Export: ...
    def judged(self) -> Export: ...

@final
class Draft:
    @staticmethod
    def of(selection: Selection, count: int, export: Export) -> Draft: ...
    @staticmethod
    def given(
        log: Log,
        rows: Integers,
        rewards: Floats,
        scores: Floats,
        log_weights: Floats,
        export: Export,
    ) -> Draft: ...
    def facts(self) -> DraftFacts: ...
    @property
    def failed_rows(self) -> list[FailedRow]: ...
    @property
    def media(self) -> dict[str, int]: ...
    @property
    def size_bytes(self) -> int: ...
    def lines(self, split: int, first: int, bytes: int) -> list[str]: ...
    def line_rows(self, split: int) -> list[int]: ...
    def write(
        self,
        target: Target,
        manifest: Callable[[list[tuple[str, int, str]]], str],
        beside: dict[str, bytes],
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> bool: ...

def answered(log: Log, first: int, bytes: int, threads: int) -> list[str | None]: ...
def place(log: Log, row: int) -> tuple[str, int]: ...
def rewarded(log: Log, components: list[NDArray[np.float64]], reward: NDArray[np.float64]) -> Log: ...
def rewards_of(log: Log, weights: list[float]) -> NDArray[np.float64]: ...
def read(
    files: list[tuple[str, str, bool]],
    *,
    format: str | None = None,
    id: str | None = None,
    group: str | None = None,
    reward: list[str] | None = None,
    messages: str | None = None,
    prompt: str | None = None,
    completion: str | None = None,
    system: str | None = None,
    tools: str | None = None,
    domain: str | None = None,
    partition: str | None = None,
    order: str | None = None,
    max_line_bytes: int,
    compare: str | None = None,
    domain_asked: bool,
    strict: bool,
    threads: int,
    progress: Callable[[int, int], None] | None = None,
) -> Log: ...
def stream(
    path: tuple[str, str],
    *,
    kept: str,
    weights: list[float],
    min_reward: float | None,
    shaping: tuple[float, float, float] | None = None,
    inverse_temperature: float,
    seed: int,
    room: int,
    format: str | None = None,
    id: str | None = None,
    group: str | None = None,
    reward: list[str] | None = None,
    messages: str | None = None,
    prompt: str | None = None,
    completion: str | None = None,
    system: str | None = None,
    tools: str | None = None,
    domain: str | None = None,
    max_line_bytes: int,
    domain_asked: bool,
    strict: bool,
    threads: int,
    progress: Callable[[int, int], None] | None = None,
) -> Log: ...
def formats() -> list[tuple[str, str]]: ...
def columns_needed(
    columns: list[str],
    *,
    format: str | None = None,
    id: str | None = None,
    group: str | None = None,
    reward: list[str] | None = None,
    messages: str | None = None,
    prompt: str | None = None,
    completion: str | None = None,
    system: str | None = None,
    tools: str | None = None,
    domain: str | None = None,
    partition: str | None = None,
    order: str | None = None,
) -> list[str] | None: ...

# convert

@type_check_only
class FileFacts(TypedDict):
    path: str
    format: str
    lines_read: int
    bad: list[tuple[str, int]]
    bad_lines: list[BadRow]
    summed_columns: NotRequired[dict[str, list[str]]]

@type_check_only
class MistypedFacts(TypedDict):
    path: str
    offset: int
    field: str
    came: str
    wanted: str

@type_check_only
class ConversionFacts(TypedDict):
    files: list[FileFacts]
    refused: list[tuple[str, str]]
    skipped: list[tuple[str, str]]
    size_bytes: int
    lines_read: int
    lines_used: int
    types: list[tuple[str, int]]
    blocks: list[tuple[str, int]]
    duplicates: int
    dropped: list[tuple[str, int]]
    bad: list[tuple[str, int]]
    blank_lines: int
    welded_lines: int
    trajectories: int
    sub_agents: int
    rewarded: int
    records: int
    messages: list[tuple[str, int]]
    tool_calls: list[tuple[str, int]]
    notes: list[tuple[str, int]]
    secrets: list[tuple[str, int]]
    mistyped: list[MistypedFacts]
    written_bytes: int

def convert(
    files: Sequence[tuple[str, str, bool]],
    target: Target,
    *,
    format: str | None = None,
    to: str,
    rate: str,
    weights: list[float],
    allow_secrets: bool,
    pseudonyms: tuple[bytes, list[str], list[str]] | None = None,
    max_line_bytes: int,
    threads: int,
    progress: Callable[[int, int], None] | None = None,
) -> ConversionFacts: ...
def convert_commits(
    repositories: Sequence[Path],
    target: Target,
    *,
    allow_secrets: bool,
    pseudonyms: tuple[bytes, list[str], list[str]] | None = None,
    max_line_bytes: int,
    threads: int,
    progress: Callable[[int, int], None] | None = None,
) -> ConversionFacts: ...

# outcomes

@type_check_only
class OutcomesFacts(TypedDict):
    converted: ConversionFacts | None
    files: list[FileFacts]
    written: int
    dropped: list[tuple[str, int]]
    known: int
    rewarded: int
    components: list[tuple[str, int, float]]
    repositories: int
    without_repository: list[tuple[str, int]]
    commits: int
    secrets: list[tuple[str, int]]
    size_bytes: int
    written_bytes: int

def outcome_components() -> list[tuple[str, bool, float]]: ...
def outcomes(
    files: Sequence[tuple[str, str, bool]],
    target: Target,
    *,
    format: str | None = None,
    rate: bool,
    reports: Sequence[str],
    repositories: Sequence[str],
    after_days: int,
    pull_requests: Sequence[str],
    allow_secrets: bool,
    pseudonyms: tuple[bytes, list[str], list[str]] | None = None,
    max_line_bytes: int,
    threads: int,
    progress: Callable[[int, int], None] | None = None,
) -> OutcomesFacts: ...

# archive

@type_check_only
class CollectedFacts(TypedDict):
    files: int
    grown: int
    unchanged: int
    reread: int
    lines: int
    duplicates: int
    size_bytes: int
    written_bytes: int
    failed: list[tuple[str, str]]

def collect(
    files: Sequence[tuple[str, Path, str, str, Path | None]],
    archive: Path,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> CollectedFacts: ...
def data_set_rows(path: Path, stamped: bool) -> dict[str, Any]: ...

# pairs

@type_check_only
class PairFacts(TypedDict):
    converted: ConversionFacts
    sessions: int
    candidates: list[tuple[str, int]]
    pairs: list[tuple[str, int]]
    dropped: list[tuple[str, int]]
    secrets: list[tuple[str, int]]
    written_bytes: int

def pairs(
    files: Sequence[tuple[str, str, bool]],
    target: Target,
    *,
    format: str | None = None,
    shape: str,
    allow_secrets: bool,
    pseudonyms: tuple[bytes, list[str], list[str]] | None = None,
    max_line_bytes: int,
    threads: int,
    progress: Callable[[int, int], None] | None = None,
) -> PairFacts: ...

@final
class Target:
    @staticmethod
    def data_set(path: Path, *, force: bool) -> Target: ...
    @staticmethod
    def trajectories(path: Path, *, force: bool) -> Target: ...
    @staticmethod
    def karl_records(path: Path, *, force: bool) -> Target: ...
    @staticmethod
    def pairs(path: Path, *, force: bool) -> Target: ...
    @staticmethod
    def parquet(path: Path, *, force: bool) -> Target: ...
    @property
    def path(self) -> Path: ...
    def put(self, file: Path) -> None: ...

def transcripts() -> list[tuple[str, str]]: ...
def transcript_by_keys(keys: list[str], fills_file: bool) -> tuple[str | None, str | None]: ...
def redacted(text: str) -> str: ...
def file_digest(path: Path) -> tuple[int, str]: ...
def pseudonymous(text: str, names: tuple[bytes, list[str], list[str]]) -> str: ...

# advantage
def centre(
    rewards: Reals, group_ids: Integers | None = None, *, offsets: Integers | None = None
) -> NDArray[np.float64]: ...
def zscore(
    rewards: Reals,
    group_ids: Integers | None = None,
    *,
    offsets: Integers | None = None,
    ddof: int = 0,
    eps: float = 1e-6,
    scope: Literal["group", "batch", "global"] = "group",
) -> NDArray[np.float64]: ...
def leave_one_out(
    rewards: Reals, group_ids: Integers | None = None, *, offsets: Integers | None = None
) -> NDArray[np.float64]: ...
def best_of_k(rewards: Reals, group_ids: Integers, *, k: int) -> NDArray[np.float64]: ...
def tree_roots(parents: Integers) -> NDArray[np.int64]: ...
def segment_weights(
    parents: Integers, rows: Integers, tokens: Integers, *, credit: Literal["tokens", "calls"] = "tokens"
) -> NDArray[np.float64]: ...
def maxrl(
    rewards: Reals, group_ids: Integers | None = None, *, offsets: Integers | None = None, eps: float = 1e-8
) -> NDArray[np.float64]: ...
def partition_baseline(
    rewards: Reals,
    group_ids: Integers | None = None,
    *,
    offsets: Integers | None = None,
    inverse_temperature: float,
) -> NDArray[np.float64]: ...
def shrunk(
    rewards: Reals,
    group_ids: Integers | None = None,
    *,
    offsets: Integers | None = None,
    strength: float = 10.0,
    floor: float = 0.02,
    min_count: int = 5,
) -> NDArray[np.float64]: ...
def gdpo(
    rewards: Sequence[Reals],
    weights: Sequence[float],
    group_ids: Integers | None = None,
    *,
    offsets: Integers | None = None,
    ddof: int = 1,
    eps: float = 1e-4,
    batch: bool = True,
) -> NDArray[np.float64]: ...
def fixed_baseline(rewards: Reals, *, baseline: float = 0.5, temperature: float = 1.0) -> NDArray[np.float64]: ...
def ema_baseline(
    rewards: Reals,
    group_ids: Integers | None,
    *,
    offsets: Integers | None,
    alpha: float,
    start: float,
    ids: Integers,
    baselines: Floats,
) -> dict[str, Any]: ...
def whiten(
    values: Reals, mask: NDArray[np.bool_] | None = None, *, ddof: int = 1, eps: float = 1e-8
) -> NDArray[np.float64]: ...
def reinforce_plus_plus(
    rewards: Reals,
    offsets: Integers,
    *,
    mask: NDArray[np.bool_] | None = None,
    gamma: float = 1.0,
    ddof: int = 1,
    eps: float = 1e-8,
) -> NDArray[np.float64]: ...
def reinforce_plus_plus_baseline(
    rewards: Reals,
    group_ids: Integers | None = None,
    *,
    offsets: Integers | None = None,
    token_offsets: Integers,
    mask: NDArray[np.bool_] | None = None,
    ddof: int = 1,
    eps: float = 1e-8,
) -> NDArray[np.float64]: ...
def discounted_returns(rewards: Reals, offsets: Integers, *, gamma: float) -> NDArray[np.float64]: ...
def gigpo(
    rewards: Reals,
    offsets: Integers,
    group_ids: Integers | None,
    state_ids: Integers,
    *,
    group_offsets: Integers | None,
    gamma: float,
    step_weight: float,
    unit: Literal["trajectory", "step"],
    norm: Literal["mean_std", "mean"],
    ddof: int,
    eps: float,
) -> dict[str, Any]: ...
def set_scores(
    vectors: Floats, sets: Integers, directions: Floats, number: int, samples: int
) -> NDArray[np.float64]: ...
def empg(
    advantages: Reals,
    entropies: Reals,
    offsets: Integers,
    *,
    fade: float = 1.0,
    bonus_fade: float = 1.0,
    bonus: float = 0.05,
    eps: float = 1e-8,
) -> NDArray[np.float64]: ...
def conventions() -> list[dict[str, Any]]: ...
def by_convention(
    name: Literal["trl", "verl", "openrlhf", "mlx_lm_lora", "tinker", "prime_rl"],
    rewards: Reals,
    group_ids: Integers | None = None,
    *,
    offsets: Integers | None = None,
) -> NDArray[np.float64]: ...

# curriculum
def mixed_group_probability(rates: Reals, *, size: int) -> NDArray[np.float64]: ...
def outcome_variance(rates: Reals) -> NDArray[np.float64]: ...
def nearest_rate(rates: Reals, k: int, *, target: float = 0.5, ids: Integers | None = None) -> NDArray[np.int64]: ...

@final
class BetaPosterior:
    def __new__(cls, a: float = 1.0, b: float = 1.0) -> BetaPosterior: ...
    def __len__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, tuple[bytes]]: ...
    @property
    def prior(self) -> tuple[float, float]: ...
    @property
    def ids(self) -> NDArray[np.int64]: ...
    @property
    def successes(self) -> NDArray[np.uint64]: ...
    @property
    def failures(self) -> NDArray[np.uint64]: ...
    def update(self, ids: Integers, successes: Integers, trials: Integers) -> None: ...
    def merge(self, other: BetaPosterior) -> None: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def mean(self) -> NDArray[np.float64]: ...
    def variance(self) -> NDArray[np.float64]: ...
    def quantile(self, probability: float) -> NDArray[np.float64]: ...
    def thompson(self, *, seed: int) -> NDArray[np.float64]: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(data: bytes) -> BetaPosterior: ...

# diversity
def distinct_n(tokens: Integers, offsets: Integers, n: int = 2) -> float: ...
def self_bleu(
    tokens: Integers, offsets: Integers, n: int = 4, *, smoothing: Literal["none", "add-one"] = "none"
) -> NDArray[np.float64]: ...
def vendi_ngrams(tokens: Integers, offsets: Integers, n: int) -> float: ...
def ngram_gram(tokens: Integers, offsets: Integers, n: int) -> NDArray[np.float64]: ...
def pass_at_k(rollouts: Integers, successes: Integers, k: int) -> NDArray[np.float64]: ...
def best_at_k(
    rewards: Reals, group_ids: Integers | None = None, *, offsets: Integers | None = None, k: int
) -> NDArray[np.float64]: ...
def entropy(weights: Reals) -> float: ...
def evenness(weights: Reals) -> float: ...
def effective_number(weights: Reals, *, order: int = 1) -> float: ...
def gini(weights: Reals) -> float: ...
def coverage(weights: Reals) -> float: ...
def mutual_information(inputs: Integers, outputs: Integers) -> dict[str, Any]: ...

# filter
def reasons() -> list[str]: ...
def constant_groups(
    outcomes: Reals,
    group_ids: Integers | None = None,
    *,
    offsets: Integers | None = None,
    rewards: Reals | None = None,
) -> dict[str, Any]: ...
def mixed_groups(
    right: NDArray[np.bool_], group_ids: Integers | None = None, *, offsets: Integers | None = None
) -> dict[str, Any]: ...
def variance_top(
    rewards: Reals,
    group_ids: Integers | None = None,
    *,
    offsets: Integers | None = None,
    p: float | None = None,
    k: int | None = None,
    ddof: int = 0,
) -> dict[str, Any]: ...
def overlong(lengths: Integers, *, max_tokens: int, truncated: NDArray[np.bool_] | None = None) -> dict[str, Any]: ...
def soft_overlong_penalty(
    lengths: Integers,
    *,
    max_tokens: int,
    cache_tokens: int,
    form: Literal["dapo", "verl", "openrlhf"] = "dapo",
    factor: float | None = None,
) -> NDArray[np.float64]: ...
def stale(versions: Integers, *, now: int, max_age: int) -> dict[str, Any]: ...
def low_ratio_negatives(
    tokens: tuple[Reals, Reals, Integers, NDArray[np.bool_] | None], advantages: Reals, delta: float
) -> dict[str, Any]: ...
def probability_difference(
    tokens: tuple[Reals, Reals, Integers, NDArray[np.bool_] | None], advantages: Reals, low: float, high: float
) -> dict[str, Any]: ...
def starved(
    keep: NDArray[np.bool_],
    rewards: Reals,
    group_ids: Integers | None = None,
    *,
    offsets: Integers | None = None,
    min_group: int = 2,
) -> tuple[int, int, int]: ...

# kl
def kl_estimate(
    logp: Reals,
    logp_ref: Reals,
    *,
    estimator: Literal["k1", "k2", "k3"],
    logp_old: Reals | None = None,
    mask: NDArray[np.bool_] | None = None,
) -> NDArray[Any]: ...
def kl_gradient(
    logp: Reals,
    logp_ref: Reals,
    *,
    estimator: Literal["k1", "k2", "k3"],
    logp_old: Reals | None = None,
    mask: NDArray[np.bool_] | None = None,
    through_ratio: bool = False,
) -> NDArray[Any]: ...
def kl_in_reward(
    rewards: Reals,
    logp: Reals,
    logp_ref: Reals,
    offsets: Integers,
    *,
    kl_coef: float,
    mask: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]: ...
def kl_categorical(
    logits: Reals, logits_ref: Reals, vocabulary: int, direction: Literal["reverse", "forward"]
) -> NDArray[np.float64]: ...
def kl_categorical_gradient(
    logits: Reals, logits_ref: Reals, vocabulary: int, direction: Literal["reverse", "forward"]
) -> NDArray[Any]: ...

# ratio
def token_log_ratio(
    logp: Reals, logp_old: Reals, *, mask: NDArray[np.bool_] | None = None
) -> NDArray[np.float64] | NDArray[np.float32]: ...
def sequence_log_ratio(
    logp: Reals,
    logp_old: Reals,
    offsets: Integers,
    *,
    mask: NDArray[np.bool_] | None = None,
    product: bool = False,
) -> NDArray[np.float64]: ...
def token_weights(
    offsets: Integers,
    *,
    mask: NDArray[np.bool_] | None = None,
    aggregate: object,
    denominator: float | None = None,
) -> NDArray[np.float64]: ...
def check_clip(clip: object) -> None: ...
def policy_loss(
    logp: Reals,
    logp_old: Reals,
    advantages: Reals,
    offsets: Integers,
    *,
    mask: NDArray[np.bool_] | None = None,
    turn_offsets: Integers | None = None,
    level: Literal["token", "turn", "sequence", "sequence-product", "sequence-token"],
    per: Literal["sequence", "turn", "token"],
    clip: object,
    aggregate: object,
    denominator: float | None = None,
    log_ratio_clamp: float | None = None,
) -> dict[str, Any]: ...

@type_check_only
class _Evaluation(TypedDict):
    loss: float
    coefficients: NDArray[Any]
    statistics: dict[str, float]
    log_z_coefficients: NotRequired[NDArray[np.float64]]

def objective_correction(
    logp_old: Reals,
    logp_rollout: Reals,
    mask: NDArray[np.bool_],
    offsets: Integers,
    *,
    level: str,
    low: float,
    high: float,
    drop: bool,
) -> tuple[NDArray[np.float64], dict[str, float]]: ...
def objective_policy_gradient(
    logp: Reals,
    mask: NDArray[np.bool_],
    offsets: Integers,
    advantages: Floats,
    *,
    logp_old: Reals | None = None,
    logp_ref: Reals | None = None,
    turns: Integers | None = None,
    row_weights: Floats | None = None,
    ratio: str,
    clip: object,
    kl: object,
    aggregate: object,
    denominator: float,
) -> _Evaluation: ...
def objective_balance(
    logp: Reals,
    mask: NDArray[np.bool_],
    offsets: Integers,
    rewards: Floats,
    *,
    logp_old: Reals | None = None,
    logp_ref: Reals | None = None,
    groups: Integers | None = None,
    log_z: Floats | None = None,
    anchor: str | None,
    mean: bool,
    scale: tuple[float, float],
    width: float,
    choice: tuple[float, float] | None = None,
    weight: tuple[bool, float, float] | None = None,
    denominator: float,
) -> _Evaluation: ...
def objective_target_policy(
    logp: Reals,
    mask: NDArray[np.bool_],
    offsets: Integers,
    targets: Floats,
    groups: Integers,
    *,
    logp_old: Reals | None = None,
    mean: bool,
    denominator: float,
) -> _Evaluation: ...
def objective_likelihood(
    logp: Reals,
    mask: NDArray[np.bool_],
    offsets: Integers,
    weights: Floats,
    *,
    logp_old: Reals | None = None,
    term: object,
    aggregate: object,
    denominator: float,
) -> _Evaluation: ...
def objective_preference(
    logp: Reals,
    mask: NDArray[np.bool_],
    offsets: Integers,
    preferred: NDArray[np.bool_],
    *,
    logp_ref: Reals | None = None,
    pairs: Integers | None = None,
    baselines: Floats | None = None,
    anchor: str | None,
    mean: bool,
    margin: object,
    link: object,
    likelihood: float,
    denominator: float,
) -> _Evaluation: ...
def objective_linear_term(
    values: Reals, mask: NDArray[np.bool_], offsets: Integers, factor: float, aggregate: object, denominator: float
) -> tuple[float, NDArray[Any], float]: ...

# replay
def exponential_decay(ages: Integers, rate: float) -> NDArray[np.float64]: ...
def window_decay(ages: Integers, max_age: int) -> NDArray[np.float64]: ...
def power_decay(ages: Integers, exponent: float) -> NDArray[np.float64]: ...
def age_distribution(ages: Integers, log_weights: Reals, quantiles: list[float]) -> tuple[float, float, list[int]]: ...
def surprisal(logp: Reals, offsets: Integers, *, mask: NDArray[np.bool_] | None = None) -> NDArray[np.float64]: ...
def learnability(
    gaps: Reals, offsets: Integers, *, beta: float = 5.0, lambda_: float = 0.5
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]: ...
def delight(advantages: Reals, surprisals: Reals) -> NDArray[np.float64]: ...
def delight_gate(delights: Reals, *, eta: float = 1.0, price: float = 0.0) -> NDArray[np.float64]: ...
def kondo_price(delights: Reals, keep: float, *, eta: float = 1.0) -> float: ...
def accuracy_error(
    right: NDArray[np.bool_],
    predicted: Reals,
    group_ids: Integers | None = None,
    *,
    offsets: Integers | None = None,
    successes_only: bool = True,
) -> NDArray[np.float64]: ...
def prioritised(priorities: Reals, *, alpha: float, eps: float = 0.0) -> NDArray[np.float64]: ...
def importance_log_weights(log_weights: Reals, *, beta: float) -> NDArray[np.float64]: ...
def largest(priorities: Reals, k: int) -> NDArray[np.int64]: ...

# resampling
def bootstrap_mean(
    values: Reals, *, level: float = 0.95, resamples: int = 9999, seed: int = 0
) -> tuple[float, float]: ...
def sign_flip(differences: Reals, offsets: Integers, *, draws: int = 999_999, seed: int = 0) -> NDArray[np.float64]: ...
def sign_flip_limit(
    differences: Reals, weights: Reals, *, alpha: float = 0.05, draws: int = 999_999, seed: int = 0
) -> float: ...

# reward
def composite(components: Sequence[Floats], weights: list[float]) -> NDArray[np.float64]: ...
def shaped(rewards: Floats, *, up: float, down: float, centre: float) -> NDArray[np.float64]: ...
def karl_reward(record: object, version: Literal["v1", "v2"], weights: list[float]) -> dict[str, Any]: ...
def karl_rewards(text: bytes, version: Literal["v1", "v2"], weights: list[float]) -> NDArray[np.float64]: ...
def karl_rewards_in(path: str | Path, version: Literal["v1", "v2"], weights: list[float]) -> NDArray[np.float64]: ...
def karl_column_rewards(calls: Calls, version: Literal["v1", "v2"], weights: list[float]) -> NDArray[np.float64]: ...
def karl_stored(
    lines: list[bytes], version: Literal["v1", "v2"]
) -> list[tuple[str | None, str | None, float | None] | None]: ...
def karl_stored_rewards(
    path: str | Path,
    version: Literal["v1", "v2"],
    odd: Callable[[bytes], tuple[bool, tuple[Hashable, float] | None]],
) -> tuple[list[tuple[Hashable, float]], bytes]: ...
def karl_backfill(
    path: str | Path,
    new: str | Path,
    *,
    version: Literal["v1", "v2"],
    weights: list[float],
    force: bool,
    baselines: dict[Hashable, tuple[float, float]],
    rewarded: bytes,
    line: Callable[[bytes], bytes],
) -> tuple[int, int, int]: ...
def karl_outcome(outcome: object) -> tuple[float, dict[str, Any]]: ...
def karl_process(trajectory: object, version: Literal["v1", "v2"]) -> tuple[float, dict[str, Any]]: ...
def karl_efficiency(
    trajectory: object, timing: object, version: Literal["v1", "v2"]
) -> tuple[float, dict[str, Any]]: ...
def karl_longest_failure(events: object) -> int: ...

# target
def log_sum_exp(values: Reals) -> float: ...
def log_mean_exp(values: Reals) -> float: ...
def ess(log_weights: Reals) -> float: ...
def log_sum_exp_by(
    values: Reals,
    group_ids: Integers | None = None,
    *,
    offsets: Integers | None = None,
) -> NDArray[np.float64]: ...

@final
class LogSumExp:
    def __new__(cls) -> LogSumExp: ...
    def update(self, values: Reals) -> None: ...
    def merge(self, other: LogSumExp) -> None: ...
    @property
    def value(self) -> float: ...
    @property
    def mean(self) -> float: ...
    def __len__(self) -> int: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(data: bytes) -> LogSumExp: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

def soft_value(
    rewards: Reals, group_ids: Integers | None = None, *, offsets: Integers | None = None, temperature: float
) -> NDArray[np.float64]: ...
def regression_intercept(
    rewards: Reals,
    log_ratio: Reals,
    group_ids: Integers | None = None,
    *,
    offsets: Integers | None = None,
    temperature: float,
) -> NDArray[np.float64]: ...
def awr_weights(
    advantages: Reals,
    *,
    temperature: float,
    clip: float | None = 20.0,
    normalised: bool = False,
) -> NDArray[np.float64]: ...
def rwr_weights(rewards: Reals, *, inverse_temperature: float) -> NDArray[np.float64]: ...
def tpo_target(
    logp_old: Reals,
    rewards: Reals,
    group_ids: Integers | None = None,
    *,
    offsets: Integers | None = None,
    temperature: float = 1.0,
    anchored: bool = True,
) -> NDArray[np.float64]: ...
def boltzmann(
    scores: Reals,
    scopes: Integers | None = None,
    *,
    ess: float | None = None,
    inverse_temperature: float | None = None,
    kl: float | None = None,
) -> dict[str, Any]: ...

# sample
def uniforms(
    rows: int, *, seed: int, purpose: Literal["draw", "order", "split"], keys: NDArray[np.uint64] | None = None
) -> NDArray[np.float64]: ...
def choose_tokens(
    logits: NDArray[np.float32], vocabulary: int, *, scale: float, keys: NDArray[np.uint64] | None = None
) -> tuple[NDArray[np.uint32], NDArray[np.float32], NDArray[np.float32]]: ...
def gumbel_keys(log_weights: Reals, *, seed: int, keys: NDArray[np.uint64] | None = None) -> NDArray[np.float64]: ...
def top(keys: Floats, count: int) -> NDArray[np.int64]: ...
def draw(
    log_weights: Reals,
    count: int,
    *,
    sampler: str,
    seed: int,
    keys: NDArray[np.uint64] | None = None,
) -> NDArray[np.int64]: ...
def reservoir(rows: int, k: int, *, seed: int) -> NDArray[np.int64]: ...
def weighted_reservoir(log_weights: Reals, k: int, *, seed: int) -> NDArray[np.int64]: ...

# sampling
@final
class Alias:
    def __new__(cls, log_weights: Reals) -> Alias: ...
    def __len__(self) -> int: ...
    def probabilities(self) -> NDArray[np.float64]: ...
    def draw(self, count: int, *, seed: int) -> NDArray[np.int64]: ...

@final
class Top:
    def __new__(cls, law: Literal["gumbel", "uniform", "priority"], k: int, *, seed: int) -> Top: ...
    @staticmethod
    def from_bytes(law: Literal["gumbel", "uniform", "priority"], data: bytes) -> Top: ...
    def to_bytes(self) -> bytes: ...
    def update(self, keys: NDArray[np.uint64], sizes: tuple[str, Reals] | None = None) -> None: ...
    def merge(self, other: Top) -> None: ...
    def __len__(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def seed(self) -> int: ...
    def drawn(self) -> dict[str, Any]: ...

@final
class VarOpt:
    def __new__(cls, k: int, *, seed: int) -> VarOpt: ...
    @staticmethod
    def from_bytes(data: bytes) -> VarOpt: ...
    def to_bytes(self) -> bytes: ...
    def update(self, keys: NDArray[np.uint64], weights: Reals) -> None: ...
    def merge(self, other: VarOpt) -> None: ...
    def __len__(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def seed(self) -> int: ...
    def drawn(self) -> tuple[NDArray[np.uint64], NDArray[np.float64], float]: ...

@final
class Moments:
    def __new__(cls) -> Moments: ...
    @staticmethod
    def from_bytes(data: bytes) -> Moments: ...
    def to_bytes(self) -> bytes: ...
    def update(self, values: Reals) -> None: ...
    def merge(self, other: Moments) -> None: ...
    def __len__(self) -> int: ...
    @property
    def mean(self) -> float: ...
    @property
    def min(self) -> float: ...
    @property
    def max(self) -> float: ...
    def variance(self, *, ddof: int) -> float: ...

def draw_with_inclusion(
    log_weights: Reals, k: int, *, seed: int, keys: NDArray[np.uint64] | None = None
) -> dict[str, Any]: ...
def inclusion(log_weights: Reals, k: int) -> NDArray[np.float64]: ...
def threshold(weights: Reals, k: int) -> tuple[float, NDArray[np.float64]]: ...
def draw_priority(weights: Reals, k: int, *, seed: int, keys: NDArray[np.uint64] | None = None) -> dict[str, Any]: ...
def draw_var_opt(weights: Reals, k: int, *, seed: int, keys: NDArray[np.uint64] | None = None) -> dict[str, Any]: ...
def reservoir_of(items: Iterable[Any], k: int, *, seed: int) -> list[Any]: ...
def weighted_reservoir_of(
    items: Iterable[Any], k: int, *, weight: Callable[[Any], float] | None = None, seed: int
) -> list[Any]: ...
