"""The composite of a debugger of linear programs, with its defects repaired.

Weights .5 outcome, .3 diagnosis, .2 efficiency; the largest sum is 58. What is repaired: names of constraints are whole
words, of any spelling; nothing is random; a diagnosis without a truth does not apply, where the original has half
marks; and a relaxed constraint is judged as a dropped one is, where the original fails and falls back on chance.

Reference: Archer222arc/LLM-for-OR, ``src/training/composite_reward.py``, commit c16b9eb.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

ACTION = re.compile(r"Action:\s*(DROP_CONSTRAINT|RELAX_CONSTRAINT|GET_IIS|SUBMIT)\b(?:\(\s*([^(),\s]+))?")
THOUGHT = re.compile(r"<think>(.*?)</think>", re.DOTALL)
NAME = re.compile(r"(?:c|row|constraint)_?\d+", re.IGNORECASE)
WORD = re.compile(r"[\w.\[\]]*\w|\w")

SOLVED, FAILED = 100.0, -50.0  # code: composite_reward.py
LOOKED = {"SUBMIT": 5.0, "GET_IIS": 8.0}  # code: the same, without a solver
NEAR, FAR = 20.0, 5.0  # code: the same, without its noise of U(-2, 2)
FULL_MARKS = 20.0  # code: the same


def outcome(
    completions: Sequence[Any],
    ground_truth_iis: Sequence[Any] | None = None,
    solved: Sequence[Any] | None = None,
    **_: Any,
) -> list[float]:
    """Score the outcome of the action: 100 if solved, -50 if not or if no action can be parsed.

    Without a solver (None): 20 for changing a constraint of the conflict, 5 for another, 8 for inspecting it and 5 for
    submitting.
    """
    none = [None] * len(completions)
    rows = zip(completions, ground_truth_iis or none, solved or none, strict=True)
    return [_outcome(text_of(completion), truth, done) for completion, truth, done in rows]


def _outcome(text: str, truth: Sequence[str] | None, done: bool | None) -> float:
    action = ACTION.search(text)
    if action is None:
        return FAILED
    kind, target = action.groups()
    if kind in LOOKED:
        return LOOKED[kind]
    if target is None:
        return FAILED
    if done is not None:
        return SOLVED if done else FAILED
    return NEAR if target.lower() in folded(truth) else FAR


def diagnosis(
    completions: Sequence[Any],
    ground_truth_iis: Sequence[Any] | None = None,
    constraints: Sequence[Any] | None = None,
    **_: Any,
) -> list[float | None]:
    """Score 20 J, the Jaccard index of the constraints named while thinking and those of the conflict; None without.

    ``constraints`` are the names of the program; without them a name is one of the conflict, or looks like c1, row_2 or
    constraint_3.
    """
    none = [None] * len(completions)
    rows = zip(completions, ground_truth_iis or none, constraints or none, strict=True)
    return [_diagnosis(text_of(completion), truth, names) for completion, truth, names in rows]


def _diagnosis(text: str, truth: Sequence[str] | None, names: Sequence[str] | None) -> float | None:
    if not truth:
        return None
    wanted, known = folded(truth), folded(truth) | folded(names)
    words = {word.lower() for thought in THOUGHT.findall(text) for word in WORD.findall(thought)}
    constraints = {word for word in words if word in known or (names is None and NAME.fullmatch(word))}
    return FULL_MARKS * len(constraints & wanted) / len(constraints | wanted)


def efficiency(completions: Sequence[Any], steps: Sequence[Any] | None = None, **_: Any) -> list[float | None]:
    """Score the steps: 10 up to two, 5 up to five, then -2 for each beyond; None if unknown."""
    return [_efficiency(count) for count in steps or [None] * len(completions)]


def _efficiency(steps: int | None) -> float | None:
    if steps is None:
        return None
    return 10.0 if steps <= 2 else 5.0 if steps <= 5 else -2.0 * (steps - 5)


def folded(names: Sequence[str] | None) -> set[str]:
    """Return names in one case, because solvers change it."""
    return {str(name).lower() for name in names or ()}


def text_of(completion: Any) -> str:
    """Return the text of a completion: its own, or that of the assistant's messages."""
    if isinstance(completion, str):
        return completion
    return "\n".join(str(message.get("content", "")) for message in completion if message.get("role") == "assistant")
