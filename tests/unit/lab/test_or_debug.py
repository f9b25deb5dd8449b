"""Programs with faults, the environment with its solver, the diagnosis, the composite, and a script that plays."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.golden.test_files import golden
from tests.unit.lab.conftest import module

pytest.importorskip("highspy", reason="highspy is not installed: pip install '.[lab]'")

GOLDEN = golden("ordebug_composite_reward")
SMALL = {  # x1 >= x2 + 3, and x1 <= 2
    "rows": {"c1": [{"x1": 1, "x2": -1}, ">=", 3], "c2": [{"x1": 1}, "<=", 2], "c3": [{"x2": 1}, "<=", 9]},
    "bounds": {"x1": [0, 16], "x2": [0, 16]},
}


@pytest.fixture(scope="module")
def debug() -> Any:
    return module("or_debug.py", "generate")


def start(debug: Any, line: dict[str, Any] | None = None) -> Any:
    environment = debug.Debugger()
    environment.reset(line or {"program": SMALL, "ground_truth_iis": ["c1", "c2", "x2"]})
    return environment


@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
@pytest.mark.parametrize("kind", ["A", "B", "C", "D"])
def test_programs_are_infeasible_and_repairable(debug: Any, kind: str, level: str) -> None:
    for seed in range(8):
        line = debug.generate(kind, level, seed)
        assert line == debug.generate(kind, level, seed)
        assert not debug.is_feasible(line["program"])
        names = {*line["program"]["rows"], *line["program"]["bounds"]}
        assert set(line["ground_truth_iis"]) <= names
        environment = start(debug, line)
        for fix in line["fixes"]:
            environment.step(fix)
        assert environment.recovered
        assert len(line["fixes"]) == debug.LEVELS[level][0]


def test_a_conflict_holds_without_any_member(debug: Any) -> None:
    for kind in "ABCD":
        program = debug.generate(kind, "medium", 3)["program"]
        conflict = debug.find_iis(program)
        only = {"rows": {name: row for name, row in program["rows"].items() if name in conflict}}
        free = [-1e6, 1e6]
        only["bounds"] = {name: row if name in conflict else free for name, row in program["bounds"].items()}
        assert not debug.is_feasible(only)
        for name in conflict:
            rows = {other: row for other, row in only["rows"].items() if other != name}
            bounds = only["bounds"] | ({name: free} if name in only["bounds"] else {})
            assert debug.is_feasible({"rows": rows, "bounds": bounds})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("GET_IIS", "INFEASIBLE IIS c1 c2 x2"),
        ("CHECK_SLACK(c3)", "INFEASIBLE SLACK c3 9"),
        ("RELAX_CONSTRAINT(c1, 1)", "OPTIMAL"),
        ("RELAX_CONSTRAINT c2 0.5", "INFEASIBLE"),
        ("Action: DROP_CONSTRAINT(C2)", "OPTIMAL"),
        ("UPDATE_RHS(c1, - 4)", "OPTIMAL"),
        ("UPDATE_RHS(c3, -4)", "INFEASIBLE"),
        ("UPDATE_BOUNDS(x2, -1, 16)", "OPTIMAL"),
        ("SUBMIT", "INFEASIBLE"),
        ("RESET", "INFEASIBLE"),
        ("<think> DROP_CONSTRAINT(c1) </think> GET_IIS()", "INFEASIBLE IIS c1 c2 x2"),
        ("<think> DROP_CONSTRAINT(c1) </think>", "INVALID"),
        ("DROP_CONSTRAINT(c9)", "INVALID"),
        ("DROP_CONSTRAINT()", "INVALID"),
        ("UPDATE_BOUNDS(x1, 5, 3)", "INVALID"),
        ("UPDATE_RHS(c1, 1" + "0" * 400 + ")", "INVALID"),
        ("RELAX_CONSTRAINT(c1, c2)", "INVALID"),
        ("nothing to do", "INVALID"),
    ],
)
def test_actions_change_the_program(debug: Any, text: str, says: str) -> None:
    environment = start(debug)
    said, done = environment.step(text)
    assert said == says
    assert done == (says.startswith("OPTIMAL") or text == "SUBMIT")
    assert environment.solved == says.startswith("OPTIMAL")


def test_slacks_show_the_violation(debug: Any) -> None:
    said, _ = start(debug).step("CHECK_SLACK")
    slacks = dict(zip(("c1", "c2", "c3"), said.replace("- ", "-").split()[3::2], strict=True))
    assert float(slacks["c1"]) + float(slacks["c2"]) == -1  # 3 is wanted and 2 allowed
    assert SMALL["rows"]["c1"][2] == 3


def test_reset_takes_changes_back(debug: Any) -> None:
    environment = start(debug)
    for action in ("UPDATE_RHS(c3, 1)", "DROP_CONSTRAINT(c3)", "UPDATE_BOUNDS(x1, 0, 1)"):
        environment.step(action)
    assert environment.program != SMALL
    environment.step("RESET")
    assert environment.program == SMALL


def test_recovery_counts_within_five_steps(debug: Any) -> None:
    for before, solved in ((4, True), (5, False)):
        environment = start(debug)
        for _ in range(before):
            environment.step("GET_IIS")
        environment.step("DROP_CONSTRAINT(c1)")
        assert (environment.steps, environment.recovered) == (before + 1, before + 1)
        assert environment.solved == solved


@pytest.mark.parametrize(
    ("thought", "accuracy"),
    [
        ("c1 and c2, x2", 1),
        ("Because the constraint c1 conflicts with c2 and x2", 1),
        ("C1", 1 / 3),
        ("c1 c3", 1 / 4),
        ("c12 c1a xc2", 0),
        ("", 0),
    ],
)
def test_a_diagnosis_is_of_whole_names(debug: Any, thought: str, accuracy: float) -> None:
    environment = start(debug)
    environment.step(f"<think>{thought}</think> GET_IIS")
    assert environment.accuracy == pytest.approx(accuracy)


def test_the_composite_is_that_of_the_source(debug: Any) -> None:
    assert GOLDEN["weights"] == debug.WEIGHTS
    assert debug.composite(True, 1.0, 1) == GOLDEN["max_total"]
    for steps, efficiency in GOLDEN["efficiency_by_steps"].items():
        assert debug.composite(False, 0.5, int(steps)) == pytest.approx(0.5 * -50 + 0.3 * 10 + 0.2 * efficiency)
    for case in GOLDEN["cases"]:
        truth, extracted = case["ground_truth_iis"], case["extracted"]
        if truth and not {"cause", "conflicts", "constraint"} & {*extracted} and (extracted or "row" not in str(truth)):
            accuracy = debug.diagnose([case["completion"]], truth, ["c1", "c2", "c3", "c_1", "c_2"])
            assert accuracy == pytest.approx(case["outputs"]["da_score"])


def test_measures_play_the_answers_again(debug: Any) -> None:
    line = debug.generate("D", "medium", 0)
    environment = debug.play(line, random.Random(0))
    turns = [message for text in environment.texts for message in (said(text), {"role": "user", "content": "x"})]
    arguments = {"program": [line["program"]], "ground_truth_iis": [line["ground_truth_iis"]]}
    assert debug.recovery([""], [turns], **arguments) == [float(environment.solved)]
    assert debug.diagnosis([""], [turns], **arguments) == [environment.accuracy]
    assert debug.recovery([""], ["SUBMIT"], **arguments) == [0.0]


def said(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def test_difficulty_grows_by_both_measures(debug: Any) -> None:
    measures = {}
    for level in debug.LEVELS:
        episodes = [
            debug.play(debug.generate(kind, level, seed), random.Random(seed)) for kind in "ABCD" for seed in range(25)
        ]
        measures[level] = np.array([[episode.solved, episode.accuracy] for episode in episodes], dtype=float)
    for easier, harder in (("easy", "medium"), ("medium", "hard")):
        a, b = measures[easier], measures[harder]
        errors = np.sqrt(a.var(axis=0, ddof=1) / len(a) + b.var(axis=0, ddof=1) / len(b))
        assert (a.mean(axis=0) - b.mean(axis=0) > 3 * errors).all()  # the programs and the script are fixed by seeds


def test_programs_are_words_of_the_policy(debug: Any) -> None:
    pytest.importorskip("mlx.core", reason="mlx is not installed: pip install '.[train]'")
    words = {*module("policy.py", "small").WORDS}
    for line in debug.programs(1):
        assert {*line["prompt"].split()} <= words
    explained = next(iter(debug.explained_programs()))
    assert "RELAX_CONSTRAINT" in explained["prompt"]
