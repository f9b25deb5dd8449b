"""The card of a data set: its head for the hub, and what it says of the draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import karl_fast
from karl_fast import errors
from karl_fast.export.card import COLUMNS, add_license
from karl_fast.settings.schema import Shape
from tests import rows

if TYPE_CHECKING:
    from pathlib import Path

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"


def test_the_card_names_files_rows_and_draw(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    log = rows.write(tmp_path / "log.jsonl", rows.records(60))
    karl_fast.sample(log, tmp_path / "out", k=40, split=(0.8, 0.2, 0.0))
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    head = yaml.safe_load(card.split("---\n")[1])
    files = [{"split": "train", "path": "train.jsonl"}, {"split": "validation", "path": "valid.jsonl"}]
    assert head["configs"] == [{"config_name": "default", "data_files": files}]
    assert head["size_categories"] == ["n<1K"]
    assert "license" not in head
    assert "Records read: 60; kept: 60." in card
    assert "Sampler `gumbel`" in card
    assert str(tmp_path) not in card
    assert "r1" not in card.split()


def test_the_card_counts_secrets_or_says_that_nobody_looked(tmp_path: Path) -> None:
    records = [rows.record(n, reward=n % 2, note=KEY) for n in range(8)]
    records[0]["messages"][1]["content"] = f"the key is {KEY}"
    log = rows.write(tmp_path / "log.jsonl", records)
    karl_fast.sample(log, tmp_path / "out", k=8)
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert "github" in card
    assert KEY not in card
    karl_fast.sample(log, tmp_path / "open", k=8, allow_secrets=True)
    assert "was off" in (tmp_path / "open" / "README.md").read_text("utf-8")


def test_every_shape_has_columns_on_its_card() -> None:
    assert set(COLUMNS) == set(Shape.__args__)  # type: ignore[attr-defined]


def test_a_licence_stands_in_the_head() -> None:
    assert add_license("---\nconfigs:\n---\n# x\n", "mit") == "---\nlicense: mit\nconfigs:\n---\n# x\n"
    again = add_license("---\nconfigs:\nlicense: gpl-3.0\n---\n# x\n---\n", "mit")
    assert again == "---\nlicense: mit\nconfigs:\n---\n# x\n---\n"
    assert add_license("# x\n", "mit") == "---\nlicense: mit\n---\n\n# x\n"
    with pytest.raises(errors.UsageError, match="wanted an identifier"):
        add_license("---\n---\n", "MIT: yes\nx")


def test_an_edited_card_is_not_replaced(tmp_path: Path) -> None:
    log = rows.write(tmp_path / "log.jsonl", rows.records(20))
    karl_fast.sample(log, tmp_path / "out", k=10)
    karl_fast.sample(log, tmp_path / "out", k=12, force=True)
    (tmp_path / "out" / "README.md").write_text("mine")
    with pytest.raises(errors.OutputExistsError, match=r"README\.md in it is not as karl-fast wrote it"):
        karl_fast.sample(log, tmp_path / "out", k=12, force=True)
