"""Findings of a dump, the weightiest first: each with its number, where it is, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karl_fast._safe_text import counted
from karl_fast.audit.conventions import BY_NAME, compute_advantages
from karl_fast.audit.result import Finding
from karl_fast.audit.reward_hacking import ALPHA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karl_fast.audit.conventions import Convention
    from karl_fast.audit.result import Audit
    from karl_fast.audit.reward_hacking import Correlation
    from karl_fast.audit.rollouts import Rollouts

WRONG = 0.5
"""Weight from which on a finding says that something is wrong; lighter ones are worth knowing."""

WASTE = 0.25
"""Share of the compute without a signal from which on it is a finding."""

K3 = 1e-2
"""Divergence a token from which on sampler and trainer are two policies; engines of equal weights are below 1e-3."""

BEYOND = 0.01
"""Share of tokens beyond the cap, likewise."""

OLD = 4.0
"""Mean age in steps from which on rollouts are old: asynchronous trainers keep it at one to four."""


def find(audit: Audit) -> list[Finding]:
    """Return the findings of an audit, the weightiest first."""
    every = (
        *_signal(audit),
        *_advantages(audit),
        *_forms(audit),
        *_mismatch(audit),
        *_prompts(audit),
        *_repetition(audit),
        *_course(audit),
    )
    return sorted(every, key=lambda finding: (-finding.weight, finding.kind))


def headline(audit: Audit) -> str:
    """Return the first sentence: whether there is anything to learn, and what is wrong with it."""
    wrong = [finding.brief for finding in audit.findings if finding.weight >= WRONG and finding.kind != "no_signal"]
    fault = f"Wrong with it: {'; '.join(wrong)}." if wrong else "None of the tests finds anything wrong with it."
    return f"{_learnable(audit)} {fault}"


def _learnable(audit: Audit) -> str:
    signal = audit.signal
    if not audit.rewards["count"]:
        return "No row has a reward: name its path with --reward."
    if not signal.groups:
        return "Without groups no advantage can be computed: name what rollouts of one prompt share with --group."
    mixed, shaping = signal.kinds["mixed"], signal.kinds["only_shaping"]
    of = f"{mixed.groups:,} of {counted(signal.groups, 'group')} ({mixed.compute:.0%} of the {signal.unit})"
    if mixed.groups:
        return f"There is something to learn: the rewards of {of} differ{' in outcome' if signal.outcome else ''}."
    if shaping.groups:
        return "There is only shaping or noise to learn: no group has outcomes that differ."
    return f"There is nothing to learn: no group has rewards that differ, of {signal.groups:,}."


def _signal(audit: Audit) -> Iterator[Finding]:
    signal = audit.signal
    kinds = ("all_solved", "none_solved", "equal", "alone")
    share = signal.share(*kinds)
    empty = sum(signal.kinds[kind].groups for kind in kinds)
    names = {"all_solved": "all solved", "none_solved": "none solved", "equal": "equal otherwise", "alone": "of one"}
    if signal.groups and not signal.kinds["mixed"].groups and not signal.kinds["only_shaping"].groups:
        yield Finding(
            *("no_signal", 1.0, f"no group has rewards that differ, of {signal.groups:,}", "no signal"),
            *([], "use prompts that are solved sometimes, or a reward that grades answers"),
        )
    elif share >= WASTE:
        parts = ", ".join(f"{signal.kinds[kind].groups:,} {name}" for kind, name in names.items())
        largest = max(kinds, key=lambda kind: signal.kinds[kind].compute)
        yield Finding(
            "no_signal",
            0.6 * share,
            f"{share:.0%} of the {signal.unit} went into {counted(empty, 'group')} of {signal.groups:,} without a"
            f" signal ({parts})",
            f"{share:.0%} of the compute without a signal",
            signal.kinds[largest].names,
            ADVICE[largest],
        )
    shaping = signal.kinds["only_shaping"]
    if shaping.groups and shaping.compute >= WASTE / 5:
        yield Finding(
            "only_shaping",
            min(1.0, 0.4 + shaping.compute),
            f"in {counted(shaping.groups, 'group')} ({shaping.compute:.0%} of the {signal.unit}) rewards differ though"
            f" {signal.outcome} does not: only shaping or noise is learned there",
            f"{shaping.groups:,} groups teach shaping or noise alone",
            shaping.names,
            "filter groups by the outcome, not by the standard deviation of the reward",
        )


ADVICE = {
    "all_solved": "leave out prompts that are always solved, or draw harder ones",
    "none_solved": "leave out prompts that are never solved, or grade partial answers",
    "equal": "see why these rewards are equal: the answers may be, or a judge that fails gives one number to all",
    "alone": "several rollouts of one prompt are needed: check the group's key",
}
"""Advice about groups without a signal, by the kind that cost most."""


def _advantages(audit: Audit) -> Iterator[Finding]:
    found = audit.advantages
    if found is None:
        return
    best, rows = found.best, [audit.rollouts.names[row] for row in found.off[:5]]
    if not found.reproduced:
        close = f"the nearest ({best.convention}) is off by up to {best.largest:.2g}"
        yield Finding(
            "unknown_convention",
            0.7,
            f"no known convention reproduces the logged advantages: {close}, and within {found.tolerance:.1g} on"
            f" {best.share:.0%} of {found.compared:,} rows",
            "advantages of no known convention",
            rows,
            "check which rewards, groups and rows entered; --write gives advantages of a convention that you name",
        )
        return
    odd = list(_odd_convention(audit, best.convention, found.compared))
    yield from odd
    if not odd and found.noise > 1e-3 * found.scale > 0:
        yield Finding(
            "noise",
            0.55,
            f"groups of equal rewards have advantages up to {found.noise:.2g}: the rounding of a mean, divided by eps",
            "noise in groups of equal rewards",
            [],
            "compare rewards for equality before dividing, or compute advantages in float64",
        )


def _odd_convention(audit: Audit, convention: Convention, rows: int) -> Iterator[Finding]:
    """Yield a finding for a convention that reproduces the advantages and teaches the wrong thing."""
    if convention.factor < 0:
        yield Finding(
            *("negated", 1.0, f"the advantages of {rows:,} rows have the wrong sign: {convention}", "wrong sign"),
            *([], "the policy unlearns what is rewarded: turn the sign round"),
        )
    if convention.scope in ("step", "all") and convention.form not in ("raw",):
        turned = _turned_rows(audit.rollouts)
        yield Finding(
            "wrong_scope",
            0.9,
            f"the baseline is over {SCOPES[convention.scope]}, not over the group ({convention}): easy prompts are"
            f" pushed up and hard ones down, and {len(turned):,} of {rows:,} rows have a sign that is not the one in"
            " their group",
            f"baseline over {SCOPES[convention.scope]}, not the group",
            [audit.rollouts.names[row] for row in turned[:5]],
            "group by prompt: give rollouts of one prompt one id; REINFORCE++ means it so",
        )
    if convention.form == "raw":
        yield Finding(
            *("no_baseline", 0.8, "the advantage is the reward itself: no baseline is subtracted", "no baseline"),
            *([], "check that groups reached the trainer: verl keeps the reward of a group of one"),
        )
    if convention.scope == "prompt":
        yield Finding(
            "other_group",
            0.6,
            "the baseline is over rows of equal prompts, which are not the logged groups",
            "baseline over prompts, not the logged groups",
            [],
            "check the group's key: equal prompts were merged, or one prompt was split",
        )


SCOPES = {"step": "the step", "all": "all rows"}
"""Rows of a baseline that is too wide, in words."""


def _turned_rows(rollouts: Rollouts) -> list[int]:
    """Return the rows whose logged advantage has another sign than within their group, where it may be 0."""
    within = compute_advantages(rollouts, BY_NAME["dr-grpo"])
    known = np.isfinite(within) & np.isfinite(rollouts.advantages)
    rows: list[int] = np.flatnonzero(known & (np.sign(within) != np.sign(rollouts.advantages))).tolist()
    return rows


def _forms(audit: Audit) -> Iterator[Finding]:
    # Long answers repeat more: what follows length is not said again of repetition.
    length = next((test.rho for test in audit.forms if test.form == "length" and test.follows), -1.0)
    for test in audit.forms:
        if test.follows and test.rho >= length:
            yield Finding(
                f"{test.form}_hack",
                0.85 if test.at_equal_outcome else min(0.8, 0.4 + test.rho / 2),
                _describe_form(test),
                f"reward follows {test.form} ({test.rho:.2f})",
                test.first,
                FORM_ADVICE[test.form],
            )


def _describe_form(test: Correlation) -> str:
    same = " at an equal outcome" if test.at_equal_outcome else ""
    return (
        f"within groups{same} the reward follows {FORM_WORDS[test.form]}: rank correlation {test.rho:.2f}"
        f" ({test.low:.2f} to {test.high:.2f}) in {counted(test.groups, 'group')}, p {test.adjusted:.3g}"
    )


FORM_WORDS = {"length": "the length of the answer", "repetition": "its repetition", "markup": "its markup"}

FORM_ADVICE = {
    "length": "look at the longest rewarded answers (karl-fast show); compare rewards at equal length, or penalise it",
    "repetition": "look at rewarded answers that repeat themselves: the reward counts something that can be repeated",
    "markup": "look at rewarded answers with lists and headings: a judge or a rule pays for the form",
}


def _mismatch(audit: Audit) -> Iterator[Finding]:
    gap, age = audit.mismatch, audit.staleness
    if gap is not None and (gap["k3"] > K3 or (gap["beyond"] or 0) > BEYOND):
        known = gap["beyond"] is not None
        beyond = (
            f", with {gap['beyond']:.1%} of {gap['tokens']:,} tokens beyond a weight of {gap['cap']:g}" if known else ""
        )
        yield Finding(
            "mismatch",
            0.8,
            f"sampler and trainer are two policies: k3 {gap['k3']:.3g}, chi-square {gap['chi2']:.3g} a token{beyond}",
            f"sampler and trainer differ (k3 {gap['k3']:.2g})",
            gap["worst"],
            "learn with a correction (TIS, MIS, IcePop), and compare temperature, top-p, precision and versions",
        )
    if age is not None and age["mean"] > OLD:
        oldest = np.argsort(-np.nan_to_num(audit.rollouts.ages), kind="stable")[:5]
        yield Finding(
            "stale",
            0.5,
            f"rollouts are {age['mean']:.1f} steps old on average and up to {age['largest']:g}",
            f"rollouts {age['mean']:.1f} steps old",
            [audit.rollouts.names[row] for row in oldest],
            "generate with newer weights, or drop what is older than the ratio's clip can bear",
        )


def _prompts(audit: Audit) -> Iterator[Finding]:
    prompts, groups = audit.prompts, audit.signal.groups
    if prompts.excluded:
        yield Finding(
            "excluded",
            0.95,
            f"{counted(prompts.excluded, 'row')} of {prompts.rows:,} have a prompt of the excluded file",
            f"{prompts.excluded:,} rows of the benchmark",
            prompts.first_excluded,
            "leave them out: karl-fast sample --exclude with the same file",
        )
    if prompts.between_splits:
        yield Finding(
            "between_splits",
            0.9,
            f"{counted(prompts.between_splits, 'prompt')} of {prompts.count:,} occur in more than one split, with"
            f" {counted(prompts.between_rows, 'row')} outside of train",
            f"{prompts.between_splits:,} prompts in two splits",
            prompts.first_between,
            "split by prompt: sample does so, by group or by the hash of the prompt",
        )
    if prompts.unlike:
        yield Finding(
            "unlike_prompts",
            0.9,
            f"{counted(prompts.unlike, 'group')} of {groups:,} mix different prompts: their baseline compares unlike"
            " things",
            f"{prompts.unlike:,} groups mix prompts",
            prompts.first_unlike,
            "check the group's key; --group 'step,hash(prompt)' groups by what was asked",
        )


def _repetition(audit: Audit) -> Iterator[Finding]:
    """Yield findings about groups that were made of equal prompts, and answers that are copies."""
    prompts, groups = audit.prompts, audit.signal.groups
    if audit.rollouts.by_prompt:
        yield Finding(
            "no_groups",
            0.45,
            f"no group is logged: rows of equal prompts in a step were taken for one, {groups:,} groups in all",
            "no groups are logged",
            [],
            "log what rollouts of a group share, and name it with --group: one prompt in a step may be two groups",
        )
    if groups and prompts.copies >= COPIES * prompts.rows > 0:
        yield Finding(
            "copies",
            0.3 * prompts.copies / prompts.rows,
            f"{counted(prompts.copies, 'row')} of {prompts.rows:,} repeat an answer of their group word for word",
            f"{prompts.copies:,} copied answers",
            prompts.first_copied,
            "raise the temperature of sampling; sample --dedup keeps one of each",
        )


COPIES = 0.2
"""Share of rows with a copied answer from which on it is a finding."""

CUT = 0.1
"""Share of answers that a limit ended from which on it is a finding."""


def _course(audit: Audit) -> Iterator[Finding]:
    if audit.diversity.collapsed:
        yield _collapse(audit)
    if audit.truncated is not None and audit.truncated >= CUT:
        yield Finding(
            "truncated",
            min(0.45, audit.truncated),
            f"a limit ended {audit.truncated:.0%} of the answers",
            f"{audit.truncated:.0%} cut",
            [audit.rollouts.names[row] for row in np.flatnonzero(audit.rollouts.truncated > 0)[:5]],
            "raise the limit, or leave truncated answers out of the baseline",
        )


def _collapse(audit: Audit) -> Finding:
    """Return the finding of answers that become alike: a fault, or the end of learning where rewards rose with it."""
    trends, steps = audit.diversity.trends, len(audit.diversity.steps)
    unique, reward = trends["unique"], trends["reward"]
    text = f"unique answers in a group fell from {unique.first:.2f} to {unique.last:.2f} over {steps:,} steps"
    rewards = f"the mean reward went from {reward.first:.3g} to {reward.last:.3g}"
    if (reward.rho or 0) > 0 and reward.p is not None and reward.p < ALPHA:
        advice = "the policy converges: stop, or draw harder prompts; check pass@k, not the mean alone"
        return Finding("convergence", 0.4, f"{text} while {rewards}", "answers become alike", [], advice)
    advice = "keep entropy: a bonus, a higher clip, a smaller learning rate, more varied prompts"
    brief = "answers collapse without more reward"
    return Finding("collapse", 0.75, f"{text}, and {rewards}", brief, [], advice)
