"""Evaluation by rollouts, and the gate that promotes an adapter only if it is better.

| name | what it does |
|---|---|
| `evaluate_rollouts` | attempts held-out prompts with one policy, or with two, into a log |
| `RolloutEvaluation` | its measures, with intervals over prompts and paired differences |
| `promote` | moves the link ``current`` to an adapter that is better on held-out data |
| `rollback` | moves the link back |
| `Decision` | the record of a promotion or a refusal |

Needs the extra ``train`` where a model is loaded.
"""

from __future__ import annotations

from karl_fast.evaluation.gate import Decision, promote, rollback
from karl_fast.evaluation.rollouts import RolloutEvaluation, RolloutSettings, evaluate_rollouts

__all__ = ["Decision", "RolloutEvaluation", "RolloutSettings", "evaluate_rollouts", "promote", "rollback"]
