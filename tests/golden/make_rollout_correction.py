"""Make rollout_correction.json: corrections, DPPO and IPO from their formulas, in decimals of 50 digits.

python tests/golden/make_rollout_correction.py; it imports nothing of the package.
"""

from __future__ import annotations

import json
from decimal import Decimal, getcontext
from pathlib import Path
from typing import Any

getcontext().prec = 50
FILE = Path(__file__).with_name("rollout_correction.json")
HELD = json.loads(FILE.read_text("utf-8"))
GIVEN = HELD["inputs"]
TOKENS = [(i, t) for i, row in enumerate(GIVEN["mask"]) for t, counts in enumerate(row) if counts]
COUNT = Decimal(len(TOKENS))
Weights = dict[tuple[int, int], Decimal]


def number(value: float) -> Decimal:
    return Decimal(str(value))


def of(name: str, at: tuple[int, int]) -> Decimal:
    return number(GIVEN[name][at[0]][at[1]])


def grid(values: Weights) -> list[list[float]]:
    return [[float(values.get((i, t), 0)) for t in range(len(row))] for i, row in enumerate(GIVEN["mask"])]


def ratios(level: str) -> Weights:
    found = {}
    for at in TOKENS:
        mine = [of("logp_old", other) - of("logp_rollout", other) for other in TOKENS if other[0] == at[0]]
        own = of("logp_old", at) - of("logp_rollout", at)
        found[at] = {"token": own, "sequence": sum(mine), "geometric": sum(mine) / len(mine)}[level].exp()  # type: ignore[union-attr]
    return found


def corrected(level: str, low: float, high: float, mode: str) -> dict[str, Any]:
    """The weights, their statistics, and the clip of PPO at 0.2 under them as a mean over tokens."""
    least, most, raw, own = number(low), number(high), ratios(level), ratios("token")
    masks = mode == "mask"
    below = [masks and raw[at] < least for at in TOKENS]
    above = [raw[at] > most for at in TOKENS]
    held = zip(TOKENS, below, above, strict=True)
    weights = {at: (Decimal(0) if masks else most) if under or over else raw[at] for at, under, over in held}
    loss, slopes = Decimal(0), {}
    for at in TOKENS:
        advantage, ratio = number(GIVEN["advantages"][at[0]]), (of("logp", at) - of("logp_old", at)).exp()
        free, clipped = ratio * advantage, min(max(ratio, number(0.8)), number(1.2)) * advantage
        loss -= weights[at] * min(free, clipped) / COUNT
        slopes[at] = -weights[at] * free / COUNT if free <= clipped else Decimal(0)
    total, squares = sum(weights.values()), sum(value * value for value in weights.values())
    return {
        "weights": grid(weights),
        "k3": float(sum(value - 1 - value.ln() for value in own.values()) / COUNT),
        "chi2": float(sum(value * value for value in own.values()) / COUNT - 1),
        "low": float(sum(below) / COUNT),
        "high": float(sum(above) / COUNT),
        "ess": float(total * total / squares / COUNT),
        "loss_ppo_clip_token_mean": float(loss),
        "gradient": grid(slopes),
    }


def anchored(name: str) -> dict[str, Any]:
    """DPPO: a detached ratio on logp under a mask by sign; IPO: the ratio under a band, and a squared log ratio."""
    loss, slopes = Decimal(0), {}
    for at in TOKENS:
        advantage, logp, drawn = number(GIVEN["advantages"][at[0]]), of("logp", at), of("logp_rollout", at)
        apart, rise = logp - drawn, logp.exp() - drawn.exp()
        if name == "dppo":
            out = rise > number(0.2) if advantage > 0 else rise < -number(0.2)
            weight = Decimal(0) if out else min(apart.exp(), Decimal(20))
            term, slope = -weight * advantage * logp, -weight * advantage
        else:
            gain = -apart.exp() * advantage if abs(rise) <= number(0.3) else Decimal(0)
            term, slope = gain + number(0.001) * apart**2, gain + number(0.002) * apart
        loss, slopes[at] = loss + term / COUNT, slope / COUNT
    return {"loss": float(loss), "gradient": grid(slopes)}


if __name__ == "__main__":
    for case in HELD["cases"]:
        case["outputs"] = corrected(**case["inputs"]) if case["inputs"] else anchored(case["id"])
    FILE.write_text(json.dumps(HELD, indent=1) + "\n", "utf-8")
