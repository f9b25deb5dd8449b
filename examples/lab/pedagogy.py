"""Sums that a student writes with two free symbols before them: hinted arithmetic of rl-experiments @879294c.

    model = "policy.py:small"
    student = "policy.py:small"
    prompts = "pedagogy.py:prompts"         # max_tokens = 3
    rewards = { "pedagogy.py:right" = 1.0 }

The student sees two numbers below five and writes three symbols, of which the last is to be their sum modulo five. The
teacher sees the sum as well. What it writes in the two places before is its own choice: that is what a student may find
easy or hard to follow.
"""

SIZE = 5


def prompts():
    """Every pair of numbers; the teacher's prompt begins with their sum."""
    for first in range(SIZE):
        for second in range(SIZE):
            total = (first + second) % SIZE
            text = f"{first} {second}"
            yield {"prompt": text, "teacher_prompt": f"{total} {text}", "total": total}


def right(completions, total, **columns):
    """1 for three symbols of which the last is the sum, else 0."""
    return [
        float(len(words := text.split()) == 3 and words[-1] == str(wanted))
        for text, wanted in zip(completions, total, strict=True)
    ]
