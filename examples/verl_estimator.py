"""karl-fast as an advantage estimator and a policy loss of verl: `python examples/verl_estimator.py`.

verl calls both by name with keywords: an estimator with `token_level_rewards` and `response_mask` [B, T], `index` (the
prompt of each row) and `config`, a loss with `old_log_prob`, `log_prob`, `advantages` and `response_mask` [B, T],
`loss_agg_mode` and `config`, and both with others as verl grows. Import this module where the trainer starts, and set
`algorithm.adv_estimator=karl_fast_zscore` and `actor_rollout_ref.actor.policy_loss.loss_mode=karl_fast_gspo`.
"""

import sys
from typing import Any

import numpy as np

import karl_fast
from karl_fast.objective import Batch, recipe
from karl_fast.objective.axes.advantage import Given
from karl_fast.objective.axes.filter import KeepAll

try:
    import torch
except ImportError:
    print("torch is not installed: nothing was run")
    sys.exit()

try:
    from verl.trainer.ppo.core_algos import (
        get_adv_estimator_fn,
        get_policy_loss_fn,
        register_adv_est,
        register_policy_loss,
    )
except ImportError:
    print("verl is not installed: its registries are a dictionary here")
    registry: dict[str, Any] = {}
    get_adv_estimator_fn = get_policy_loss_fn = registry.__getitem__

    def register_adv_est(name: str) -> Any:
        """Put a function under its name."""
        return lambda function: registry.setdefault(name, function)

    register_policy_loss = register_adv_est


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


GSPO = recipe("gspo").but(
    "GSPO in verl",
    "verl's trainer filters and gives advantages",
    filter=(KeepAll(), "what verl's trainer has left [ours]"),
    advantage=(Given(), "those of verl's estimator [ours]"),
)


@register_policy_loss("karl_fast_gspo")
def gspo(
    old_log_prob: torch.Tensor,
    log_prob: torch.Tensor,
    advantages: torch.Tensor,
    response_mask: torch.Tensor,
    loss_agg_mode: str = "seq-mean-token-mean",
    config: Any = None,
    **others: Any,
) -> tuple[torch.Tensor, dict[str, float]]:
    """Compute the loss of a recipe, with its gradient; clip and aggregate are the recipe's, not verl's settings."""
    old, new, given = (array.detach().float().cpu().numpy() for array in (old_log_prob, log_prob, advantages))
    found = GSPO(new, Batch(mask=response_mask.bool().cpu().numpy(), logp_old=old, advantages=given))
    surrogate = (torch.from_numpy(found.coefficients).to(log_prob) * log_prob).sum()
    loss = surrogate - surrogate.detach() + found.loss  # its value is the loss, its gradient the surrogate's
    return loss, {f"actor/{name}": value for name, value in found.statistics.items()}


if __name__ == "__main__":
    # What the trainer does: two prompts, one of them with a single rollout; the reward stands on the last token.
    mask = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]])
    rewards = torch.tensor([[0, 0, 1.0], [0, 0, 0], [0, 0, 0], [0, 0, 1.0]])
    prompts = np.array(["a", "a", "a", "b"], dtype=object)
    estimator = get_adv_estimator_fn("karl_fast_zscore")
    advantages, returns = estimator(token_level_rewards=rewards, response_mask=mask, index=prompts, config=None)
    for prompt, row in zip(prompts, advantages.tolist(), strict=True):
        print(prompt, [round(value, 4) for value in row])
    logits = torch.zeros(4, 3, requires_grad=True)
    log_prob = torch.nn.functional.logsigmoid(logits)
    drawn_at = log_prob.detach() - torch.tensor([[2e-4], [0.0], [0.0], [0.0]])
    loss, metrics = get_policy_loss_fn("karl_fast_gspo")(drawn_at, log_prob, advantages, mask)
    loss.backward()
    print(f"loss {loss.item():.4f}, ratio up to {metrics['actor/ratio_max']:.4f}")
    print("gradient of the first rollout:", [round(value, 4) for value in logits.grad[0].tolist()])
