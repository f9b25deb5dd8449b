"""Tasks on which rules of learning are compared: prompts, an environment each, and noise on its reward.

    model = "policy.py:small"
    prompts = "tasks.py:reversal_prompts"
    environment = "tasks.py:TokenReversal"      # or a noisy one, such as tasks.py:RareTokenReversal
    max_tokens = 3                              # words of an answer
    outcome = "true_reward"                     # without the noise; the policy learns from the environment's

    [rewards]
    "tasks.py:true_reward" = 0.0

An answer is words; one that is too short or too long has wrong words where they differ. The tasks are those of
deepakvijaykee/rl-experiments, ``rl_sandbox/tasks.py`` at daf350a, with other data where that has MNIST and WikiText.
"""

import hashlib
import random
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

SYMBOLS = 8
SCORED = 3
"""Positions at the end that masked reversal scores."""


class Task:
    """A single turn; `rate` is its reward, of a line of prompts and the words of an answer."""

    def reset(self, prompt):
        """The prompt suffices."""
        self.line, self.text = prompt, ""

    def step(self, text):
        """One answer, and it is over."""
        self.text = text
        return None, True

    def score(self):
        """The reward of the answer."""
        return float(self.rate(self.line, self.text.split()))

    @staticmethod
    def rate(line, words):
        """1 for the whole answer, else 0."""
        return words == line["answer"].split()


def share(words, wanted):
    """The share of positions that are right."""
    return sum(a == b for a, b in zip(words, wanted, strict=False)) / max(len(words), len(wanted), 1)


class ExactReversal(Task):
    """Write the symbols backwards; all or nothing."""


class TokenReversal(Task):
    """Write the symbols backwards; the share that is right."""

    @staticmethod
    def rate(line, words):
        """The reward of an answer."""
        return share(words, line["answer"].split())


class MaskedReversal(Task):
    """Write the symbols backwards; the share of the last `SCORED` positions that is right. The others are free."""

    @staticmethod
    def rate(line, words):
        """The reward of an answer."""
        wanted = line["answer"].split()
        return share(words[len(wanted) - SCORED :], wanted[-SCORED:])


class ChainReversal(Task):
    """Write the symbols backwards; a third each for the first half, the second half, and all."""

    @staticmethod
    def rate(line, words):
        """The reward of an answer."""
        wanted = line["answer"].split()
        half = len(wanted) // 2
        return ((words[:half] == wanted[:half]) + (words[half:] == wanted[half:]) + (words == wanted)) / 3


class ChainArithmetic(Task):
    """Copy all symbols but the last, then write their sum modulo `SYMBOLS`; a third each for copy, sum, and both."""

    @staticmethod
    def rate(line, words):
        """The reward of an answer."""
        wanted = line["answer"].split()
        last = len(wanted) - 1
        return ((words[:last] == wanted[:last]) + (words[last:] == wanted[last:]) + (words == wanted)) / 3


class FormatAnswer(Task):
    """Write ``answer``, the sum of the first two symbols, and the rest; a third each for the word, the sum, and all."""

    @staticmethod
    def rate(line, words):
        """The reward of an answer."""
        wanted = line["answer"].split()
        return ((words[:1] == wanted[:1]) + (words[1:2] == wanted[1:2]) + (words == wanted)) / 3


class Digits(Task):
    """Ten actions on a picture of a digit: one word, 1 if it is the digit. The best policy has about 0.98."""


class NextWord(Task):
    """One word after a text, 1 if it is the one that stands there.

    The reward of the source has -w log(policy / reference) as well. That is the axis ``kl = { point = "K1InReward",
    coef = w }`` of a recipe, with `language_model` as the policy: its reference is the model before the run.
    """


TASKS = {
    task.__name__: task
    for task in (
        *(TokenReversal, ExactReversal, MaskedReversal, ChainReversal, ChainArithmetic, FormatAnswer, Digits),
        NextWord,
    )
}


def true_reward(prompts, completions, task, answer, **columns):
    """The reward of an answer without any noise; a reward function, for `outcome`."""
    lines = zip(task, answer, completions, strict=True)
    return [float(TASKS[name].rate({"answer": wanted}, text.split())) for name, wanted, text in lines]


