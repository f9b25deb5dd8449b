"""A judge of whole groups: rollouts of one prompt are ranked against each other. See judge.toml.

A reward function is called once a group, so it can compare. Here the judge counts words; a model that is asked which of
two answers is better has the same form.
"""


def ranked(prompts, completions, **columns):
    """The share of the other completions that each one is better than; equal ones share what they win."""
    worth = [len(set(text.split())) for text in completions]
    others = max(len(worth) - 1, 1)
    return [sum((mine > its) + 0.5 * (mine == its) for its in worth) / others - 0.5 / others for mine in worth]
