"""What the tasks know of each token: its reward, and the token that is right; and the expected reward of a prompt.

model = "policy.py:small"
token_rewards = "known.py:right_tokens"     # for dg-token and self-distill-dg
labels = "known.py:right_words"             # for self-distill-dg and scope-lite
baseline = "known.py:expected_reward"       # for dg-expected, on tasks that are all or nothing

Rewards and right tokens of masked reversal are `scored_tokens` and `scored_words`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from policy import NUMBER
from tasks import SCORED
from tasks import expected_reward as expect

__all__ = ["expected_reward", "right_tokens", "right_words", "scored_tokens", "scored_words"]


def expected_reward(policy, prompt):
    """The mean reward of the policy on a prompt."""
    return expect(policy, prompt | {"prompt": prompt["prompt"][-1]["content"]})


def _wanted(answer, length):
    """The token that is right at each place; beyond the answer there is none."""
    words = [NUMBER[word] for word in answer.split()]
    return [*words[:length], *[None] * (length - len(words))]


def right_words(prompts, completions, completion_ids, answer, **columns):
    """The right token in the place of each."""
    return [_wanted(wanted, len(ids)) for wanted, ids in zip(answer, completion_ids, strict=True)]


def right_tokens(prompts, completions, completion_ids, answer, **columns):
    """1 for a right token, 0 for a wrong one."""
    return [
        [float(token == right) for token, right in zip(ids, _wanted(wanted, len(ids)), strict=True)]
        for wanted, ids in zip(answer, completion_ids, strict=True)
    ]


def _scored_only(rows, answer):
    """None at the places that masked reversal does not score."""
    return [
        [None if place < len(wanted.split()) - SCORED else value for place, value in enumerate(row)]
        for row, wanted in zip(rows, answer, strict=True)
    ]


def scored_words(prompts, completions, completion_ids, answer, **columns):
    """The right tokens of masked reversal."""
    return _scored_only(right_words(prompts, completions, completion_ids, answer), answer)


def scored_tokens(prompts, completions, completion_ids, answer, **columns):
    """The rewards of the tokens of masked reversal."""
    return _scored_only(right_tokens(prompts, completions, completion_ids, answer), answer)