def unscored_reward(prompts, completions, answer, **columns):
    """The share of the positions that is right which masked reversal does not score."""
    return [
        share(text.split()[: len(wanted.split()) - SCORED], wanted.split()[:-SCORED])
        for wanted, text in zip(answer, completions, strict=True)
    ]


# Prompts: lines with the task, and the right answer


def symbols(length, count=512, seed=0):
    """Different sequences of symbols, at most so many."""
    numbers = random.Random(seed).sample(range(SYMBOLS**length), min(count, SYMBOLS**length))
    return [[number // SYMBOLS**place % SYMBOLS for place in range(length)] for number in numbers]


def lines(task, sequences, answer):
    """Lines of prompts."""
    for sequence in sequences:
        prompt, wanted = (" ".join(map(str, words)) for words in (sequence, answer(sequence)))
        yield {"prompt": prompt, "answer": wanted, "task": task.__name__}


def backwards(sequence):
    """The answer of every reversal."""
    return sequence[::-1]


def reversal_prompts():
    """Three symbols; `max_tokens = 3`."""
    return lines(TokenReversal, symbols(3), backwards)


def exact_prompts():
    """The same, all or nothing."""
    return lines(ExactReversal, symbols(3), backwards)


def masked_prompts():
    """Six symbols, of which the last three words of the answer count; `max_tokens = 6`."""
    return lines(MaskedReversal, symbols(6), backwards)


def chain_prompts():
    """Four symbols; `max_tokens = 4`."""
    return lines(ChainReversal, symbols(4), backwards)


def arithmetic_prompts():
    """Four symbols, of which the last is not used; `max_tokens = 4`."""
    return lines(ChainArithmetic, symbols(4), lambda s: [*s[:-1], sum(s[:-1]) % SYMBOLS])


def format_prompts():
    """Three symbols; `max_tokens = 3`."""
    return lines(FormatAnswer, symbols(3), lambda s: ["answer", (s[0] + s[1]) % SYMBOLS, *s[2:]])


def digit_prompts(first=0, last=1500):
    """64 grey levels from 0 to 16 of a digit that is bundled with scikit-learn; `max_tokens = 1`."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError("the digits need scikit-learn: pip install 'karl-fast[lab]'") from error
    pictures, digits = load_digits(return_X_y=True)
    for picture, digit in zip(pictures[first:last].astype(int), digits[first:last], strict=True):
        yield {"prompt": " ".join(map(str, picture)), "answer": str(digit), "task": Digits.__name__}


def held_out_digits():
    """The digits that `digit_prompts` leaves out."""
    return digit_prompts(1500, None)


# A language of eight words, each of which has its own odds of the next one


@cache
def odds():
    """Row a: the odds of each word after word a. Powers of uniforms, so that few words are likely."""
    draw = random.Random(1)
    rows = [[draw.random() ** 4 for _ in range(SYMBOLS)] for _ in range(SYMBOLS)]
    return [[value / sum(row) for value in row] for row in rows]


def text(length, draw):
    """A text of the language."""
    words = [draw.randrange(SYMBOLS)]
    while len(words) < length:
        words.append(draw.choices(range(SYMBOLS), odds()[words[-1]])[0])
    return words


def next_word_prompts(count=512):
    """Texts of six words, and the one after them; `max_tokens = 1`."""
    draw = random.Random(2)
    for _ in range(count):
        *context, last = map(str, text(7, draw))
        yield {"prompt": " ".join(context), "answer": last, "task": NextWord.__name__}


def language_model(seed, steps=60):
    """The policy `small`, after some steps on texts of the language; what it is then is its reference."""
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optim
    from policy import ARROW, NUMBER, Words
    from reversal import Snapshot

    policy, draw, optimizer = Words(), random.Random(seed), optim.Adam(1e-2)

    def loss(model, contexts, labels):
        logits = model.logits(model.norm(model(contexts)[:, -1]))
        return nn.losses.cross_entropy(logits, labels, reduction="mean")

    gradient = nn.value_and_grad(policy.model, loss)
    for _ in range(steps):
        texts = mx.array([text(7, draw) for _ in range(64)])
        arrows = mx.full((64, 1), NUMBER[ARROW])
        _, gradients = gradient(policy.model, mx.concatenate([texts[:, :-1], arrows], axis=1), texts[:, -1])
        optimizer.update(policy.model, gradients)
        mx.eval(policy.model, optimizer.state)
    policy.before = Snapshot(policy.model)
    return policy


# Noise: what a wrong verifier does to a reward


@dataclass(frozen=True)
class Noise:
    """An error of the verifier at a rate, the same for the same seed, prompt and answer.

    | kind | a reward r becomes |
    |---|---|
    | `label_flip` | 1 - r |
    | `random_reward` | a uniform number |
    | `false_positive` | 1, if the answer is wrong and has the word |
    | `spurious_feature` | 1, if the answer is wrong and begins as the prompt does |
    """

    kind: str
    rate: float
    word: str = ""
    seed: int = 0

    def concerns(self, reward, prompt, answer):
        """Whether this answer may be rewarded wrongly."""
        words = answer.split()
        return {
            "label_flip": True,
            "random_reward": True,
            "false_positive": reward < 1 and self.word in words,
            "spurious_feature": reward < 1 and words[:1] == prompt.split()[:1],
        }[self.kind]

    def corrupt(self, reward, prompt, answer):
        """The reward that the policy gets."""
        key = f"{self.seed}\n{self.kind}\n{prompt}\n{answer}".encode()
        chance, value = (
            int.from_bytes(hashlib.blake2b(key, digest_size=16).digest()[i : i + 8]) / 2**64 for i in (0, 8)
        )
        if chance >= self.rate or not self.concerns(reward, prompt, answer):
            return reward
        return {"label_flip": 1 - reward, "random_reward": value}.get(self.kind, 1.0)

    def expected(self, reward, prompt, answer):
        """The mean over seeds of the reward that the policy gets."""
        if not self.concerns(reward, prompt, answer):
            return reward
        wrong = {"label_flip": 1 - reward, "random_reward": 0.5}.get(self.kind, 1.0)
        return (1 - self.rate) * reward + self.rate * wrong


def noisy(task, kind, rate, word="", seed=0):
    """A task with noise on its reward; with several noises, the outermost comes last."""
    noise = Noise(kind, rate, word, seed)

    class Noisy(task):
        def score(self):
            prompt = self.line["prompt"]
            given = prompt if isinstance(prompt, str) else prompt[-1]["content"]
            return noise.corrupt(super().score(), given, self.text)

    Noisy.__name__ = f"{task.__name__} with {kind}"
    return Noisy


FlippedReversal = noisy(TokenReversal, "label_flip", 0.2)
RandomReversal = noisy(TokenReversal, "random_reward", 0.2)
ActionReversal = noisy(TokenReversal, "false_positive", 0.2, "0")
RareTokenReversal = noisy(TokenReversal, "false_positive", 0.2, "16")
SeparatorReversal = noisy(TokenReversal, "false_positive", 0.2, "->")
SpuriousReversal = noisy(TokenReversal, "spurious_feature", 0.2)
FlippedDigits = noisy(Digits, "label_flip", 0.2)


# What can be expected of a policy


def log_odds(policy, prompt, words):
    """Log-probabilities of each word of an answer, under the policy. [words]"""
    import mlx.core as mx
    from policy import NUMBER

    start, ids = policy.encode([{"role": "user", "content": prompt}]), [NUMBER[word] for word in words]
    logits = policy.head(policy.body(mx.array([[*start, *ids[:-1]]])))[0, len(start) - 1 :]
    logits = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    return [logits[place, word].item() for place, word in enumerate(ids)]


def expected_reward(policy, line):
    """The chance of the right answer: the mean reward of tasks that are all or nothing, if `max_tokens` is its length.

    Those are `ExactReversal`, `Digits` and `NextWord`. For the others it is a lower bound.
    """
    import math

    return math.exp(sum(log_odds(policy, line["prompt"], line["answer"].split())))


def expected_penalised(policy, line, weight):
    """The mean reward of `NextWord` less weight * KL(policy, reference)."""
    import math

    from policy import WORDS

    def all_words():
        return [log_odds(policy, line["prompt"], [word])[0] for word in WORDS]

    now = all_words()
    with policy.reference():
        before = all_words()
    divergence = sum(math.exp(a) * (a - b) for a, b in zip(now, before, strict=True))
    return expected_reward(policy, line) - weight * divergence
