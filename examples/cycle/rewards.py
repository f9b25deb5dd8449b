"""A reward of attempts at held-out prompts: replace it by what an answer is worth to you."""


def brief(prompts, completions, **columns):
    """The share of a hundred characters that an answer leaves unused."""
    return [max(0.0, 1 - len(answer) / 100) for answer in completions]
