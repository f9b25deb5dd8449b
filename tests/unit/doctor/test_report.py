"""The page: each section, its width, and what of failures is on it."""

from __future__ import annotations

import json
from typing import Any

from karl_fast.doctor.report import describe_report

MACHINE = {
    "karl_fast": "0.1.0",
    "build": {"target": "aarch64-apple-darwin", "profile": "dist", "rustc": "1.95.0", "simd": "neon"},
    "python": "3.12.4",
    "packages": {"numpy": "2.4.6", "mlx": "0.32.4", "mlx-metal": "0.32.4", "mlx-lm": "0.32.2", "transformers": "5.0.0"},
    "system": "macOS 15.5",
    "architecture": "arm64",
    "translated": False,
    "chip": "Apple M3 Max",
    "cores": 16,
    "performance_cores": 12,
    "efficiency_cores": 4,
    "memory_bytes": 64 << 30,
    "free_disk_bytes": 1 << 40,
}
DEVICE = {
    "device": "gpu",
    "metal": True,
    "device_name": "Apple M3 Max",
    "architecture": "applegpu_g15s",
    "memory_size": 64 << 30,
    "max_recommended_working_set_size": 51_539_607_552,
    "max_buffer_length": 38_654_705_664,
    "plan_limit_bytes": 51_539_607_552,
    "wired_limit_bytes": 0,
    "environment": "MLX_METAL_FAST_SYNCH=1",
    "system_wired_limit_mb": 0,
}
LOG = {
    "bytes": 200_001_283,
    "rows": 93_168,
    "write": {"seconds": 0.5},
    **{name: {"seconds": 0.21, "mb_per_second": 950.0} for name in ("inspect", "sample", "convert")},
    "peak_rss_bytes": 131_833_856,
    "draw": "af526c12da1f5872df4e98f04b37d36a",
    "draw_expected": "af526c12da1f5872df4e98f04b37d36a",
}
MODEL = {
    "type": "qwen3",
    "parameters": 41_559_552,
    "bytes": 83_119_104,
    "dtype": "bfloat16",
    "bits": None,
    "layers": 8,
    "load": {"seconds": 0.07},
}
STEP = {"tokens": 512, "planned_bytes": 579_612_672, "peak_bytes": 547_710_644, "tokens_per_second": 9227.5}
STEPS = [STEP | {"loss": 10.8687}, {"tokens": 8192, "planned_bytes": 18_000_000_000, "skipped": "it would take 700 s"}]
THEIRS = [{"tokens": 512, "peak_bytes": 729_886_903, "tokens_per_second": 9000.0, "loss": 10.8688}]
ROLLOUTS = {"rollouts": 64, "tokens": 64, "seconds": 1.0, "tokens_per_second": 4096.0, "peak_bytes": 558_147_980}
EQUAL = {"equal_texts": 63, "texts": 64, "equal_tokens": 4050, "compared_tokens": 4096}
OPERATIONS = {
    "rms_norm": {"first_ms": 1.0, "ms": 0.25, "difference": 1e-7},
    "attention": {"first_ms": 4.5, "ms": 4.1, "difference": 6e-4},
    "mx.compile": {"first_ms": 4.5, "ms": 4.1, "difference": 3e-4},
}
RESULTS: dict[str, dict[str, Any]] = {
    "machine": MACHINE,
    "mlx": DEVICE,
    "log": LOG,
    "model": MODEL,
    "kernels": {"operations": OPERATIONS},
    "training": {"steps": STEPS},
    "training by mlx_lm": {"steps": THEIRS},
    "rollouts": ROLLOUTS,
    "rollouts by mlx_lm": ROLLOUTS | EQUAL,
}


def check_of(name: str, result: dict[str, Any], status: str = "ok", **more: Any) -> dict[str, Any]:
    return {"name": name, "status": status, "seconds": 1.5, "result": result, "reason": None, "traceback": None} | more


def report_of(checks: list[dict[str, Any]], model: str | None = None) -> dict[str, Any]:
    failed = [check["name"] for check in checks if check["status"] == "failed"]
    facts = {"schema": 1, "karl_fast": "0.1.0", "date": "2026-11-28", "quick": False, "seconds": 83.0}
    return facts | {"model": model, "failed": failed, "checks": checks}


def whole() -> dict[str, Any]:
    return report_of([check_of(name, result) for name, result in RESULTS.items()])


def test_a_whole_report_is_one_page_of_eighty_columns() -> None:
    page = describe_report(whole())
    lines = page.splitlines()
    assert len(lines) < 66
    assert max(map(len, lines)) <= 80
    for words in (
        "# karl-fast doctor\n",
        "karl-fast 0.1.0 on Apple M3 Max, macOS 15.5, 2026-11-28: 9 checks in 83 s, 9 ok.",
        "chip               Apple M3 Max arm64, 16 cores (12 performance, 4 efficiency)\n",
        "wired limit        0 bytes by MLX, default by the system\n",
        "environment        MLX_METAL_FAST_SYNCH=1\n",
        "## Log: 200.0 MB, 93,168 rows\n",
        "as everywhere.",
        "**Model:** random, made here: qwen3, 41.6 million parameters",
        "**Kernels** on the GPU beside the CPU: 3 of 3 ran; relative differences above\n0.0001: attention 0.0006,",
        "| 512    | 0.58 GB | 0.55 GB |",
        "|     94% |    9,228 |",
        "8,192 tokens by karl-fast: it would take 700 s",
        "Loss before the first\nstep: 10.8687, by mlx_lm 10.8688.",
        "## 64 rollouts\n",
        "the same text in 63 of 64",
    ):
        assert words in page, (words, page)


def test_a_report_survives_json() -> None:
    assert describe_report(json.loads(json.dumps(whole()))) == describe_report(whole())


def test_a_named_model_and_another_draw_are_said() -> None:
    checks = [check_of("log", LOG | {"draw": "00" * 16}), check_of("model", MODEL | {"bits": 4})]
    page = describe_report(report_of(checks, "mlx-community/Qwen3-0.6B-4bit"))
    assert "Draw `000000000000`: NOT\naf526c12da1f5872df4e98f04b37d36a." in page
    assert "**Model:** `mlx-community/Qwen3-0.6B-4bit`: qwen3" in page
    assert "4 bits" in page


def test_the_tracebacks_of_operations_are_on_the_page() -> None:
    operations = OPERATIONS | {"rope": {"error": "RuntimeError: no kernel", "traceback": "of rope"}}
    failed = check_of("kernels", {"operations": operations}, "failed", reason="rope", traceback="of the check")
    page = describe_report(report_of([check_of("mlx", DEVICE), failed]))
    assert "3 of 4 ran" in page
    assert "```text\nof rope\n```\n\n```text\nof the check\n```\n" in page


def test_results_until_a_failure_stay_on_the_page() -> None:
    checks = [
        check_of("log", {"bytes": 2_000_000, "rows": 9, "write": {"seconds": 1}}, "failed", traceback="a\n```\nb"),
        check_of("training", {"steps": [STEP]}, "failed", reason="the process ended by signal 6", traceback="stack"),
        check_of("rollouts", {}, "skipped", reason="no time was left"),
    ]
    page = describe_report(report_of(checks))
    assert "3 checks in 83 s, 2 failed, 1 skipped." in page
    assert "| 512    |" in page
    assert "## training failed after 1.5 s\n\nthe process ended by signal 6\n\n```text\nstack\n```\n" in page
    assert "````text\na\n```\nb\n````" in page
    assert "**rollouts** skipped: no time was left." in page
