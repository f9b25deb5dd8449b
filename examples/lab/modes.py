"""Eight right answers to each prompt: two numbers below 8 whose sum, modulo 8, is the prompt.

The policy is the transformer of `examples/rl/reversal.py`. With every answer right, the effective number of answers to
a prompt is exp of the entropy over two tokens: 8 for a policy that keeps them all, 1 for one that keeps one.
"""

SYMBOLS = 8


def prompts():
    """Every sum."""
    return [{"prompt": str(number)} for number in range(SYMBOLS)]


def right(prompts, completions, completion_ids=None, **columns):
    """1 for two numbers whose sum is asked for, else 0."""
    wanted = [int(prompt[-1]["content"]) for prompt in prompts]
    return [
        float(len(ids) == 2 and max(ids) < SYMBOLS and sum(ids) % SYMBOLS == sought)
        for sought, ids in zip(wanted, completion_ids, strict=True)
    ]
