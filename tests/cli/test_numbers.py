"""Numbers in messages: no hundred digits of a large one, and no 0.0 GB of a small size."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from karl_fast._safe_text import decimal, in_gigabytes
from tests.cli.run import COMMAND

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.25, "0.2500"),
        (-1.5, "-1.5000"),
        (999_999.0, "999999.0000"),
        (1e6, "1e+06"),
        (-1e100, "-1e+100"),
        (123_456_789.0, "1.23457e+08"),
        (float("inf"), "inf"),
    ],
)
def test_a_large_number_has_a_power_of_ten(value: float, said: str) -> None:
    assert decimal(value) == said


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 bytes"),
        (100_000, "100.0 kB"),
        (61_400_000, "61.4 MB"),
        (99_999_999, "100.0 MB"),
        (100_000_000, "0.10 GB"),
        (8_609_213_644, "8.61 GB"),
        (49_000_000_000, "49.0 GB"),
    ],
)
def test_memory_sizes_have_meaningful_digits(size: int, said: str) -> None:
    assert in_gigabytes(size) == said


@pytest.mark.parametrize("command", ["sample", "inspect"])
def test_reward_means_are_readable_at_any_size(tmp_path: Path, command: str) -> None:
    talk = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    lines = [json.dumps({"id": str(n), "reward": 1e100 / (n + 1), "messages": talk}) for n in range(6)]
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n")
    words = [
        *COMMAND,
        command,
        str(tmp_path / "log.jsonl"),
        *(["-o", str(tmp_path / "data"), "-k", "4"] * (command == "sample")),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "mean 4.08333e+99" in done.stdout + done.stderr
    assert "0" * 20 not in done.stdout + done.stderr
