"""A tiny transformer over a fixed vocabulary of words: the policy of every task in this folder.

Its body is that of `examples/rl/reversal.py`; this file adds words in place of symbols, and several turns.

    model = "policy.py:small"    # 2 layers of 32
    model = "policy.py:wide"     # 2 layers of 64
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rl"))

from reversal import Reversal, Snapshot, Transformer

ARROW, END, UNKNOWN = "->", ".", "?"
NUMBERS = tuple(str(number) for number in range(17))
"""Symbols, results, and the grey levels of the digits."""
ACTIONS = (
    *("GET_IIS", "CHECK_SLACK", "RELAX_CONSTRAINT", "DROP_CONSTRAINT", "UPDATE_RHS", "UPDATE_BOUNDS"),
    *("RESET", "SUBMIT"),
)
ROWS, COLUMNS = tuple(f"c{number}" for number in range(1, 17)), tuple(f"x{number}" for number in range(1, 7))
STATES = ("INFEASIBLE", "OPTIMAL", "INVALID", "IIS", "SLACK", "<=", ">=", "+", "-", ":", "<think>", "</think>")
WORDS = (*NUMBERS, ARROW, END, UNKNOWN, "answer", *ACTIONS, *ROWS, *COLUMNS, *STATES)
NUMBER = {word: number for number, word in enumerate(WORDS)}


class Words(Reversal):
    """What `karl_fast.rl.TokenPolicy` asks for, over `WORDS`; an unknown word is one token."""

    ends = frozenset([NUMBER[END]])

    def __init__(self, size=32, layers=2, heads=4, longest=512):
        self.model = Transformer(size, layers, heads, longest, len(WORDS))
        self.before = Snapshot(self.model)

    def encode(self, messages):
        """Words of all messages, and the arrow after which the policy writes."""
        words = " ".join(message["content"] for message in messages).split()
        return [*(NUMBER.get(word, NUMBER[UNKNOWN]) for word in words), NUMBER[ARROW]]

    def answer(self, messages, last):
        """What an environment says between two turns, in the same form."""
        return self.encode(messages)

    def decode(self, tokens):
        """Words, without the one that ends a turn."""
        return " ".join(WORDS[token] for token in tokens if WORDS[token] != END)


def small(seed):
    """Two layers of 32; MLX is seeded already."""
    return Words()


def wide(seed):
    """Two layers of 64."""
    return Words(size=64)
