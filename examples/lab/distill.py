"""A policy that can follow a demonstration, a teacher that knows the task, and prompts with a demonstration.

    model = "distill.py:follower"       # writes symbols at random, but copies an answer that it is shown
    prompts = "distill.py:prompts"      # three symbols to write backwards; teacher_prompt shows the answer as well
    teacher = "distill.py:expert"       # twice as wide, trained on right answers

Both models are trained here, from their seed, in a few seconds each. `near`, `after_15` and `after_240` are policies
that have made some steps towards the task; `softer` and `softest` are the teacher with its logits divided by 2 and 4;
`untrained` is a teacher that knows nothing.
"""

import random
import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from policy import ARROW, NUMBER, Words
from reversal import Snapshot
from tasks import SYMBOLS, reversal_prompts

LENGTH = 3


def shown(prompt, answer):
    """What the teacher sees in the place of the prompt."""
    return f"{answer} : {prompt}"


def prompts():
    """Lines of the task, each with what a teacher sees."""
    for line in reversal_prompts():
        yield line | {"teacher_prompt": shown(line["prompt"], line["answer"])}


def text(symbols):
    """Symbols as words."""
    return " ".join(map(str, symbols))


def random_symbols(draw):
    """As many as a prompt has."""
    return [draw.randrange(SYMBOLS) for _ in range(LENGTH)]


def numbers(words):
    """Words as tokens."""
    return [NUMBER[word] for word in words.split()]


def follow(draw):
    """A prompt with a demonstration of any answer, that answer, and what is written."""
    answer = text(random_symbols(draw))
    return shown(text(random_symbols(draw)), answer), answer, answer


def guess(draw):
    """A prompt without one, and any answer."""
    answer = text(random_symbols(draw))
    return text(random_symbols(draw)), answer, answer


def solve(draw):
    """A prompt, the right answer, and what was written before each word of it: half of the time anything."""
    symbols = random_symbols(draw)
    answer = text(reversed(symbols))
    return text(symbols), answer, answer if draw.random() < 0.5 else text(random_symbols(draw))


def train(policy, examples, steps, seed):
    """Steps of maximum likelihood; each step has texts of one kind, because they are of one length."""
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optim

    draw, optimizer = random.Random(seed), optim.Adam(1e-2)

    def loss(model, tokens, answers):
        logits = model.logits(model.norm(model(tokens[:, :-1])))[:, -LENGTH:]
        return nn.losses.cross_entropy(logits, answers, reduction="mean")

    gradient = nn.value_and_grad(policy.model, loss)
    for step in range(steps):
        rows = [examples[step % len(examples)](draw) for _ in range(64)]
        tokens = [numbers(f"{prompt} {ARROW} {written}") for prompt, _, written in rows]
        _, gradients = gradient(policy.model, mx.array(tokens), mx.array([numbers(answer) for _, answer, _ in rows]))
        optimizer.update(policy.model, gradients)
        mx.eval(policy.model, optimizer.state)
    return policy


@cache
def trained(size, examples, steps, seed):
    """The weights of a model after its training."""
    import mlx.core as mx

    mx.random.seed(seed)
    return train(Words(size), examples, steps, seed).model.parameters()


def loaded(size, *training):
    """A model with trained weights."""
    policy = Words(size)
    policy.model.update(trained(size, *training))
    policy.before = Snapshot(policy.model)
    return policy


def follower(seed):
    """The policy of every arm."""
    return loaded(32, (follow, guess), 300, seed)


def expert(seed):
    """The teacher; the same for every seed."""
    return loaded(64, (solve,), 150, 0)


def near(seed):
    """A policy after 60 steps on right answers: nearly all that it writes is right."""
    return loaded(32, (solve,), 60, seed)


def after_240(seed):
    """After four times as many."""
    return loaded(32, (solve,), 240, seed)


def after_15(seed):
    """After a quarter of them."""
    return loaded(32, (solve,), 15, seed)


def untrained(seed):
    """A teacher with random weights, the same for every seed."""
    return loaded(64, (solve,), 0, 0)


class Soft:
    """A policy whose logits are divided by a temperature."""

    def __init__(self, policy, temperature):
        self._policy, self._temperature = policy, temperature

    def __getattr__(self, name):
        return getattr(self._policy, name)

    def head(self, hidden):
        """Hidden states to logits."""
        return self._policy.head(hidden) / self._temperature


def softer(seed):
    """The teacher at a temperature of 2."""
    return Soft(expert(seed), 2.0)


def softest(seed):
    """The teacher at a temperature of 4."""
    return Soft(expert(seed), 4.0)


def long_prompts():
    """One prompt that says nothing about the length of its answer."""
    yield {"prompt": text(range(SYMBOLS))}
