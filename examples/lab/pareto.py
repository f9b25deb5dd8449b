"""Answers with two rewards that cannot both be had: the Pareto front of vpo_sandbox in rl-experiments @2c9e417.

    model = "policy.py:small"
    prompts = "pareto.py:prompts"     # max_tokens = 1
    rewards = { "pareto.py:rewards" = 1.0 }

Seven words are the arms, each with two rewards. A prompt rotates the arms, and may swap the rewards.
"""

ARMS = ((1.0, 0.0), (0.85, 0.25), (0.6, 0.6), (0.25, 0.85), (0.0, 1.0), (0.3, 0.2), (0.05, 0.05))


def prompts():
    """A prompt for each rotation and order of the rewards: two numbers."""
    for rotation in range(len(ARMS)):
        for swapped in range(2):
            yield {"prompt": f"{rotation} {swapped}", "rotation": rotation, "swapped": swapped}


def rewards(completions, rotation, swapped, **columns):
    """Both rewards of each answer, by name; a word that is not an arm has none of either."""
    front = []
    for text, turn, swap in zip(completions, rotation, swapped, strict=True):
        arm = int(text) if text.isdigit() and int(text) < len(ARMS) else None
        first, second = (0.0, 0.0) if arm is None else ARMS[(arm + turn) % len(ARMS)]
        front.append({"first": second, "second": first} if swap else {"first": first, "second": second})
    return front
