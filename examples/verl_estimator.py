"""karl-fast as an advantage estimator of verl: `python examples/verl_estimator.py`.

verl calls an estimator by name with keywords: `token_level_rewards` and `response_mask` [B, T], `index` (the prompt of
each row), `config`, and others as it grows. Import this module where the trainer starts, and set
`algorithm.adv_estimator=karl_fast_zscore`.
"""

import sys
from typing import Any

import numpy as np

import karl_fast

try:
    import torch
except ImportError:
    print("torch is not installed: nothing was run")
    sys.exit()

try:
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn, register_adv_est
except ImportError:
    print("verl is not installed: its registry is a dictionary here")
    registry: dict[str, Any] = {}
    get_adv_estimator_fn = registry.__getitem__

    def register_adv_est(name: str) -> Any:
        """Put a function under its name."""
        return lambda function: registry.setdefault(name, function)


@register_adv_est("karl_fast_zscore")
def zscore(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: np.ndarray, **others: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Group z-score with verl's ddof and eps; a group of one has advantage 0, not the raw reward that verl gives it."""
    rewards = token_level_rewards.sum(-1).double().cpu().numpy()
    groups = np.unique(index, return_inverse=True)[1]
    scores = torch.from_numpy(karl_fast.zscore(rewards, groups, ddof=1, eps=1e-6))
    advantages = scores.to(token_level_rewards)[:, None] * response_mask
    return advantages, advantages


if __name__ == "__main__":
    # What the trainer does: two prompts, one of them with a single rollout; the reward stands on the last token.
    mask = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]])
    rewards = torch.tensor([[0, 0, 1.0], [0, 0, 0], [0, 0, 0], [0, 0, 1.0]])
    prompts = np.array(["a", "a", "a", "b"], dtype=object)
    estimator = get_adv_estimator_fn("karl_fast_zscore")
    advantages, returns = estimator(token_level_rewards=rewards, response_mask=mask, index=prompts, config=None)
    for prompt, row in zip(prompts, advantages.tolist(), strict=True):
        print(prompt, [round(value, 4) for value in row])
