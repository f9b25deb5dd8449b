"""The page of a log: what its rewards and outcomes are, what a draw would do at each temperature, and its rows."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from karl_fast import _core
from karl_fast._plots import (
    Item,
    Plot,
    Series,
    Shares,
    cloud,
    dots,
    histogram,
    number,
    ranges,
    table,
)
from karl_fast._safe_text import counted, in_bytes
from karl_fast.export.manifest import TARGET_NOTES
from karl_fast.page.document import Fact, Page, Section, definitions, folded
from karl_fast.page.rows import LESS_IS_BETTER, pack_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from karl_fast.export.write import Progress
    from karl_fast.log import Log
    from karl_fast.page.rows import PackedRows
    from karl_fast.pipeline.inspect import Inspection

DOMAINS = 24
"""Domains of a plot: the largest."""

GROUPS = 160
"""Groups of a plot: as many as can be told apart, in equal steps of the order by mean reward."""

FILES = 200
"""Files of a table: the first."""

POINTS = 1500
"""Points of a cloud."""

PERMUTATIONS = 400
"""Shuffles that say how large a correlation is by chance."""

FEWEST = 10
"""Rows from which a correlation is worth a sentence."""


def log_page(log: Log, inspection: Inspection, subject: str, count: int, packing: Progress | None) -> Page:
    """Return the page of a log.

    Args:
        log: as `inspect` opens it.
        inspection: of this log.
        subject: its path, for the head of the page.
        count: rows to show.
        packing: as `packed_bytes` of `pack_rows`.
    """
    report = inspection.report
    packed = pack_rows(log, count, packing)
    length = LengthEffect.of(packed)
    rewarded = bool(report["reward"]["before"]["count"])
    return Page(
        "Log",
        subject,
        _sentence(report, packed, length),
        list(_facts(report, packed)),
        [
            *(_outcome_section(report["outcomes"], packed) if report.get("outcomes") else []),
            *([_target_section(inspection), reward_section(log, report)] if rewarded else []),
            text_section(packed, report["diversity"], length),
        ],
        packed if len(packed) else None,
        how_section(report),
        rows_warnings(packed),
    )


def _sentence(report: dict[str, Any], packed: PackedRows, length: LengthEffect | None) -> str:
    """Return what is to be learned from a log: of its outcomes, or of its rewards."""
    if report.get("outcomes") and report["outcomes"]["rows_known"]:
        return _outcome_sentence(report["outcomes"], packed)
    account, reward = report["accounting"], report["reward"]["before"]
    rows = counted(account["rows_read"], "row")
    if not reward["count"]:
        return f"{rows}, and no reward is known: name one with --reward, or find outcomes with karl-fast outcomes."
    parts = [_group_clause(report["groups"], rows, reward)]
    if length is not None:
        parts.append(length.clause())
    if copies := _copies_clause(report):
        parts.append(copies)
    return "; ".join(parts) + "."


def _copies_clause(report: dict[str, Any]) -> str:
    """Return the share of rows that are copies; where it is an estimate, with its error."""
    copies, sample = report["duplicate_trajectories"], report["duplicate_sample"]
    rows = report["accounting"]["rows_read"]
    if not copies:
        return ""
    if sample is None:
        return f"{copies / rows:.0%} are copies"
    return f"about {copies / rows:.0%} are copies (\u00b1 {sample['error_95'] / rows:.1%})"


def _group_clause(groups: dict[str, Any], rows: str, reward: dict[str, Any]) -> str:
    several = groups["with_two_or_more"]
    if several:
        return f"{several - groups['constant']:,} of {counted(several, 'group')} differ in reward"
    return f"{rows} with a mean reward of {number(reward['mean'])}, and no group to compare them in"


OUTCOME_CLAUSES = {
    "verified": "{good:,} of {known:,} are verified",
    "tests": "{good:,} of {known:,} passed their tests at the end",
    "merged": "{good:,} of {known:,} were merged",
    "survived": "{mean:.0%} of the committed lines survive in {known:,}",
    "corrected": "{bad:,} of {known:,} were corrected",
    "interrupted": "{bad:,} of {known:,} were interrupted",
}
"""Clauses of the sentence about outcomes, in order; those without evidence are left out."""


def _outcome_sentence(outcomes: _core.OutcomeFacts, packed: PackedRows) -> str:
    known = {part["name"]: (part["known"], part["mean"]) for part in outcomes["components"]}
    sessions = counted(outcomes["rows"], "session")
    children = sum(parent is not None for parent in packed.columns.get("parent", ()))
    if children and len(packed) == packed.total:
        parts = f"{counted(outcomes['rows'] - children, 'session')}, {counted(children, 'sub-agent')}"
        sessions = f"{counted(outcomes['rows'], 'transcript')} ({parts})"
    clauses = [
        words.format(known=count, mean=mean, good=round(count * mean), bad=round(count * mean))
        for name, words in OUTCOME_CLAUSES.items()
        if name in known
        for count, mean in [known[name]]
    ]
    unknown = [name for name in ("tests", "survived", "corrected") if name not in known]
    if unknown:
        clauses.append(f"unknown: {', '.join({'survived': 'what survived'}.get(name, name) for name in unknown)}")
    return f"{sessions}: {'; '.join(clauses) or 'no evidence of what they were worth'}."


def _facts(report: dict[str, Any], packed: PackedRows) -> Iterator[Fact]:
    account, groups, reward = report["accounting"], report["groups"], report["reward"]["before"]
    dropped = account["rows_read"] - account["rows_kept"]
    without = f"{dropped:,} without a reward or damaged" if reward["count"] else "none with a reward"
    yield Fact("rows", account["rows_read"], remark=without if dropped else "")
    if groups["count"]:
        constant = f"{groups['constant']:,} constant" if groups["with_two_or_more"] else ""
        yield Fact("groups", groups["count"], remark=constant)
    if reward["count"]:
        yield Fact("mean reward", reward["mean"], remark=f"{number(reward['min'])} to {number(reward['max'])}")
        target = report["target"]
        remark = f"at inverse temperature {number(target['inverse_temperature'])}"
        yield Fact("effective sample size", round(target["ess_rows"], 1), remark=remark)
    if report["diversity"] and report["diversity"]["distinct_2"] is not None:
        yield Fact("distinct word pairs", report["diversity"]["distinct_2"])
    if packed.columns:
        yield Fact(
            "written by the model", round(float(np.median(packed.numbers("characters")))), remark="characters, median"
        )


def _outcome_section(outcomes: _core.OutcomeFacts, packed: PackedRows) -> list[Section]:
    items = [
        Item(
            part["name"] + (" \u2193" if part["name"] in LESS_IS_BETTER else ""),
            part["mean"],
            remark=f"{part['known']:,} known",
        )
        for part in outcomes["components"]
    ]
    if not items:
        return []
    plot = dots(
        "Mean of each outcome, over the rows with evidence for it",
        items,
        note="\u2193: less is better. A row without evidence does not count.",
        columns=("outcome", "", "mean", "", "", "rows"),
    )
    length = [
        (part["name"], part["known"], part["mean"], part["length"][1] if part["length"] else None)
        for part in outcomes["components"]
    ]
    more = folded(
        "Correlation with the length of the conversation", table(("outcome", "known", "mean", "with length"), length)
    )
    return [
        Section(
            "Outcomes",
            [plot, more],
            "The evidence for each stands in its row: commit, file, or the message it was read from.",
        )
    ]


def _target_section(inspection: Inspection) -> Section:
    return Section("Temperature", inspection.plots(), target_note(inspection.report["target"]))


def target_note(target: dict[str, Any]) -> str:
    """Return how the temperature was chosen, what changes it, and why a wanted sample size was not reached."""
    note = TARGET_NOTES.get(target["note"], "")
    wanted = target["ess_wanted_share"]
    inverse = f"inverse temperature {number(target['inverse_temperature'])}"
    chosen = (
        f"{inverse[0].upper()}{inverse[1:]} was given."
        if wanted is None
        else f"--ess {number(wanted)} chose {inverse}."
    )
    ways = "A larger --ess draws more evenly; --min-reward leaves rows out at any temperature."
    return f"{chosen} {ways}" + (f" {note[:1].upper()}{note[1:]}." if note else "")


def reward_section(log: Log, report: dict[str, Any]) -> Section:
    """Return the rewards of a log: all, by domain, by group."""
    before = report["reward"]["before"]
    parts: list[Plot | str] = []
    if before["histogram"]:
        source = f"source: {', '.join(report['settings']['reward'] or {}) or 'reward'}"
        parts.append(
            histogram(
                "Rewards",
                before["histogram"]["edges"],
                [Series("", before["histogram"]["counts"], before["mean"])],
                note=f"{before['count']:,} rows; {source}. The triangle is the mean.",
                axis="reward",
            )
        )
    parts += [*domain_plots(log.rewards, log.domains, log.domain_names), *group_plots(log.rewards, log.groups)]
    components = report["reward"]["components"]
    if len(components) > 1:
        rows = [
            (name, part["weight"], part["before"]["count"], part["before"]["mean"], part["before"]["std"])
            for name, part in components.items()
        ]
        parts.append(table(("component", "weight", "rows", "mean", "deviation"), rows))
    return Section("Rewards", parts)


def domain_plots(rewards: NDArray[np.float64], codes: NDArray[np.int64], names: Sequence[str]) -> list[Plot]:
    """Return the mean reward of each domain with its interval; none where there are fewer than two."""
    items = [_mean_item(_core.redacted(name), rewards[codes == code]) for code, name in enumerate(names)]
    items = sorted((item for item in items if item.value is not None), key=lambda item: -(item.value or 0))
    if len(items) < 2:
        return []
    largest = f"the {DOMAINS} best of {len(items):,} domains; " if len(items) > DOMAINS else ""
    note = f"{largest}mean with its 95 % interval over rows, and the number of rows"
    return [dots("Reward by domain", items[:DOMAINS], note=note, axis="mean reward")]


def _mean_item(name: str, rewards: NDArray[np.float64]) -> Item:
    known = rewards[np.isfinite(rewards)]
    if not len(known):
        return Item(name, None)
    mean = float(known.mean())
    half = 1.96 * float(known.std(ddof=1)) / math.sqrt(len(known)) if len(known) > 1 else 0.0
    return Item(name, mean, low=mean - half, high=mean + half, remark=f"{len(known):,}")


def group_plots(rewards: NDArray[np.float64], codes: NDArray[np.int64]) -> list[Plot]:
    """Return the range of rewards in each group of two or more; none without one."""
    known = (codes >= 0) & np.isfinite(rewards)
    order = np.argsort(codes[known], kind="stable")
    values, sorted_codes = rewards[known][order], codes[known][order]
    parts = np.split(values, np.flatnonzero(np.diff(sorted_codes)) + 1)
    spans = sorted(
        ((float(part.min()), float(part.mean()), float(part.max())) for part in parts if len(part) > 1),
        key=lambda span: (span[1], span[2]),
    )
    if not spans:
        return []
    shown = [spans[at] for at in np.unique(np.linspace(0, len(spans) - 1, min(len(spans), GROUPS)).astype(int))]
    some = (
        f"{len(shown)} of {len(spans):,} groups in equal steps"
        if len(shown) < len(spans)
        else counted(len(spans), "group")
    ) + " of two rows or more"
    constant = sum(span[0] == span[2] for span in spans)
    note = (
        f"{some}: a line from the smallest reward to the largest, a dot at the mean. "
        f"Grey: equal rewards, {constant:,} of {len(spans):,}."
    )
    return [ranges("Reward by group", shown, note=note, axis="groups, by mean reward")]


class LengthEffect:
    """Rank correlation of reward and length, and how large it is by chance.

    Attributes:
        rho: of Spearman.
        chance: the absolute value that 95 of 100 shuffled columns stay below.
        rows: with both.
    """

    def __init__(self, rho: float, chance: float, rows: int) -> None:
        self.rho, self.chance, self.rows = rho, chance, rows

    @classmethod
    def of(cls, packed: PackedRows) -> LengthEffect | None:
        """Compute it of the rows of a page; None where there are too few, or one of them does not vary."""
        if not packed.columns:
            return None
        rewards, lengths = packed.numbers("reward"), packed.numbers("characters")
        known = np.isfinite(rewards) & (lengths > 0)
        x, y = _ranks(lengths[known]), _ranks(rewards[known])
        if len(x) < FEWEST or not x.std() or not y.std():
            return None
        shuffle = np.random.default_rng(0)
        by_chance = [abs(_correlation(x, shuffle.permutation(y))) for _ in range(PERMUTATIONS)]
        return cls(_correlation(x, y), float(np.quantile(by_chance, 0.95)), len(x))

    def clause(self) -> str:
        """Return it as a clause of a sentence."""
        if abs(self.rho) <= self.chance:
            return f"reward does not follow length ({self.numbers()})"
        return f"longer rows have {'higher' if self.rho > 0 else 'lower'} rewards ({self.numbers()})"

    def numbers(self) -> str:
        """Return the correlation beside that of shuffled rows."""
        return f"rho {number(self.rho)}; shuffled, within \u00b1{number(self.chance)}"


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ranks; equal values have their mean rank."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[places]


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    return float(((x - x.mean()) * (y - y.mean())).mean() / (x.std() * y.std()))


DIVERSITY = {
    "rows": "answers compared",
    "distinct_1": "distinct words, of all words",
    "distinct_2": "distinct word pairs, of all word pairs",
    "self_bleu": "self-BLEU, lower is more diverse",
    "unique": "different answers in a group",
}


def text_section(packed: PackedRows, diversity: dict[str, Any] | None, length: LengthEffect | None) -> Section:
    """Return the lengths of rows, reward by length, and the diversity of answers."""
    parts: list[Plot | str] = []
    if packed.columns:
        lengths = packed.numbers("characters")
        if (lengths > 0).any():
            shares = Shares(lengths[lengths > 0].tolist(), log=True)
            parts.append(
                histogram(
                    "Characters that the model wrote",
                    shares.edges,
                    [Series("", shares.counts, float(np.median(lengths[lengths > 0])))],
                    note="text, thoughts and calls of a row. The triangle is the median.",
                    axis="characters",
                    log=shares.log,
                )
            )
        rewards = packed.numbers("reward")
        known = np.flatnonzero(np.isfinite(rewards) & (lengths > 0))[:POINTS]
        if len(known) >= FEWEST and len(np.unique(rewards[known])) > 1:
            note = (
                ""
                if length is None
                else f"{counted(length.rows, 'row')}. Spearman's {length.numbers()} in 95 of 100 shuffles."
            )
            parts.append(
                cloud(
                    "Reward by length",
                    [(float(lengths[at]), float(rewards[at])) for at in known],
                    note=note,
                    across="characters",
                    up="reward",
                )
            )
    if diversity:
        parts.append(
            definitions([(name, diversity[key]) for key, name in DIVERSITY.items() if diversity.get(key) is not None])
        )
    return Section("Length and diversity", parts)


def rows_warnings(packed: PackedRows) -> list[str]:
    """Return what a reader of the rows has to know: which are not on the page."""
    warnings = []
    if 0 < len(packed) < packed.total:
        chosen = "groups chosen by the hashes of ids, not by reward"
        warnings.append(f"The list has {len(packed):,} of {packed.total:,} rows: {chosen}.")
    if packed.unpacked:
        warnings.append(
            f"{counted(packed.unpacked, 'row')} of the list cannot be opened, for the page is full: "
            "karl-fast show --row ID prints one."
        )
    if packed.secrets:
        families = ", ".join(f"{name} {count:,}" for name, count in sorted(packed.secrets.items()))
        warnings.append(f"Secrets were replaced in the rows of the page: {families}.")
    if packed.unreadable:
        warnings.append(
            f"{counted(packed.unreadable, 'row')} cannot be written by karl-fast sample: karl-fast inspect says why."
        )
    return warnings


def how_section(report: dict[str, Any]) -> list[Section]:
    """Return how the numbers came about: settings, files, account."""
    changed = [
        (name, _setting_text(value)) for name, value in report["settings"].items() if value not in (None, False, [], {})
    ]
    parts = [
        definitions([("karl-fast", report["karl_fast"]), ("seed", report["seed"])]),
        account_table(report["accounting"]),
        folded("Settings", table(("setting", "value"), changed)),
        files_table(report["inputs"]),
    ]
    return [Section("How it was made", parts)]


def account_table(account: dict[str, Any]) -> str:
    """Return what became of the rows, folded: read = kept + dropped by name."""
    rows = [("read", account["rows_read"]), ("kept", account["rows_kept"])]
    rows += [(f"dropped: {reason.replace('_', ' ')}", count) for reason, count in account["dropped"].items()]
    rows += [(name.replace("_", " "), count) for name, count in account["notes"].items() if count]
    head = f"Account: {account['rows_read']:,} read, {account['rows_kept']:,} kept"
    return folded(head, table(("rows", "count"), rows))


def files_table(inputs: Sequence[dict[str, Any]]) -> str:
    """Return the files that were read, folded."""
    files = [
        (file["path"], file["format"], in_bytes(file["size_bytes"]), file["rows_read"], str(file.get("xxh3_128") or ""))
        for file in inputs[:FILES]
    ]
    return folded(counted(len(inputs), "file"), table(("file", "format", "size", "rows", "hash"), files))


def _setting_text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def count_half(groups: Sequence[int]) -> tuple[int, int]:
    """Return how many of the largest groups hold half of the rows that have one, and the number of groups."""
    counts = sorted(Counter(group for group in groups if group >= 0).values(), reverse=True)
    half, total = 0, 0
    for count in counts:
        if 2 * total >= sum(counts):
            break
        total, half = total + count, half + 1
    return half, len(counts)
