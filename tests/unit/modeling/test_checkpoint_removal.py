"""What is removed with a checkpoint, and what stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from karl_fast.modeling.checkpoint import FILES, FOLDER, Checkpoints

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("how", ["clear", "forget"])
def test_user_file_in_a_checkpoint_stays(tmp_path: Path, how: str) -> None:
    for step in ("0000001", "0000002"):
        (tmp_path / FOLDER / step).mkdir(parents=True)
        for name in FILES:
            (tmp_path / FOLDER / step / name).touch()
    (tmp_path / FOLDER / "0000001" / "notes.txt").write_text("mine", "utf-8")
    checkpoints = Checkpoints(tmp_path, {}, 1)
    if how == "clear":
        checkpoints.clear()
    else:
        checkpoints._forget(None)
    left = {str(path.relative_to(tmp_path / FOLDER)) for path in (tmp_path / FOLDER).rglob("*") if path.is_file()}
    kept = {f"0000002/{name}" for name in FILES} if how == "forget" else set()
    assert left == {"0000001/notes.txt"} | kept
    assert (tmp_path / FOLDER / "0000002").exists() == (how == "forget")
