"""The result of an audit: every measure, and the findings."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from karl_fast.audit.conventions import Convention, Reproduction
    from karl_fast.audit.diversity import Diversity
    from karl_fast.audit.prompts import Prompts
    from karl_fast.audit.reward_hacking import Correlation
    from karl_fast.audit.rollouts import Rollouts
    from karl_fast.audit.signal import Signal
    from karl_fast.export.manifest import Manifest


@dataclass(frozen=True)
class Finding:
    """A fault of a dump, or a fact worth knowing.

    Attributes:
        kind: its name, for programs.
        weight: 0 to 1; the order of findings, and from ``WRONG`` on something is wrong.
        text: what is the case, with the number.
        brief: the same in a few words.
        where: the first rows or groups concerned.
        advice: what to do.
    """

    kind: str
    weight: float
    text: str
    brief: str
    where: list[str]
    advice: str


@dataclass
class Audit:
    """Result of an audit of a dump of rollouts: what it teaches, and what is wrong with it.

    Attributes:
        report: accounting, inputs and run, as in a manifest.
        rewards: number, mean, standard deviation, least and largest of the rewards.
        rollouts: the columns that everything is computed from.
        advantages: what reproduces the logged advantages; None where none is logged.
        signal: groups by what they teach.
        mismatch: sampler and trainer; None where one of them is not logged.
        staleness: age of rollouts; None where no version is logged.
        forms: correlation of the reward with each form of the answer.
        prompts: what prompts have in common.
        diversity: diversity of answers, and its course over the steps.
        truncated: share of the answers that a limit ended; None where it is not logged.
        findings: what is wrong, the weightiest first.
        headline: whether there is anything to learn, and what is wrong with it.
        written: file, convention and rows, where advantages were written.
    """

    report: Manifest
    rewards: dict[str, float | int]
    rollouts: Rollouts
    advantages: Reproduction | None
    signal: Signal
    mismatch: dict[str, Any] | None
    staleness: dict[str, Any] | None
    forms: list[Correlation]
    prompts: Prompts
    diversity: Diversity
    truncated: float | None
    findings: list[Finding] = field(default_factory=list)
    headline: str = ""
    written: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return every number of the audit as JSON has it; the columns are left out."""
        parts = {"headline": self.headline, "findings": [asdict(finding) for finding in self.findings]}
        measured = {
            "rewards": self.rewards,
            "advantages": None if self.advantages is None else _reproduction(self.advantages, self.rollouts),
            "signal": asdict(self.signal),
            "mismatch": self.mismatch,
            "staleness": self.staleness,
            "forms": [asdict(test) for test in self.forms],
            "prompts": asdict(self.prompts),
            "diversity": asdict(self.diversity),
            "truncated": self.truncated,
            "fields": self.rollouts.fields,
            "unread": self.rollouts.unread,
        }
        return parts | measured | ({"written": self.written} if self.written else {}) | self.report


def _reproduction(reproduction: Reproduction, rollouts: Rollouts) -> dict[str, Any]:
    """Return a reproduction with conventions in words, and the ids of rows that are off."""
    return asdict(reproduction) | {
        "best": _match(reproduction.best.convention, reproduction.best.largest, reproduction.best.share),
        "equal": [str(convention) for convention in reproduction.equal],
        "nearest": [_match(match.convention, match.largest, match.share) for match in reproduction.nearest],
        "off": [rollouts.names[row] for row in reproduction.off],
    }


def _match(convention: Convention, largest: float, share: float) -> dict[str, Any]:
    words = {"text": str(convention), "known_as": convention.known_as}
    return {"convention": asdict(convention) | words, "largest": largest, "share": share}
