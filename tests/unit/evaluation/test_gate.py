"""The gate by rewards, which needs no model: decisions, looks, leaks, the link, and KARL's gate as what must fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from karl_fast import _seen_hashes
from karl_fast._signals import Stopped
from karl_fast.errors import CheckpointError, KarlError, OutputForeignError, OutputTakenError, OverlapError, UsageError
from karl_fast.evaluation import gate, promote, rollback
from karl_fast.evaluation.promotions import PromotionRecords
from tests.unit.evaluation.builders import adapter, logs, row

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WORSE, BETTER = [0.0, 0.25, 0.5, 0.25] * 6, [0.5, 0.75, 0.75, 1.0] * 6


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name in ("first", "second", "third"):
        adapter(tmp_path / name, [f"learned {number}" for number in range(9)])
    return tmp_path


def by_rewards(runs: Path, new: str = "second", over: str = "first", data: str = "data", **more: Any) -> gate.Decision:
    return promote(runs / new, over=over if over == "base" else runs / over, data=runs / data, by="rewards", **more)


def leads_to(runs: Path) -> str | None:
    return os.path.basename(os.readlink(runs / "current")) if (runs / "current").is_symlink() else None  # noqa: PTH115, PTH119


def test_a_better_adapter_is_promoted_with_its_evidence(runs: Path) -> None:
    logs(runs / "data", BETTER, WORSE)
    found = by_rewards(runs)
    assert found.promoted
    assert found.value == pytest.approx(np.mean(BETTER) - np.mean(WORSE))
    assert found.limit is not None
    assert 0 < found.limit < found.value
    assert (found.p, found.look, found.alpha) == (2.0**-24, 1, pytest.approx(0.025))
    assert leads_to(runs) == "second"
    record = json.loads((found.record / "record.json").read_text())
    assert record["state"] == "promoted"
    assert record["new"]["path"] == str(runs / "second")
    assert record["previous"] == str(runs / "first")


def test_an_equal_one_is_refused(runs: Path) -> None:
    logs(runs / "data", WORSE, WORSE[::-1])
    assert not by_rewards(runs).promoted
    assert leads_to(runs) is None


def test_a_gain_below_the_margin_is_refused(runs: Path) -> None:
    logs(runs / "data", BETTER, WORSE)
    assert not by_rewards(runs, margin=0.5).promoted
    assert by_rewards(runs, margin=0.3).promoted


def test_adapter_trained_on_held_out_prompts_is_refused(runs: Path) -> None:
    logs(runs / "data", BETTER, WORSE)
    adapter(runs / "leaks", ["learned 0", "held out 3", "  held   out 5\n"], ["held out 7"])
    with pytest.raises(OverlapError, match=r"2 of 24 prompts \(8%\) and 1 of 24 groups \(4%\)"):
        by_rewards(runs, "leaks")
    assert leads_to(runs) is None
    assert not (runs / "promotions").exists(), "a refusal for a leak is no look"


def test_an_adapter_with_unknown_training_data_is_refused(runs: Path) -> None:
    logs(runs / "data", BETTER, WORSE)
    (runs / "second" / _seen_hashes.FILE).unlink()
    with pytest.raises(OverlapError, match="what it learned from is not known"):
        by_rewards(runs)


def of_mlx_lm(runs: Path, name: str, learned: list[str], chosen: list[str] = (), **config: Any) -> Path:  # type: ignore[assignment]
    """An adapter of mlx_lm, and the data set that it was trained on."""
    data, folder = runs / f"{name}-data", adapter(runs / name)
    (folder / _seen_hashes.FILE).unlink()
    data.mkdir()
    for split, prompts in (("train", learned), ("valid", chosen), ("test", ["held out 9"])):
        (data / f"{split}.jsonl").write_text("".join(json.dumps(row(one, None)) + "\n" for one in prompts))
        os.utime(data / f"{split}.jsonl", (1, 1))
    (folder / "adapter_config.json").write_text(json.dumps({"data": str(data)} | config))
    return folder


def test_mlx_lm_adapter_counts_its_data_set(runs: Path) -> None:
    logs(runs / "data", BETTER, WORSE)
    of_mlx_lm(runs, "leaks", ["learned 0", "held out 3"], ["held out 5"])
    with pytest.raises(OverlapError, match=r"2 of 24 prompts \(8%\) and 2 of 24 groups \(8%\)"):
        by_rewards(runs, "leaks")
    of_mlx_lm(runs, "clean", ["learned 0"], ["learned 1"])
    assert by_rewards(runs, "clean").promoted


def test_mlx_lm_adapter_counts_its_predecessors_data(runs: Path) -> None:
    logs(runs / "data", BETTER, WORSE)
    start = of_mlx_lm(runs, "start", ["held out 3"])
    of_mlx_lm(runs, "next", ["learned 0"], resume_adapter_file=str(start / "adapters.safetensors"))
    with pytest.raises(OverlapError, match="1 of 24 prompts"):
        by_rewards(runs, "next")


def test_missing_mlx_lm_data_are_unknown(runs: Path) -> None:
    logs(runs / "data", BETTER, WORSE)
    of_mlx_lm(runs, "gone", [], data=str(runs / "nowhere"))
    of_mlx_lm(runs, "replaced", ["learned 0"])
    os.utime(runs / "replaced-data" / "valid.jsonl", (2**33, 2**33))
    of_mlx_lm(runs, "again", ["learned 0"], resume_adapter_file=str(runs / "again" / "adapters.safetensors"))
    for name, why in (("gone", "nowhere"), ("replaced", "older than its data"), ("again", "later run replaced")):
        with pytest.raises(OverlapError, match=f"{why}.*what it learned from is not known"):
            by_rewards(runs, name)


def test_each_look_has_less_alpha_to_spend(runs: Path) -> None:
    logs(runs / "data", WORSE, WORSE)
    found = [by_rewards(runs) for _ in range(4)]
    assert [one.look for one in found] == [1, 2, 3, 4]
    assert [one.alpha for one in found] == pytest.approx([0.05 / 2, 0.05 / 6, 0.05 / 12, 0.05 / 20])
    logs(runs / "other", WORSE, WORSE, prefix="fresh")
    assert by_rewards(runs, data="other").look == 1


def test_all_looks_together_spend_alpha_and_no_more() -> None:
    spent = np.cumsum([gate.alpha_at(look, 0.05) for look in range(1, 100_000)])
    assert spent[-1] < 0.05
    assert spent[-1] == pytest.approx(0.05, rel=1e-4)


def test_one_more_prompt_keeps_the_look_number(runs: Path) -> None:
    logs(runs / "data", WORSE, WORSE)
    by_rewards(runs)
    logs(runs / "data", [*WORSE, 0.5], [*WORSE, 0.5])
    assert by_rewards(runs).look == 2


def test_too_few_prompts_are_refused_before_a_look(runs: Path) -> None:
    logs(runs / "data", [1.0] * 5, [0.0] * 5)
    with pytest.raises(UsageError, match=r"has 5 prompts, and look 1 promotes at p <= 0.025: wanted 6 or more"):
        by_rewards(runs)
    assert not list((runs / "promotions").glob("0*"))
    logs(runs / "data", [1.0] * 6, [0.0] * 6)
    assert by_rewards(runs).promoted


def test_rollback_goes_back_one_promotion_at_a_time(runs: Path) -> None:
    logs(runs / "data", BETTER, WORSE)
    by_rewards(runs)
    logs(runs / "more", BETTER, WORSE, prefix="more")
    by_rewards(runs, "third", "current", data="more")
    assert leads_to(runs) == "third"
    assert rollback(runs / "current")["state"] == "rolled-back"
    assert leads_to(runs) == "second"
    rollback(runs / "current")
    assert leads_to(runs) == "first"
    with pytest.raises(CheckpointError, match="no promotion to roll back"):
        rollback(runs / "current")


def test_rollback_over_the_base_removes_the_link(runs: Path) -> None:
    logs(runs / "data", BETTER, WORSE)
    by_rewards(runs, over="base")
    assert leads_to(runs) == "second"
    rollback(runs / "current")
    assert not os.path.lexists(runs / "current")


def test_over_must_be_the_adapter_in_use(runs: Path) -> None:
    (runs / "current").symlink_to("third")
    logs(runs / "data", BETTER, WORSE)
    with pytest.raises(UsageError, match="leads to"):
        by_rewards(runs)
    assert leads_to(runs) == "third"


def test_a_folder_named_like_the_link_stays(runs: Path) -> None:
    (runs / "current").mkdir()
    logs(runs / "data", BETTER, WORSE)
    with pytest.raises(OutputForeignError, match="is not a symbolic link"):
        by_rewards(runs)
    assert (runs / "current").is_dir()


def test_of_two_concurrent_promotions_the_later_is_refused(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs(runs / "data", BETTER, WORSE)
    logs(runs / "more", BETTER, WORSE, prefix="more")
    looked = gate._gather_evidence
    monkeypatch.setattr(gate, "_gather_evidence", lambda *given: [_between(), looked(*given)][1])

    def _between() -> None:
        monkeypatch.setattr(gate, "_gather_evidence", looked)
        assert by_rewards(runs, "third", data="more").promoted

    with pytest.raises(OutputTakenError, match="since this promotion began"):
        by_rewards(runs)
    assert leads_to(runs) == "third"
    assert [record["state"] for _, record in PromotionRecords(runs / "current").looks()] == ["superseded", "promoted"]


def test_processes_at_once_have_looks_of_their_own(runs: Path) -> None:
    logs(runs / "data", WORSE, WORSE)
    code = (
        "import sys; from karl_fast.evaluation import promote\n"
        "print(promote(sys.argv[1], over='base', data=sys.argv[2], by='rewards').look)"
    )
    command = [sys.executable, "-c", code, str(runs / "second"), str(runs / "data")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert sorted(int(process.communicate(timeout=120)[0]) for process in processes) == [1, 2, 3, 4]


KILLED = """
import os, signal, sys
from karl_fast.evaluation import promote, promotions, rollback
from karl_fast.evaluation.promotions import PromotionRecords
runs, place, how = sys.argv[1:]
calls = 0
def dies(function):
    def call(*given, **named):
        global calls
        if calls == int(place):
            os.kill(os.getpid(), signal.SIGKILL)
        calls += 1
        return function(*given, **named)
    return call
