"""Surprisal of logged rows: the numbers of a naive twin, an account of every row, resuming, and what sample does."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("mlx_lm", reason="pip install '.[train]'")

import mlx.core as mx

import karl_fast
from karl_fast.errors import CheckpointError, OutputExistsError
from karl_fast.modeling.load import load
from karl_fast.train import SurprisalSettings, Training, learnability, surprisal

if TYPE_CHECKING:
    from pathlib import Path

CLOSE = {"rel": 1e-4, "abs": 1e-5}
"""float32 logits of a few units, whose last bit is 2e-7 of them, through a model of two layers."""


def rows() -> list[dict[str, Any]]:
    """A log of four conversations, one without an answer."""
    log: list[dict[str, Any]] = []
    for number, answer in enumerate(["a b c", "c", "b b a c a b"]):
        messages = [{"role": "user", "content": "a a"}, {"role": "assistant", "content": answer}]
        log.append({"id": f"row {number}", "group": "g", "reward": number / 2, "messages": messages, "price": 1e2})
    return [*log, {"id": "mute", "reward": 1.0, "messages": [{"role": "user", "content": "a"}]}]


def write(path: Path, log: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in log) + '{"damaged": \n')
    return path


def read(path: Path) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in map(json.loads, path.read_text().splitlines())}


def naive(model: Path, row: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Gap and log-probability of each learned token, from all logits of the row at once."""
    loaded = load(str(model))
    text = learnability.Renderer(loaded.tokenizer, loaded.ends, "assistant", "unroll", "auto").rendering(row).texts[0]
    logits = np.array(loaded.model(mx.array(np.array(text.tokens)[None]))[0].astype(mx.float32), dtype=np.float64)
    logp = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    places = [at for at in range(1, len(text.tokens)) if text.learned[at]]
    chosen = [float(logp[at - 1, text.tokens[at]]) for at in places]
    return [float(logp[at - 1].max()) - own for at, own in zip(places, chosen, strict=True)], chosen


@pytest.mark.parametrize("segment", ["auto", 8])
def test_every_row_is_accounted_for_and_has_the_numbers_of_its_tokens(
    tiny_model: Path, tmp_path: Path, segment: Any
) -> None:
    log = write(tmp_path / "log.jsonl", rows())
    settings = SurprisalSettings(training=Training(batch_size=2, segment_length=segment))
    result = surprisal(log, tiny_model, tmp_path / "out.jsonl", settings)
    assert (result.rows, result.written, result.measured) == (5, 4, 3)
    assert sum(result.dropped.values()) == 1
    assert sum(result.unmeasured.values()) == 1
    written = read(tmp_path / "out.jsonl")
    assert list(written["mute"]["surprisal"]) == ["unmeasured"]
    for number, row in enumerate(rows()[:3]):
        gaps, logp = naive(tiny_model, row)
        measure = written[row["id"]]["surprisal"]
        spike = np.log(np.mean(np.exp(5 * np.array(gaps)))) / 5
        assert measure["tokens"] == len(gaps)
        assert measure["gap"] == pytest.approx(np.mean(gaps), **CLOSE)
        assert measure["spike"] == pytest.approx(spike, **CLOSE)
        assert measure["nats"] == pytest.approx(-np.mean(logp), **CLOSE)
        assert measure["learnability"] == pytest.approx(np.exp(-spike / 2), **CLOSE)
        assert measure["reward"] == number / 2 * measure["learnability"]
        assert {name: written[row["id"]][name] for name in row} == row


