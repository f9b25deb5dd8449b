"""`report`: the sentence and the numbers of each kind of page, what is refused, what no page may hold."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast as kf
from karl_fast.errors import DataSetError, NothingToSampleError, OutputExistsError, OutputForeignError, UsageError
from karl_fast.page.log_page import LengthEffect, count_half
from karl_fast.page.report import watch
from karl_fast.page.rows import choose_rows
from karl_fast.page.run_page import find_alarms, read_run
from tests import rows
from tests.cli.run import karl
from tests.unit.page.pages import check_policy, read_index, read_markup, read_rows, read_sentence

if TYPE_CHECKING:
    from collections.abc import Iterable

TOKEN = "ghp_" + "Kq3vTz8wXn2bYd7RmL5sPf9hJc4gVe6uAk1i"

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>\u202e\x1b[31m<!--"


def write_log(path: Path, records: Iterable[dict[str, Any]]) -> Path:
    rows.write(path, list(records))
    return path


def record(number: int, **more: Any) -> dict[str, Any]:
    """One of groups of four: the first two groups have equal rewards, longer answers have smaller ones."""
    group = number // 4
    reward = 1.0 if group < 2 else 1.0 - (number % 4) / 4
    answer = "word " * (4 + 30 * (number % 4)) + str(number)
    messages = [{"role": "user", "content": f"task {group}"}, {"role": "assistant", "content": answer}]
    return {"id": f"r{number}", "group": f"g{group}", "reward": reward, "messages": messages} | more


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "log.jsonl", map(record, range(40)))


def test_a_log_is_described_by_its_groups_and_lengths(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    page = kf.report(log, out)
    assert read_sentence(out) == page.sentence
    assert page.sentence.startswith("8 of 10 groups differ in reward; longer rows have lower rewards (rho \u2212")
    check_policy(out)
    index, contents = read_index(out), read_rows(out)
    assert index["total"] == len(contents) == 40
    by_id = dict(zip(index["columns"]["id"], contents, strict=True))
    for number in range(40):
        assert by_id[f"r{number}"]["messages"] == record(number)["messages"]
    assert index["columns"]["reward"] == [record(int(id[1:]))["reward"] for id in index["columns"]["id"]]
    markup = read_markup(out)
    chosen = kf.inspect(log).report["target"]
    assert f"chosen: {chosen['ess_rows']:,.0f} rows" in markup
    assert "40 read, 40 kept" in markup


def test_nothing_of_a_log_becomes_markup(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": HOSTILE}, {"role": "assistant", "content": HOSTILE, "tool_calls": None}]
    hostile = [
        record(number, id=HOSTILE + str(number), group=HOSTILE + str(number % 2), domain=HOSTILE + str(number % 3))
        | {"messages": messages, HOSTILE: HOSTILE}
        for number in range(12)
    ]
    out = tmp_path / "page.html"
    kf.report(write_log(tmp_path / "log.jsonl", hostile), out, domain="domain")
    check_policy(out)
    text = out.read_text()
    assert text.count("<script") == 3  # the index, the page's own, one block
    assert "<img" not in text
    assert "\u202e" not in read_markup(out)
    assert "\x1b" not in text
    assert read_rows(out)[0]["messages"][0]["content"] == HOSTILE


def test_odd_texts_and_numbers_are_shown_as_they_are(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    deep: Any = "end"
    for _ in range(60):
        deep = [deep]
    odd = record(0, huge=int("9" * 40), deep=deep, empty={}, long="x" * 5000)
    lone = (
        '{"id": "lone", "group": "g0", "reward": 0.5, "nan": NaN, "messages": [{"role": "user", "content": "\\u0000"}, '
    )
    log.write_text(json.dumps(odd) + "\n" + lone + '{"role": "assistant", "content": "y"}]}\n')
    kf.report(log, tmp_path / "page.html")
    contents = dict(
        zip(read_index(tmp_path / "page.html")["columns"]["id"], read_rows(tmp_path / "page.html"), strict=True)
    )
    assert contents["r0"]["facts"]["huge"] == "9" * 40
    assert contents["r0"]["facts"]["long"] == {"long": 5002}
    assert contents["lone"]["facts"]["nan"] == "NaN"
    assert contents["lone"]["messages"][0]["content"] == "\x00"


def test_no_secret_is_on_a_page(tmp_path: Path) -> None:
    secret = record(0, id=f"id {TOKEN}", group=f"of {TOKEN}", note={"token": TOKEN})
    secret["messages"][0]["content"] = f"my token is {TOKEN}"
    kf.report(write_log(tmp_path / "log.jsonl", [secret, record(1)]), tmp_path / "page.html")
    assert TOKEN not in (tmp_path / "page.html").read_text()
    assert TOKEN not in json.dumps(read_rows(tmp_path / "page.html"))
    assert "REDACTED" in json.dumps(read_rows(tmp_path / "page.html"))
    assert "Secrets were replaced in the rows of the page: github" in read_markup(tmp_path / "page.html")


def test_outcomes_are_described_by_their_evidence(tmp_path: Path) -> None:
    def session(number: int, tests: float | None, corrected: float | None) -> dict[str, Any]:
        evidence = [] if tests is None else [{"component": "tests", "value": tests, "message": 1, "why": "3 passed"}]
        outcome = {"tests": tests, "corrected": corrected}
        return record(number, reward=None, outcome=outcome, evidence=evidence)

    log = [session(0, 1.0, None), session(1, 1.0, 1.0), session(2, 0.0, 0.0), session(3, None, None)]
    page = kf.report(write_log(tmp_path / "log.jsonl", log), tmp_path / "page.html")
    assert page.sentence == (
        "4 sessions: 2 of 3 passed their tests at the end; 1 of 2 were corrected; unknown: what survived."
    )
    index = read_index(tmp_path / "page.html")
    places = {id: at for at, id in enumerate(index["columns"]["id"])}
    assert [index["parts"]["tests"][places[f"r{number}"]] for number in range(4)] == [1, 1, 0, None]
    assert "corrected" in index["lessIsBetter"]
    assert read_rows(tmp_path / "page.html")[places["r0"]]["facts"]["evidence"][0]["why"] == "3 passed"


def test_a_log_without_rewards_says_what_to_do(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", (record(number, reward=None) for number in range(3)))
    assert kf.report(log, tmp_path / "page.html").sentence.startswith("3 rows, and no reward is known: name one with")


def test_a_data_set_is_compared_with_its_source(log: Path, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "page.html"
    sample = kf.sample(log, data, k=12, split=(1.0, 0.0, 0.0))
    page = kf.report(data, out)
    reward = sample.manifest["reward"]
    before, after = reward["kept"]["mean"], reward["after"]["mean"]
    groups = sample.manifest["draw"]["distinct_groups"]
    assert page.sentence.startswith(
        f"12 of 40 rows from {groups} of 10 groups; mean reward {before:.3g} \u2192 {after:.3g}, distinct word pairs "
    )
    assert "unknown" not in page.sentence
    assert not page.warnings
    assert sorted(read_index(out)["columns"]["id"]) == sorted(
        json.loads(line)["karl_fast"]["id"] for line in (data / "train.jsonl").read_text().splitlines()
    )
    check_policy(out)


def test_a_source_that_has_changed_is_unknown(log: Path, tmp_path: Path) -> None:
    kf.sample(log, tmp_path / "data", k=12)
    os.utime(log, (1, 1))
    page = kf.report(tmp_path / "data", tmp_path / "page.html")
    assert "distinct word pairs unknown \u2192" in page.sentence
    assert "gone, have changed" in page.warnings[0]


def round_line(number: int, **more: Any) -> dict[str, Any]:
    line = {
        "round": number,
        "step": number + 1,
        "rollouts": 8,
        "learned": 8,
        "dropped": {},
        "missing": {},
        "skipped": 0,
    }
    return line | {"outcome": number / 20, "entropy": 2.0 - number / 10, "groups_mixed": 1.0, "seconds": 1.0} | more


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    lines = [round_line(number, groups_mixed=float(number < 5)) for number in range(20)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"round": 20, "out')
    held = [
        {
            "round": at,
            "step": at,
            "prompts": 8,
            "reward": at / 20,
            "reward.low": at / 20 - 0.1,
            "reward.high": at / 20 + 0.1,
        }
        for at in (0, 10, 20)
    ]
    (folder / "held_out.jsonl").write_text("".join(json.dumps(line) + "\n" for line in held))
    rollouts = [record(number, round=number // 2, components={"solved": 1.0}) for number in range(40)]
    rows.write(folder / "rollouts.jsonl", rollouts)
    return folder


def test_a_run_is_described_by_its_curves_and_alarms(run: Path, tmp_path: Path) -> None:
    page = kf.report(run, tmp_path / "page.html")
    assert page.sentence == (
        "Held-out 0 \u2192 1 (0.9 to 1.1) in 20 rounds; entropy 1.95 \u2192 0.15; 1 alarm, the first in round 15."
    )
    # Ten rounds in a row without a group that differs: rounds 6 to 15.
    assert [alarm.round for alarm in find_alarms(read_run(run))] == [15]
    markup = read_markup(tmp_path / "page.html")
    assert "in 10 rounds in a row no group had rewards that differ" in markup
    assert "best: 1" in markup
    assert read_index(tmp_path / "page.html")["total"] == 40
    assert 'http-equiv="refresh"' not in (tmp_path / "page.html").read_text()
    check_policy(tmp_path / "page.html")


def test_a_run_whose_first_rollout_is_being_written_has_no_rows(run: Path, tmp_path: Path) -> None:
    (run / "rollouts.jsonl").write_text('{"id": "0-0", "messages": [{"role": "us')
    assert kf.report(run, tmp_path / "page.html").rows is None


def test_thresholds_are_those_of_the_run(run: Path) -> None:
    state = run / "checkpoints" / "0000010" / "state.json"
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps({"settings": {"alarms": {"flat_rounds": 3, "entropy_floor": 0.0}}}))
    assert [alarm.round for alarm in find_alarms(read_run(run))] == [8]
    state.write_text(json.dumps({"settings": {"alarms": {"flat_rounds": 0}}}))
    assert find_alarms(read_run(run)) == []


def test_a_run_of_train_is_described_by_its_loss(tmp_path: Path) -> None:
    lines = [{"step": at + 1, "loss": 3.0 - at / 10, "skipped": at == 3, "seconds": 2.0} for at in range(20)]
    (tmp_path / "metrics.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in [*lines, {"step": 20, "val_loss": 1.5}])
    )
    page = kf.report(tmp_path, tmp_path / "page.html")
    assert page.sentence == "Loss 2.95 \u2192 1.15 in 20 steps; validation loss 1.5 \u2192 1.5; 1 step skipped."
    assert page.rows is None


def test_two_data_sets_are_compared(log: Path, tmp_path: Path) -> None:
    for name, k in (("a", 12), ("b", 20)):
        kf.sample(log, tmp_path / name, k=k, seed=k)
    page = kf.report([tmp_path / "a", tmp_path / "b"], tmp_path / "page.html")
    compared = kf.compare(tmp_path / "a", tmp_path / "b")
    both, means = compared["overlap"]["records"]["both"], [compared[side]["reward"]["mean"] for side in ("a", "b")]
    assert page.sentence.startswith(
        f"A has 12 rows, B 20; {both} records in both; mean reward {means[0]:.3g} and {means[1]:.3g}; "
    )
    assert "<td>k</td><td>12</td><td>20</td>" in read_markup(tmp_path / "page.html")
    check_policy(tmp_path / "page.html")


def test_an_ablation_is_described_by_its_verdicts(tmp_path: Path) -> None:
    record = Path(__file__).parents[3] / "benches/record/lab-groups.json"
    shutil.copy(record, tmp_path / "record.json")
    page = kf.report(tmp_path, tmp_path / "page.html")
    assert page.sentence.endswith("(GRPO)? 3 predictions: 2 supported, 1 refuted, on 5 seeds.")
    markup = read_markup(tmp_path / "page.html")
    for prediction in json.loads(record.read_text())["predictions"]:
        assert prediction["claim"] in markup
    (tmp_path / "record.json").write_text('{"arms": {}, "intervals": {}, "baseline": "a"}')
    with pytest.raises(DataSetError, match=r"record\.json has no measures"):
        kf.report(tmp_path, tmp_path / "other.html")


def test_a_notebook_shows_tables_and_plots(log: Path) -> None:
    read = kf.read(log)
    for shown, words in (
        (read, "mean reward"),
        (kf.inspect(read), "chosen: "),
        (kf.sample(read, None, k=12), "Rewards before and after the draw"),
    ):
        content = shown._repr_html_()
        assert words in content
        assert "<svg" in content
        assert "<table>" in content
        assert "<script" not in content
    (log.parent / "none.jsonl").write_text(json.dumps(record(0, reward=None)) + "\n")
    assert "<svg" not in kf.read(log.parent / "none.jsonl")._repr_html_()


def test_damaged_metrics_are_named_with_their_line(run: Path, tmp_path: Path) -> None:
    metrics = run / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('{"round": 1,', "[1,", 1))
    with pytest.raises(DataSetError, match=r"metrics\.jsonl, line 2: it is not JSON"):
        kf.report(run, tmp_path / "page.html")


def test_watch_writes_again_until_the_run_ends(run: Path, tmp_path: Path) -> None:
    import fcntl

    out, pages = tmp_path / "page.html", []
    with (run / "rollouts.jsonl").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def on_page(page: Any) -> None:
            pages.append(out.read_text())
            with (run / "metrics.jsonl").open("a") as file:
                file.write('come": 1.0}\n' if len(pages) == 1 else "")
            if len(pages) == 2:
                fcntl.flock(lock, fcntl.LOCK_UN)

        last = watch(run, out, on_page=on_page)
    assert len(pages) == 3
    assert 'http-equiv="refresh"' in pages[0]
    assert 'http-equiv="refresh"' not in pages[2]
    assert not last.going_on
    with pytest.raises(UsageError, match="--watch takes the folder of a run"):
        watch(tmp_path, out)


def test_only_a_page_is_replaced(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    kf.report(log, out)
    with pytest.raises(OutputExistsError):
        kf.report(log, out)
    assert kf.report(log, out, force=True, rows=0).rows is None
    assert "task 1" not in out.read_text()
    out.write_text("mine")
    with pytest.raises(OutputForeignError):
        kf.report(log, out, force=True)
    assert out.read_text() == "mine"
    for place in (tmp_path, log):
        with pytest.raises(OutputExistsError):
            kf.report(log, place, force=True)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(NothingToSampleError):
        kf.report(tmp_path / "empty.jsonl", tmp_path / "new.html")
    assert not (tmp_path / "new.html").exists()


def test_the_command_writes_a_page_and_says_so(log: Path, tmp_path: Path) -> None:
    done = karl("report", log.name, "-o", "page.html", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("log       8 of 10 groups differ in reward")
    assert "written   page.html" in done.stderr
    assert done.stdout == ""
    again = karl("report", log.name, "-o", "page.html", folder=tmp_path)
    assert again.returncode == 5
    told = json.loads(karl("report", log.name, "-o", "page.html", "--force", "--json", folder=tmp_path).stdout)
    assert told["rows"] == {"total": 40, "shown": 40}
    assert karl("report", log.name, folder=tmp_path).returncode == 2
    assert karl("report", log.name, "-o", "b.html", "--watch", folder=tmp_path).returncode == 2


def test_rows_of_a_page_are_whole_groups() -> None:
    groups = np.array([3, 0, -1, 3, 1, 0, 3, 2], dtype=np.int64)
    assert choose_rows(groups, 8).tolist() == list(range(8))
    assert choose_rows(groups, 3).tolist() == [0, 3, 6]
    assert choose_rows(groups, 4).tolist() == [0, 1, 3, 6]
    assert choose_rows(groups, 6).tolist() == [0, 1, 2, 3, 5, 6]
    assert choose_rows(groups, 2).tolist() == [0, 3]
    assert choose_rows(np.full(9, -1), 2).tolist() == [0, 1]
    assert choose_rows(groups, 0).tolist() == []


def test_half_of_the_rows_is_counted_from_the_largest_group() -> None:
    assert count_half([0] * 5 + [1] * 3 + [2] * 2 + [-1] * 50) == (1, 3)
    assert count_half([0, 1, 2, 3]) == (2, 4)
    assert count_half([]) == (0, 0)


def test_the_correlation_of_reward_and_length_is_that_of_ranks(log: Path, tmp_path: Path) -> None:
    scipy = pytest.importorskip("scipy.stats")
    page = kf.report(log, tmp_path / "page.html")
    assert page.rows is not None
    effect = LengthEffect.of(page.rows)
    assert effect is not None
    expected = scipy.spearmanr(page.rows.numbers("characters"), page.rows.numbers("reward")).statistic
    assert effect.rho == pytest.approx(expected, abs=1e-12)


def test_real_rollouts_make_a_page(tmp_path: Path) -> None:
    data = Path(os.environ.get("KARL_FAST_TEST_DATA", "nowhere")) / "data/tau-bench-gpt4o-airline"
    if not data.is_dir():
        pytest.skip("KARL_FAST_TEST_DATA has no tau-bench data")
    shutil.copy(data / "gpt-4o-airline.json", tmp_path / "log.json")
    page = kf.report(tmp_path / "log.json", tmp_path / "page.html")
    assert page.sentence.startswith("26 of 50 groups differ in reward")
    assert len(read_rows(tmp_path / "page.html")) == 200
    assert all(content["messages"] for content in read_rows(tmp_path / "page.html"))


def test_an_evaluation_is_described_by_its_differences(tmp_path: Path) -> None:
    folder = tmp_path / "evaluation"
    folder.mkdir()
    measured = {"value": 0.6, "low": 0.5, "high": 0.7, "prompts": 24}
    other = measured | {"value": 0.28, "low": 0.2, "high": 0.4}
    difference = {"value": 0.32, "low": 0.2, "high": 0.44, "p": 0.001, "prompts": 24, "method": "bootstrap"}
    result = {"prompts": 24, "too_long": 1, "attempts": 8, "missing": {"timeout": 3}, "truncated": 0}
    result |= {"measures": {"reward": measured}, "against": {"reward": other}, "differences": {"reward": difference}}
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "evaluation.json").write_text('{"seed": 3, "model": "<b>"}')
    rows.write(folder / "rollouts.jsonl", [record(number) for number in range(6)])
    page = kf.report(folder, tmp_path / "page.html")
    check_policy(tmp_path / "page.html")
    assert page.sentence == (
        "Better by 0.32 (at least 0.2); mean reward 0.6 (0.5 to 0.7) on 24 prompts, 8 attempts each."
    )
    assert page.rows is not None
    assert len(page.rows) == 6
    shown = page.to_dict()
    assert shown["plots"][0]["rows"] == [["reward", 0.28, 0.6, 0.5, 0.7]]
    assert {"name": "missing rewards", "value": 3, "before": None, "remark": ""} in shown["facts"]
    (folder / "result.json").write_text("[1]")
    with pytest.raises(DataSetError, match="is not a JSON object"):
        kf.report(folder, tmp_path / "other.html")


def test_a_cycle_is_described_by_its_runs(tmp_path: Path) -> None:
    folder = tmp_path / "cycle"
    (folder / "done").mkdir(parents=True)
    (folder / "runs").mkdir()
    for number, (before, after, promoted) in enumerate(((0.1, 0.3, True), (0.3, 0.31, False)), 1):
        run = {"run": number, "state": "done", "started": f"2026-01-0{number}T10:00:00+00:00", "steps": {}, "file": "c"}
        run |= {"rows_read": 90, "rows_drawn": 30, "reward_logged": 0.2, "reward_drawn": 0.5, "unit": "reward"}
        run |= {"held_out_before": before, "held_out_after": after, "promoted": promoted, "why": "p 0.1", "seconds": 60}
        (folder / "runs" / f"{number:06d}.json").write_text(json.dumps(run))
    page = kf.report(folder, tmp_path / "page.html")
    check_policy(tmp_path / "page.html")
    assert page.sentence.startswith("2 runs: 1 promoted, 1 refused; the last done, held-out reward 0.3 \u2192 0.31")
    (plot,) = page.to_dict()["plots"]
    assert plot["rows"] == [(1.0, 0.1, 0.3), (2.0, 0.3, 0.31)]
    assert "refused, p 0.1" in read_markup(tmp_path / "page.html")


def test_an_audit_is_a_page_of_its_findings(tmp_path: Path) -> None:
    lines = [
        {"id": f"{group}-{at}", "group": str(group), "prompt": f"Question {group}?", "completion": "word " * (at + 1)}
        | {"reward": float(at), "step": group}
        for group in range(12)
        for at in range(6)
    ]
    write_log(tmp_path / "dump.jsonl", lines)
    done = karl("audit", "dump.jsonl", "--page", "page.html", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    check_policy(tmp_path / "page.html")
    assert "Wrong with it: reward follows length" in read_sentence(tmp_path / "page.html")
    assert read_rows(tmp_path / "page.html")[0]["messages"][0]["content"].startswith("Question")
    again = karl("audit", "dump.jsonl", "--page", "page.html", folder=tmp_path)
    assert again.returncode == 5


def test_results_of_training_show_their_curves_in_a_notebook(run: Path) -> None:
    from karl_fast.train import Trained

    result = Trained(run, (20, 20), 1000, (0.5, 10), 20, {}, 1 << 30, 64)
    assert "<td>steps</td>" in result._repr_html_()
    pytest.importorskip("mlx.core")
    from karl_fast.rl.run import RunResult

    shown = RunResult(run, 20, 20, {"outcome": 0.95}, {"round": 10, "reward": 0.5})._repr_html_()
    assert "Entropy, nats a token" in shown
    assert "best held-out reward" in shown


def test_names_of_curves_do_not_overlap() -> None:
    from karl_fast._plots import Curve, lines

    drawing = lines("", [Curve([(1, 0.5), (2, 0.5)], "a"), Curve([(1, 0.1), (2, 0.501)], "b")], small=False).svg(580)
    places = [float(place) for place in re.findall(r'y="([\d.]+)"[^>]*>[ab]<', drawing)]
    assert abs(places[0] - places[1]) > 13.9