promotions._write_record = dies(promotions._write_record)
PromotionRecords.move = dies(PromotionRecords.move)
if how == "promote":
    promote(f"{runs}/second", over=f"{runs}/first", data=f"{runs}/data", by="rewards")
else:
    rollback(f"{runs}/current")
"""


@pytest.mark.parametrize("place", range(4))
def test_a_killed_promotion_is_finished_or_undone(runs: Path, place: int) -> None:
    (runs / "current").symlink_to("first")
    logs(runs / "data", BETTER, WORSE)
    done = subprocess.run([sys.executable, "-c", KILLED, str(runs), str(place), "promote"], check=False)
    assert done.returncode == -signal.SIGKILL
    assert leads_to(runs) in ("first", "second")
    records = PromotionRecords(runs / "current")
    with records.locked():
        pass
    states = [record["state"] for _, record in records.looks()]
    # Killed before the look was reserved, before its decision, before the link moved, after it moved.
    assert (states, leads_to(runs)) == [
        ([], "first"),
        (["begun"], "first"),
        (["promoted"], "second"),
        (["promoted"], "second"),
    ][place]


def test_a_look_killed_unread_is_not_spent(runs: Path) -> None:
    logs(runs / "data", WORSE, WORSE)
    (runs / "current").symlink_to("first")
    done = subprocess.run([sys.executable, "-c", KILLED, str(runs), "1", "promote"], check=False)
    assert done.returncode == -signal.SIGKILL
    assert by_rewards(runs).look == 1
    killed, _ = PromotionRecords(runs / "current").looks()[0]
    (killed / "rollouts.jsonl").write_text("{}\n")
    assert by_rewards(runs).look == 3, "attempts can be read"


@pytest.mark.parametrize("place", range(3))
def test_killed_rollback_is_finished_by_the_next(runs: Path, place: int) -> None:
    logs(runs / "data", BETTER, WORSE)
    by_rewards(runs)
    done = subprocess.run([sys.executable, "-c", KILLED, str(runs), str(place), "rollback"], check=False)
    assert done.returncode == -signal.SIGKILL
    records = PromotionRecords(runs / "current")
    with records.locked():
        pass
    state = records.looks()[0][1]["state"]
    assert (state, leads_to(runs)) == [("promoted", "second"), ("rolled-back", "first"), ("rolled-back", "first")][
        place
    ]


def karl_promotes(records: list[dict[str, Any]]) -> bool:
    """A naive replica of KARL's first gate: its lift is the reward where the router disagrees, less where it agrees."""
    agree = [one["reward"] for one in records if one["agree"]]
    disagree = [one["reward"] for one in records if not one["agree"]]
    lift = np.mean(disagree) - np.mean(agree)
    return len(records) >= 100 and len(agree) / len(records) >= 0.8 and bool(lift >= 0.05)


