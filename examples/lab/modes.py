"""Eight right answers to each prompt: two numbers below 8 whose sum, modulo 8, is the prompt.

The policy is the transformer of `examples/rl/reversal.py`. A policy that keeps all eight with equal probability has 7.1
different ones among 16 answers on average, one that keeps a single one has 1.
"""

SYMBOLS = 8


def prompts():
    """Every sum."""
    return [{"prompt": str(number)} for number in range(SYMBOLS)]


def distinct(prompts, completions, completion_ids=None, **columns):
    """Numbers whose mean over the answers to a prompt is how many different right ones there are."""
    hits = right(prompts, completions, completion_ids)
    answers = [tuple(ids) for ids in completion_ids]
    return [hit * len(answers) / answers.count(answer) for hit, answer in zip(hits, answers, strict=True)]


def right(prompts, completions, completion_ids=None, **columns):
    """1 for two numbers whose sum is asked for, else 0."""
    wanted = [int(prompt[-1]["content"]) for prompt in prompts]
    return [
        float(len(ids) == 2 and max(ids) < SYMBOLS and sum(ids) % SYMBOLS == sought)
        for sought, ids in zip(wanted, completion_ids, strict=True)
    ]
