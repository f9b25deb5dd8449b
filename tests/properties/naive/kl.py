"""Estimators of a divergence, and divergences, as their formulas read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def estimate(d: Any, estimator: str) -> Any:
    return {"k1": d, "k2": d * d / 2, "k3": np.array([math.expm1(-x) + x for x in d])}[estimator]


def slope(d: Any, estimator: str) -> Any:
    return {"k1": np.ones_like(d), "k2": d, "k3": -np.expm1(-d)}[estimator]


def softmax(logits: Any) -> Any:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def reverse(logits: Any, logits_ref: Any) -> float:
    p, q = softmax(logits), softmax(logits_ref)
    return float(sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0))
