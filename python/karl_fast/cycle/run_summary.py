"""What a run comes to: rows, rewards before and after, and the decision."""

from __future__ import annotations

from typing import Any

FIGURES_KEPT = {
    "collect": ("agents", "files", "grown", "reread", "lines", "size_bytes", "written_bytes", "failed"),
    "convert": ("trajectories", "rewarded", "lines_read", "size_bytes", "written_bytes", "secrets"),
    "outcomes": ("written", "known", "components", "commits", "dropped", "written_bytes"),
    "sample": ("accounting", "reward", "draw", "secrets"),
    "train": ("steps", "learned_tokens", "best", "peak_bytes", "max_seq_length"),
    "eval": ("prompts", "attempts", "missing", "measures", "against", "differences", "whole", "difference"),
    "promote": ("promoted", "value", "limit", "p", "alpha", "look", "units", "unit"),
}
"""Parts of each command's result that its record keeps; the rest is in the output itself."""


def select_figures(step: str, result: dict[str, Any] | None) -> dict[str, Any]:
    """Return the parts of a result that the record keeps."""
    return {name: result[name] for name in FIGURES_KEPT[step] if name in result} if result else {}


def summarize_results(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of a run from the results of its steps; a step that has none adds none.

    ``rows_read``, ``rows_drawn``; ``reward_logged`` and ``reward_drawn``: mean rewards of the log and of the data set;
    ``held_out_before``, ``held_out_after`` and ``unit``: the adapter in use and the new one on held-out data;
    ``promoted`` and ``why``.
    """
    found: dict[str, Any] = {}
    if "sample" in results:
        sampled = results["sample"]
        found["rows_read"], found["rows_drawn"] = sampled["accounting"]["rows_read"], sampled["draw"]["rows"]
        found["reward_logged"] = sampled["reward"]["before"]["mean"]
        found["reward_drawn"] = sampled["reward"]["after"]["mean"]
    if "eval" in results:
        found |= _held_out_figures(results["eval"])
    if "promote" in results:
        found |= _decision_figures(results["promote"])
    return found


def _held_out_figures(judged: dict[str, Any]) -> dict[str, Any]:
    if "measures" in judged:
        before, after = (judged[side].get("reward", {}).get("value") for side in ("against", "measures"))
        return {"held_out_before": before, "held_out_after": after, "unit": "reward"}
    whole = judged["whole"]
    return {"held_out_before": whole["against"], "held_out_after": whole["loss"], "unit": "nats a token"}


def _decision_figures(decided: dict[str, Any]) -> dict[str, Any]:
    test = f"p {decided['p']:.3g} at look {decided['look']}, wanted at most {decided['alpha']:.3g}"
    better = "surely better" if decided["promoted"] else "not surely better"
    return {"promoted": decided["promoted"], "why": f"{better}: {test}"}
