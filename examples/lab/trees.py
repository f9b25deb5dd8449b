"""A list that is too long for one answer: a policy writes it backwards by calling itself on its halves.

    model = "trees.py:policy"
    prompts = "trees.py:prompts"
    environment = "trees.py:Halves"
    max_depth = 1                   # for four symbols, where an answer has two; 2 for eight, whose halves have four

A turn is an answer, or begins with the word `call`. The environment then calls the policy on the second half of the
list and on the first, and the two answers, one after the other, are the answer: a list backwards is its second half
backwards, and then its first. The reward is the share of symbols that are right, and 0 for a list of another length,
which is what everyone has who answers alone. Nothing says which half a wrong symbol is in: the root has the reward of
both.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rl"))

from reversal import Reversal, Snapshot, Transformer

from karl_fast.rl import Call

SYMBOLS = 8
CALL, ARROW, END = "call", "->", "."
WORDS = (*map(str, range(SYMBOLS)), CALL, ARROW, END)
NUMBER = {word: number for number, word in enumerate(WORDS)}


class Words(Reversal):
    """What `karl_fast.rl.TokenPolicy` asks for, over `WORDS`."""

    ends = frozenset([NUMBER[END]])

    def __init__(self, size=32, layers=2, heads=4, longest=32):
        self.model = Transformer(size, layers, heads, longest, len(WORDS))
        self.before = Snapshot(self.model)

    def encode(self, messages):
        """Symbols, and the arrow after which the policy writes."""
        return [*(NUMBER[word] for word in messages[-1]["content"].split()), NUMBER[ARROW]]

    def decode(self, tokens):
        """Words, without the one that ends a turn."""
        return " ".join(WORDS[token] for token in tokens if WORDS[token] != END)


def policy(seed):
    """Two layers of 32; MLX is seeded already."""
    return Words()


def prompts(length=4, number=512):
    """Lists of so many symbols, the same in every run."""
    for place in range(number):
        start = place * 2654435761
        yield {"prompt": " ".join(str((start >> (7 + 3 * digit)) % SYMBOLS) for digit in range(length))}


class Halves:
    """Calls the policy on the halves of its list if it says so; the answers of both are its answer."""

    def reset(self, prompt):
        """Nothing is added to the list."""
        self.symbols, self.written = prompt["prompt"][-1]["content"].split(), []

    def step(self, text):
        """Take an answer, or call the policy on each half; both end the episode."""
        words = text.split()
        if words[:1] == [CALL] and len(self.symbols) > 1:
            half = len(self.symbols) // 2
            return [Call(" ".join(part)) for part in (self.symbols[half:], self.symbols[:half])], True
        self.written = words
        return None, True

    def join(self, texts):
        """Put two answers together; a call that was not made leaves its half empty."""
        half = len(self.symbols) // 2
        for text, length in zip(texts, (len(self.symbols) - half, half), strict=True):
            words = [] if text is None else text.split()[:length]
            self.written += words + [END] * (length - len(words))

    def result(self):
        """What a caller gets: the answer, which halves may have written."""
        return " ".join(self.written)

    def score(self):
        """The share of symbols that are right; 0 for a list of another length."""
        wanted = self.symbols[::-1]
        if len(self.written) != len(wanted):
            return 0.0
        return sum(word == symbol for word, symbol in zip(self.written, wanted, strict=True)) / len(wanted)