def test_a_measurement_that_was_killed_goes_on_and_gives_the_same_bytes(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learnability, "CHUNK", 1)
    log, whole, cut = write(tmp_path / "log.jsonl", rows()), tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    expected = surprisal(log, tiny_model, whole)

    def stop(done: int, _: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        surprisal(log, tiny_model, cut, on_rows=stop)
    assert not cut.exists()
    with (tmp_path / "cut.jsonl.unfinished").open("a") as file:
        file.write('{"rows": 1, "li')  # a line that a kill cut off
    with pytest.raises(OutputExistsError, match="not finished"):
        surprisal(log, tiny_model, cut)
    with pytest.raises(CheckpointError, match="other beta"):
        surprisal(log, tiny_model, cut, SurprisalSettings(beta=1.0), resume=True)
    seen: list[int] = []
    result = surprisal(log, tiny_model, cut, resume=True, on_rows=lambda done, _: seen.append(done))
    assert seen == [2, 3, 4]
    assert cut.read_bytes() == whole.read_bytes()
    assert not (tmp_path / "cut.jsonl.unfinished").exists()
    assert (result.measured, result.gap, result.spike) == (expected.measured, expected.gap, expected.spike)
    with pytest.raises(OutputExistsError, match="exists"):
        surprisal(log, tiny_model, cut)


def test_sample_filters_and_weighs_by_the_columns(tiny_model: Path, tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", rows())
    surprisal(log, tiny_model, tmp_path / "out.jsonl")
    measures = {name: row["surprisal"] for name, row in read(tmp_path / "out.jsonl").items()}
    known = {name: measure["reward"] for name, measure in measures.items() if "reward" in measure}
    weighed = karl_fast.read(tmp_path / "out.jsonl", karl_fast.Settings(reward={"surprisal.reward": 1.0}))
    assert sorted(weighed.rewards[~np.isnan(weighed.rewards)]) == pytest.approx(sorted(known.values()))
    limit = sorted(measure["learnability"] for measure in measures.values() if "learnability" in measure)[1]
    drawn = karl_fast.sample(
        tmp_path / "out.jsonl",
        None,
        reward={"surprisal.learnability": 1.0},
        min_reward=limit,
        sampler="all",
        inverse_temperature=0.0,
    )
    assert drawn.manifest["accounting"]["rows_kept"] == 2


def test_a_second_measurement_replaces_the_first(tiny_model: Path, tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", rows()[:1])
    surprisal(log, tiny_model, tmp_path / "first.jsonl")
    surprisal(tmp_path / "first.jsonl", tiny_model, tmp_path / "second.jsonl", SurprisalSettings(penalty=2.0))
    first, second = (read(tmp_path / name)["row 0"] for name in ("first.jsonl", "second.jsonl"))
    assert second["surprisal"]["spike"] == first["surprisal"]["spike"]
    assert second["surprisal"]["learnability"] == pytest.approx(first["surprisal"]["learnability"] ** 4)


@pytest.mark.parametrize("left", [b"", b'{"identity": {"ro'])
def test_a_measurement_that_was_killed_before_its_first_line_begins_anew(
    tiny_model: Path, tmp_path: Path, left: bytes
) -> None:
    log, whole, cut = write(tmp_path / "log.jsonl", rows()), tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    surprisal(log, tiny_model, whole)
    (tmp_path / "cut.jsonl.unfinished").write_bytes(left)
    result = surprisal(log, tiny_model, cut, resume=True)
    assert result.rows == result.written + sum(result.dropped.values())
    assert cut.read_bytes() == whole.read_bytes()


def test_another_model_of_the_same_name_does_not_go_on(tiny_model: Path, tmp_path: Path) -> None:
    log, out, other = write(tmp_path / "log.jsonl", rows()), tmp_path / "out.jsonl", tmp_path / "model"
    shutil.copytree(tiny_model, other)

    def stop(done: int, _: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        surprisal(log, other, out, on_rows=stop)
    weights = mx.load(str(other / "model.safetensors"))
    mx.save_safetensors(str(other / "model.safetensors"), {name: value * 2 for name, value in weights.items()})
    with pytest.raises(CheckpointError, match="other model"):
        surprisal(log, other, out, resume=True)


def test_long_numbers_keep_their_digits(tiny_model: Path, tmp_path: Path) -> None:
    log = rows()[:3]
    log[0]["number"], log[2]["surprisal"] = "LONG", {"gap": 1}
    text = write(tmp_path / "log.jsonl", log).read_text()
    (tmp_path / "log.jsonl").write_text(text.replace('"LONG"', "9" * 300))
    result = surprisal(tmp_path / "log.jsonl", tiny_model, tmp_path / "out.jsonl")
    assert result.rows == 4
    assert result.written == result.measured == 3, result.dropped
    assert "9" * 300 in (tmp_path / "out.jsonl").read_text()


def test_two_measurements_do_not_write_one_file(tiny_model: Path, tmp_path: Path) -> None:
    log, out = write(tmp_path / "log.jsonl", rows()), tmp_path / "out.jsonl"

    def begin_another(done: int, _: int) -> None:
        with pytest.raises(OutputExistsError, match="another run"):
            surprisal(log, tiny_model, out, resume=True)

    surprisal(log, tiny_model, out, on_rows=begin_another)
    assert len(read(out)) == 4
