"""Make preference_losses.json: losses and gradients of TRL's own trainers on given log-probabilities.

python tests/golden/make_preference_losses.py, where torch and TRL are installed (made with trl 1.16.0, torch 2.6.0). It
imports nothing of the package. The methods of the trainers run unchanged, on a stand-in for a model that returns the
log-probabilities, and on one for the trainer that has the settings.
"""

from __future__ import annotations

import json
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from trl import DPOTrainer, KTOTrainer
from trl.experimental.cpo import CPOTrainer
from trl.experimental.orpo import ORPOTrainer

FILE = Path(__file__).with_name("preference_losses.json")
LENGTHS = [5, 3, 4, 6, 2, 5]
"""Of three pairs, each the chosen answer and the rejected one."""

WIDTH = max(LENGTHS)
DRAW = torch.Generator().manual_seed(3)


def drawn(spread: float, around: Any = -1.2) -> Any:
    noise = torch.randn(len(LENGTHS), WIDTH, generator=DRAW, dtype=torch.float64) * spread
    return (around + noise).clamp(max=-0.02).round(decimals=3)


MASK = torch.arange(WIDTH)[None, :] < torch.tensor(LENGTHS)[:, None]
LOGP, OTHER = drawn(0.5), drawn(0.5)
REFERENCE, OTHER_REFERENCE = drawn(0.3, LOGP), drawn(0.3, OTHER - 0.1)
LABELS = torch.tensor([True, False, True, True, False, False])
CHOSEN, REJECTED = [0, 2, 4], [1, 3, 5]
SIDES = [*CHOSEN, *REJECTED]
"""TRL has all chosen answers before all rejected ones."""


class Accelerator:
    device = torch.device("cpu")

    @staticmethod
    def gather_for_metrics(value: Any) -> Any:
        return value

    gather = gather_for_metrics


def outputs(logp: Any) -> Any:
    """What a model returns: log-probabilities, and zeros for what only metrics read."""
    zeros = torch.zeros_like(logp)
    return SimpleNamespace(log_probs=logp, entropy=zeros, mean_logits=zeros, is_top1=zeros.bool(), aux_loss=None)


def trainer(kind: Any, logp: Any, **settings: Any) -> Any:
    """A trainer without a model: the methods of its class, and the settings that they read."""
    held = kind.__new__(kind)
    model = SimpleNamespace(training=True)
    known = {
        "model": model,
        "accelerator": Accelerator(),
        "aux_loss_enabled": False,
        "precompute_ref_logps": True,
        "_metrics": defaultdict(lambda: defaultdict(list)),
        "_total_train_tokens": 0,
        "_tp_size": 1,
    }
    held.__dict__.update(known | settings)
    return held, lambda **_: outputs(logp)


def inputs(rows: list[int]) -> dict[str, Any]:
    """Tokens of answers, which nothing looks at, after one token of a prompt."""
    mask = torch.cat([torch.zeros(len(rows), 1, dtype=torch.long), MASK[rows].long()], 1)
    return {"input_ids": torch.ones_like(mask), "attention_mask": torch.ones_like(mask), "completion_mask": mask}


def summed(values: Any) -> Any:
    return (values * MASK).sum(1)


def dpo(kind: str, beta: float) -> tuple[Any, Any]:
    logp = (LOGP * MASK).requires_grad_()
    how = {"ld_alpha": None, "f_divergence_type": "reverse_kl", "loss_types": [kind], "loss_weights": [1.0]}
    held, model = trainer(DPOTrainer, logp[SIDES], beta=beta, label_smoothing=0.0, use_weighting=False, **how)
    reference = summed(REFERENCE)
    batch = inputs(SIDES) | {"ref_chosen_logps": reference[CHOSEN], "ref_rejected_logps": reference[REJECTED]}
    return DPOTrainer._compute_loss(held, model, batch, False), logp


def kto(beta: float, desirable: float, undesirable: float) -> tuple[Any, Any]:
    logp = (LOGP * MASK).requires_grad_()
    how = {"desirable_weight": desirable, "undesirable_weight": undesirable, "loss_type": "kto", "calculate_KL": True}
    held, model = trainer(KTOTrainer, logp, beta=beta, **how)
    held._compute_kl_logps = lambda *_: summed(OTHER)
    batch = inputs(list(range(len(LENGTHS)))) | {"label": LABELS}
    batch |= {"ref_logps": summed(REFERENCE), "ref_KL_logps": summed(OTHER_REFERENCE)}
    return KTOTrainer._compute_loss(held, model, batch, False), logp


def simpo(beta: float, gamma: float) -> tuple[Any, Any]:
    logp = (LOGP * MASK).requires_grad_()
    held, _ = trainer(CPOTrainer, None, beta=beta, simpo_gamma=gamma, alpha=0.0, loss_type="simpo", label_smoothing=0.0)
    means = logp.sum(1) / MASK.sum(1)
    return CPOTrainer.cpo_loss(held, means[CHOSEN], means[REJECTED])[0].mean(), logp


def orpo(beta: float) -> tuple[Any, Any]:
    """The odds ratio is TRL's; the likelihood is that of the paper, of the answer alone."""
    logp = (LOGP * MASK).float().requires_grad_()  # its method casts to float32
    held, _ = trainer(ORPOTrainer, None, beta=beta)
    means = logp.sum(1) / MASK.sum(1)
    return -means[CHOSEN].mean() - ORPOTrainer.odds_ratio_loss(held, means[CHOSEN], means[REJECTED])[0].mean(), logp


CASES: dict[str, tuple[Any, dict[str, float]]] = {
    "dpo": (lambda beta: dpo("sigmoid", beta), {"beta": 0.1}),
    "dpo strong": (lambda beta: dpo("sigmoid", beta), {"beta": 0.7}),
    "ipo": (lambda beta: dpo("ipo", beta), {"beta": 0.1}),
    "simpo": (simpo, {"beta": 2.0, "gamma": 1.0}),
    "kto": (kto, {"beta": 0.1, "desirable": 1.0, "undesirable": 1.0}),
    "kto weighted": (kto, {"beta": 0.4, "desirable": 1.33, "undesirable": 0.8}),
    "orpo": (orpo, {"beta": 0.1}),
}


def case(name: str) -> dict[str, Any]:
    function, settings = CASES[name]
    loss, logp = function(**settings)
    [gradient] = torch.autograd.grad(loss, [logp])
    return {"id": name, "settings": settings, "loss": loss.item(), "gradient": (gradient * MASK).tolist()}


if __name__ == "__main__":
    held = {
        "made_by": f"{Path(__file__).name}: trl {version('trl')}, torch {version('torch')}, methods of its trainers",
        "inputs": {
            "mask": MASK.tolist(),
            "logp": LOGP.tolist(),
            "reference": REFERENCE.tolist(),
            "other": summed(OTHER).tolist(),
            "other_reference": summed(OTHER_REFERENCE).tolist(),
            "labels": LABELS.tolist(),
        },
        "cases": [case(name) for name in CASES],
    }
    FILE.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
