"""Forms: a few fields of a prompt as a JSON object, and the policies that fill them in.

A prompt names three fields in some order; the answer is a JSON object with the same fields, in any order. Pre-training
has answers in every order, and in `NOISE` of the fields a wrong value, so that a model knows the form and errs in the
content; the reward says how many fields are right.

    prompt   age 42 name ann city rome
    answer   { "name" : "ann" , "age" : 42 , "city" : "rome" }

    data = "forms.py:rows"              # karl-fast pretrain
    prompts = "forms.py:prompts"        # karl-fast rl
    environment = "forms.py:Form"
"""

import json
import os
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

FIELDS = {
    "name": ["ann", "bob", "eve", "ida", "kim", "leo", "mia", "tom"],
    "age": ["18", "23", "31", "42", "57", "64", "70", "89"],
    "city": ["bonn", "cork", "lima", "nice", "oslo", "pisa", "rome", "york"],
}
MODELS = Path(os.environ.get("FORMS_MODELS", Path(__file__).resolve().parents[2] / "runs"))
"""Where the pre-trained models are kept: each is made once, with seed 0, by the run that needs it first."""

ITERS = int(os.environ.get("FORMS_ITERS", "0"))
"""Batches of pre-training in the place of those of the file, for a quick try."""

NOISE = 0.3
"""Share of fields with a wrong value in the answers of pre-training."""


def ask(form, draw):
    """The text of a prompt: the fields in a random order."""
    names = draw.sample(sorted(form), len(form))
    return " ".join(f"{name} {form[name]}" for name in names)


def write(form, names):
    """The text of an answer, with blanks between the words."""
    quoted = (f'"{name}" : {form[name] if name == "age" else json.dumps(form[name])}' for name in names)
    return f"{{ {' , '.join(quoted)} }}"


def choose(draw):
    """A random form."""
    return {name: draw.choice(values) for name, values in FIELDS.items()}


def rows(count=20_000, seed=0):
    """Rows of pre-training: prompts with answers, some of whose values are wrong."""
    draw = random.Random(seed)
    for _ in range(count):
        form = choose(draw)
        wrong = {name: draw.choice(FIELDS[name]) if draw.random() < NOISE else value for name, value in form.items()}
        yield {"prompt": ask(form, draw), "answer": write(wrong, draw.sample(sorted(form), len(form)))}


def prompts(count=256, seed=1):
    """Lines of prompts, each with its form."""
    draw = random.Random(seed)
    for _ in range(count):
        form = choose(draw)
        yield {"prompt": ask(form, draw), "form": form}


def held_out(count=128):
    """Other prompts than those that are learned from."""
    return prompts(count, seed=2)


def share(text, form):
    """The share of fields that are right; 0 for a text that is not a JSON object of exactly these fields."""
    try:
        answer = json.loads(text)
    except ValueError:
        return 0.0
    if not isinstance(answer, dict) or answer.keys() != form.keys() or text.count(":") != len(form):
        return 0.0
    return sum(str(answer[name]) == value for name, value in form.items()) / len(form)


class Form:
    """An environment of one turn: the reward is the share of fields that are filled in rightly."""

    def reset(self, prompt):
        """The prompt suffices."""
        self.form, self.text = prompt["form"], ""

    def step(self, text):
        """One answer, and it is over."""
        self.text = text
        return None, True

    def score(self):
        """The share of right fields."""
        return share(self.text, self.form)


def words(prompts, completions, **columns):
    """The share of words of an answer that the prompt has too: a reward for models that do not know the form yet."""
    return [
        sum(word.strip('"') in prompt[-1]["content"].split() for word in text.split()) / max(1, len(text.split()))
        for prompt, text in zip(prompts, completions, strict=True)
    ]


def diffusion(name):
    """The model of `pretrain/NAME.toml`, pre-trained if it is absent; all of its weights are trained further."""
    from karl_fast.diffusion.policy import DiffusionModel, is_diffusion_model, load_model
    from karl_fast.diffusion.pretrain import pretrain
    from karl_fast.diffusion.settings import Pretraining, read_config
    from karl_fast.modeling.model_views import Snapshot

    folder = MODELS / f"forms-{name}"
    if not is_diffusion_model(str(folder)):
        settings = read_config(str(Path(__file__).resolve().parent / "pretrain" / f"{name}.toml")).settings
        pretrain(Pretraining(**settings | {"out": str(folder)} | ({"iters": ITERS} if ITERS else {})), force=True)
    model, config = load_model(str(folder))
    return DiffusionModel(model, config, Snapshot(model))


def masked(seed):
    """Masked diffusion."""
    return diffusion("masked")


def flow(seed):
    """Discrete flow."""
    return diffusion("flow")


def left_to_right(seed, steps=3000):
    """A transformer of the same size that writes from left to right, pre-trained on the same rows.

    Its weights are pre-trained once, with seed 0, and kept beside the models of `karl-fast pretrain`.
    """
    import mlx.core as mx
    from policy import Words
    from reversal import Snapshot, Transformer

    class FormWords(Words):
        """Words of forms; the end of an answer is a word."""

        def __init__(self):
            quoted = [f'"{value}"' for name in ("name", "city") for value in FIELDS[name]]
            words = [*FIELDS, *(value for values in FIELDS.values() for value in values)]
            self.words = [".", "->", "{", "}", ":", ",", *words, *quoted, *(f'"{name}"' for name in FIELDS)]
            self.numbers = {word: number for number, word in enumerate(self.words)}
            self.ends = frozenset([0])
            self.model = Transformer(32, 2, 4, 32, len(self.words))

        def encode(self, messages):
            """Words of all messages, and the arrow."""
            return [self.numbers[word] for message in messages for word in message["content"].split()] + [1]

        def decode(self, tokens):
            """Words, without the end."""
            return " ".join(self.words[token] for token in tokens if token)

    policy, weights = FormWords(), MODELS / "forms-left.safetensors"
    if not weights.is_file():
        mx.random.seed(0)
        policy = FormWords()
        pretrain_left_to_right(policy, ITERS or steps)
        weights.parent.mkdir(parents=True, exist_ok=True)
        policy.model.save_weights(str(weights))
    policy.model.load_weights(str(weights))
    policy.before = Snapshot(policy.model)
    return policy


def pretrain_left_to_right(policy, steps):
    """Learn the answers of `rows`, word by word."""
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optim

    texts = [
        (policy.encode([{"content": row["prompt"]}]), [policy.numbers[word] for word in row["answer"].split()] + [0])
        for row in rows()
    ]
    tokens, start = mx.array([prompt + answer for prompt, answer in texts]), len(texts[0][0])

    def loss(model, batch):
        logits = model.logits(model.norm(model(batch[:, :-1])))[:, start - 1 :]
        return nn.losses.cross_entropy(logits, batch[:, start:], reduction="mean")

    gradient = nn.value_and_grad(policy.model, loss)
    optimizer = optim.Adam(optim.cosine_decay(2e-3, steps), bias_correction=True)
    for step in range(steps):
        mx.random.seed(step)
        _, gradients = gradient(policy.model, tokens[mx.random.randint(0, len(texts), (32,))])
        optimizer.update(policy.model, gradients)
        mx.eval(policy.model, optimizer.state)
