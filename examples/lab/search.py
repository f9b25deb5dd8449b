"""A search over several turns: a number below 8 is hidden, and three guesses are answered by where it lies.

    model = "search.py:policy"
    prompts = "search.py:prompts"
    environment = "search.py:Search"
    max_turns = 3
    max_turn_tokens = 1

A hit has the reward 1, at the end. Halving the range finds seven of eight numbers: 0.875 is the best there is. One that
names the same numbers whatever the answers are finds three of eight.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rl"))

from reversal import ARROW, SYMBOLS, Reversal

ANSWERS = {"lower": [0, ARROW], "higher": [SYMBOLS - 1, ARROW], "nothing": [ARROW, ARROW]}
"""Tokens of an answer: a symbol, and the arrow after which the policy guesses."""


class Searcher(Reversal):
    """The transformer of `examples/rl/reversal.py`, which reads an answer after each guess."""

    def encode(self, messages):
        """The arrow: the prompt says nothing of the number."""
        return [ARROW]

    def answer(self, messages, last):
        """The tokens of an answer."""
        return ANSWERS[messages[-1]["content"]]


def policy(seed):
    """Random weights; MLX is seeded already."""
    return Searcher()


def prompts():
    """Every number that may be hidden."""
    return [{"prompt": "search", "hidden": number} for number in range(SYMBOLS)]


class Search:
    """The environment; a guess that is not a number counts as one."""

    def reset(self, prompt):
        """Hide a number."""
        self.hidden, self.hit = prompt["hidden"], False

    def step(self, text):
        """Answer a guess."""
        guess = int(text) if text else SYMBOLS
        self.hit = guess == self.hidden
        if self.hit:
            return None, True
        if guess >= SYMBOLS:
            return "nothing", False
        return "lower" if self.hidden < guess else "higher", False

    def score(self):
        """1 for a hit."""
        return float(self.hit)
