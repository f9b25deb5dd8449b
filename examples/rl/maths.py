"""Single turn: sums, and a checker of the answer. `karl-fast rl --config examples/rl/maths.toml`."""

import re


def correct(completions, answer, **columns):
    """1 where the last number of a completion is the answer, else 0."""
    return [float(number == wanted) for number, wanted in zip(map(last_number, completions), answer, strict=True)]


def short(completions, **columns):
    """From 1 for nothing down to 0 for 200 characters: a second component, of a small weight."""
    return [max(0.0, 1 - len(text) / 200) for text in completions]


def last_number(text):
    """The last whole number in a text, or None."""
    numbers = re.findall(r"-?\d+", text)
    return int(numbers[-1]) if numbers else None