@pytest.mark.parametrize("new_is_better", [False, True])
def test_karls_inverted_lift_decides_wrongly(runs: Path, new_is_better: bool) -> None:
    """Where the two choose alike both get 0.5; where they differ one gets 0.9 and the other 0.1. The old one acted."""
    high, low = [0.5] * 100 + [0.9] * 20, [0.5] * 100 + [0.1] * 20
    new, old = (high, low) if new_is_better else (low, high)
    records = [{"agree": number < 100, "reward": reward} for number, reward in enumerate(old)]
    assert karl_promotes(records) != new_is_better
    logs(runs / "data", new, old)
    assert by_rewards(runs).promoted == new_is_better


def karl_split(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """KARL's export: rows are repeated by advantage, shuffled, and cut 90 to 10 after that."""
    repeated = [one for one in rows for _ in range(1 + round(2 * one["reward"]))]
    order = np.random.default_rng(42).permutation(len(repeated))
    shuffled = [repeated[at] for at in order]
    cut = len(shuffled) * 9 // 10
    return shuffled[:cut], shuffled[cut:]


def test_karls_split_leaks_and_the_gate_refuses_it(runs: Path) -> None:
    rows = [row(f"task {number}", (number % 5) / 4, f"session-{number}") for number in range(60)]
    train, valid = karl_split(rows)
    (runs / "set").mkdir()
    (runs / "set" / "valid.jsonl").write_text("".join(json.dumps(one) + "\n" for one in valid))
    trained = adapter(runs / "karl")
    _seen_hashes.write_seen(trained, _seen_hashes.hash_rows(train))
    leaked = {one["group"] for one in train} & {one["group"] for one in valid}
    held = {one["group"] for one in valid}
    assert leaked
    how: dict[str, Any] = {"over": "base", "data": runs / "set", "by": "likelihood", "model": "none", "split": "valid"}
    with pytest.raises(
        OverlapError, match=rf"{len(leaked)} of {len(held)} prompts .* {len(leaked)} of {len(held)} groups"
    ):
        promote(trained, **how)
    _seen_hashes.write_seen(trained, _seen_hashes.hash_rows(one for one in rows if one["group"] not in held))
    with pytest.raises(KarlError, match="model") as refused:  # past the check of overlap
        promote(trained, **how)
    assert not isinstance(refused.value, OverlapError)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"margin": -1.0}, "margin is -1.0, wanted a number from 0 on"),
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"by": "rollouts"}, "no config"),
        ({"by": "likelihood"}, "no model"),
        ({"data": ""}, "data"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(runs: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        promote(runs / "second", **({"over": "base", "data": "data", "by": "rewards"} | more))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1: the row is not JSON"),
        ("[]", "line 1: wanted an object"),
        ('{"group": "a", "reward": 1}', "line 1"),
    ],
)
def test_a_damaged_log_is_refused_by_line(runs: Path, text: str, said: str) -> None:
    logs(runs / "data", BETTER, WORSE)
    (runs / "data" / "against.jsonl").write_text(text)
    with pytest.raises(KarlError, match=said):
        by_rewards(runs)


@pytest.mark.parametrize("error", [UsageError("nothing there"), KeyboardInterrupt(), Stopped(2, str)])
def test_a_look_that_saw_nothing_is_not_spent(
    runs: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    logs(runs / "data", WORSE, WORSE)

    def fails(*given: object) -> None:
        raise error

    looked: Callable[..., Any] = gate._gather_evidence
    monkeypatch.setattr(gate, "_gather_evidence", fails)
    with pytest.raises(type(error)):
        by_rewards(runs)
    monkeypatch.setattr(gate, "_gather_evidence", looked)
    assert by_rewards(runs).look == 1
