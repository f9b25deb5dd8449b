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
import random

FIELDS = {
    "name": ["ann", "bob", "eve", "ida", "kim", "leo", "mia", "tom"],
    "age": ["18", "23", "31", "42", "57", "64", "70", "89"],
    "city": ["bonn", "cork", "lima", "nice", "oslo", "pisa", "rome", "york"],
}
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
