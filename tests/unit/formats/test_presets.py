"""Rollouts and data sets of further products, each in the form of its own source: NeMo Gym 0.7 (`rollout_collection`),
tau2-bench (`data_model/simulation.py`), SWE-smith (the data set SWE-smith-trajectories), lm-eval 0.4.13
(`save_results_samples`), Inspect 0.3 (`EvalSample`), slime (`Sample.to_dict`), TRL's KTO, Alpaca."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karl_fast

if TYPE_CHECKING:
    from pathlib import Path

CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": '{"path": "till.py"}'}
RESPONSE = {
    "id": "resp_1",
    "model": "m",
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "look first"}]},
        CALL | {"status": "completed"},
        {"type": "function_call_output", "call_id": "c1", "output": "total = 0"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Fixed.", "annotations": []}],
        },
    ],
    "usage": {"input_tokens": 10, "output_tokens": 3},
}
GYM = {
    "responses_create_params": {
        "input": [{"role": "developer", "content": "You help."}, {"role": "user", "content": "Fix the till"}],
        "tools": [{"type": "function", "name": "read", "parameters": {"type": "object"}, "strict": True}],
    },
    "response": RESPONSE,
    "reward": 1.0,
    "_ng_task_index": 7,
    "_ng_rollout_index": 2,
}
USE = {"id": "c1", "name": "read", "arguments": {"path": "till.py"}, "requestor": "assistant"}
SIMULATION = {
    "id": "sim-1",
    "task_id": "till",
    "trial": 1,
    "termination_reason": "user_stop",
    "reward_info": {"reward": 0.5, "db_check": None},
    "messages": [
        {"role": "user", "content": "Fix the till", "tool_calls": None, "turn_idx": 0},
        {"role": "assistant", "content": None, "tool_calls": [USE], "turn_idx": 1},
        {"id": "c1", "role": "tool", "content": "total = 0", "requestor": "assistant", "error": False, "turn_idx": 2},
        {"role": "assistant", "content": "Fixed.", "tool_calls": None, "turn_idx": 3},
    ],
}
SMITH_MESSAGES = [
    {"role": "system", "content": [{"type": "text", "text": "You help."}]},
    {"role": "user", "content": "Fix the till"},
    {"role": "assistant", "content": "Fixed."},
]
SMITH = {
    "messages": json.dumps(SMITH_MESSAGES),
    "instance_id": "till__7",
    "resolved": True,
    "model": "m",
    "traj_id": "t1",
    "patch": "",
}
LM_EVAL = {
    "doc_id": 3,
    "doc": {"question": "2+2?"},
    "target": "4",
    "arguments": {"gen_args_0": {"arg_0": "Q: 2+2?\nA:", "arg_1": {"until": ["\n"]}}},
    "resps": [[" It is 4."]],
    "filtered_resps": ["4"],
    "filter": "strict-match",
    "metrics": ["exact_match"],
    "prompt_hash": "p",
    "exact_match": 1.0,
}
INSPECT = {
    "id": "s1",
    "epoch": 2,
    "input": "2+2?",
    "target": "4",
    "messages": [
        {"id": "a", "role": "user", "content": "2+2?", "source": "input"},
        {
            "id": "b",
            "role": "assistant",
            "content": [{"type": "reasoning", "reasoning": "add"}, {"type": "text", "text": "4"}],
        },
    ],
    "output": {"model": "m", "choices": []},
    "scores": {"match": {"value": "C", "answer": "4"}, "model graded": {"value": 0.25}},
    "metadata": {},
}
KTO = {
    "prompt": [{"role": "user", "content": "2+2?"}],
    "completion": [{"role": "assistant", "content": "4"}],
    "label": True,
}
SLIME = {
    "group_index": 4,
    "index": 33,
    "prompt": [{"role": "user", "content": "2+2?"}],
    "response": "4",
    "response_length": 1,
    "reward": 0.5,
    "status": "completed",
    "rollout_log_probs": [-0.1],
}
OPENHANDS = {
    "messages": [{"role": "user", "content": "Fix the till"}],
    "response": {"id": "c1", "model": "m", "choices": [{"message": {"role": "assistant", "content": "Fixed."}}]},
    "args": [],
    "kwargs": {"tools": [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]},
    "timestamp": 1.0,
    "cost": 0.1,
}
ALPACA = {"instruction": "Add the numbers.", "input": "2, 2", "output": "4", "reward": 1.0}

WHOLE = [
    ("system", "You help."),
    ("user", "Fix the till"),
    ("assistant", ""),
    ("tool", "total = 0"),
    ("assistant", "Fixed."),
]


def row(path: Path, record: Any, **settings: Any) -> tuple[karl_fast.Log, dict[str, Any]]:
    """Return the log of a record, and the row that is drawn of it."""
    path.write_text(json.dumps(record) + "\n", "utf-8")
    log = karl_fast.read(path, **settings)
    karl_fast.sample(log, path.with_name("data"), k=1, split=(1, 0, 0), force=True)
    return log, json.loads((path.parent / "data" / "train.jsonl").read_text("utf-8"))


def group_names(log: karl_fast.Log) -> list[str | None]:
    return [None if code < 0 else log.group_names[code] for code in log.groups.tolist()]


def said(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["role"], one.get("content") or "") for one in found["messages"]]


def test_items_of_nemo_gym_are_a_conversation(tmp_path: Path) -> None:
    log, found = row(tmp_path / "rollouts.jsonl", GYM)
    assert said(found) == WHOLE
    turn = found["messages"][2]
    assert turn["reasoning_content"] == "look first"
    assert turn["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "read", "arguments": {"path": "till.py"}}}
    ]
    assert found["tools"][0]["function"]["name"] == "read"
    assert (found["karl_fast"]["id"], found["karl_fast"]["group"], list(log.rewards)) == ("7/2", "7", [1.0])


def test_a_prompt_of_nemo_gym_may_be_a_text(tmp_path: Path) -> None:
    params = {"input": "Fix the till", "instructions": "You help."}
    found = {key: value for key, value in GYM.items() if not key.startswith("_ng")} | {
        "responses_create_params": params
    }
    _, found = row(tmp_path / "rollouts.jsonl", found)
    assert said(found) == WHOLE


def test_simulations_of_tau2(tmp_path: Path) -> None:
    log, found = row(
        tmp_path / "results.json",
        {"timestamp": "t", "info": {}, "tasks": [{"id": "till"}], "simulations": [SIMULATION]},
    )
    assert said(found) == WHOLE[1:]
    assert found["messages"][2]["tool_call_id"] == "c1"
    assert (found["karl_fast"]["id"], found["karl_fast"]["group"], list(log.rewards)) == ("sim-1", "till", [0.5])


@pytest.mark.parametrize("as_text", [True, False])
def test_trajectories_of_swe_smith(tmp_path: Path, as_text: bool) -> None:
    log, found = row(tmp_path / "t.jsonl", SMITH if as_text else SMITH | {"messages": SMITH_MESSAGES})
    assert said(found) == [*WHOLE[:2], WHOLE[4]]
    assert (found["karl_fast"]["group"], list(log.rewards)) == ("till__7", [1.0])


@pytest.mark.parametrize("arguments", [LM_EVAL["arguments"], [["Q: 2+2?\nA:", {"until": ["\n"]}]]])
def test_samples_of_lm_eval(tmp_path: Path, arguments: Any) -> None:
    log, found = row(tmp_path / "samples_sums.jsonl", LM_EVAL | {"arguments": arguments}, reward={"exact_match": 1.0})
    assert (found["prompt"], found["completion"]) == ("Q: 2+2?\nA:", " It is 4.")
    assert list(log.rewards) == [1.0]


def test_samples_of_lm_eval_ask_for_their_reward(tmp_path: Path) -> None:
    path = tmp_path / "samples_sums.jsonl"
    path.write_text(json.dumps(LM_EVAL) + "\n", "utf-8")
    with pytest.raises(karl_fast.errors.KarlError, match="reward"):
        karl_fast.sample(path, tmp_path / "data", k=1)


@pytest.mark.parametrize(
    ("reward", "wanted"),
    [("grade(scores.match.value)", 1.0), ('scores."model graded".value', 0.25), ("scores.model graded.value", 0.25)],
)
def test_samples_of_inspect(tmp_path: Path, reward: str, wanted: float) -> None:
    log, found = row(
        tmp_path / "log.json",
        {"version": 2, "status": "success", "eval": {}, "samples": [INSPECT]},
        reward={reward: 1.0},
    )
    assert said(found) == [("user", "2+2?"), ("assistant", "4")]
    assert found["messages"][1]["reasoning_content"] == "add"
    assert (found["karl_fast"]["id"], found["karl_fast"]["group"], list(log.rewards)) == ("s1/2", "s1", [wanted])


@pytest.mark.parametrize(("grade", "wanted"), [("C", 1.0), ("P", 0.5), ("I", 0.0), ("N", 0.0), (0.3, 0.3), (True, 1.0)])
def test_grades_are_numbers(tmp_path: Path, grade: Any, wanted: float) -> None:
    record = INSPECT | {"scores": {"match": {"value": grade}}}
    log, _ = row(tmp_path / "log.jsonl", record, reward={"grade(scores.match.value)": 1.0})
    assert list(log.rewards) == [wanted]


@pytest.mark.parametrize("grade", ["good", "0.5", [1], {"a": 1}])
def test_other_grades_are_no_numbers(tmp_path: Path, grade: Any) -> None:
    path = tmp_path / "log.jsonl"
    records = [INSPECT, INSPECT | {"id": "s2", "scores": {"match": {"value": grade}}}]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    looked = karl_fast.inspect(path, reward={"grade(scores.match.value)": 1.0})
    assert looked.report["accounting"]["dropped"] == {"reward_not_a_number": 1}


@pytest.mark.parametrize(("label", "reward"), [(True, 1.0), (False, 0.0)])
def test_labels_of_kto_are_rewards(tmp_path: Path, label: bool, reward: float) -> None:
    log, found = row(tmp_path / "kto.jsonl", KTO | {"label": label})
    assert said(found) == [("user", "2+2?"), ("assistant", "4")]
    assert list(log.rewards) == [reward]


def test_samples_of_slime(tmp_path: Path) -> None:
    log, found = row(tmp_path / "slime.jsonl", SLIME)
    assert said(found) == [("user", "2+2?"), ("assistant", "4")]
    assert (found["karl_fast"]["id"], found["karl_fast"]["group"], list(log.rewards)) == ("33", "4", [0.5])


@pytest.mark.parametrize(("text", "prompt"), [("2, 2", "Add the numbers.\n2, 2"), ("", "Add the numbers.")])
def test_the_input_of_alpaca_follows_its_instruction(tmp_path: Path, text: str, prompt: str) -> None:
    _, found = row(tmp_path / "alpaca.jsonl", ALPACA | {"input": text})
    assert (found["prompt"], found["completion"]) == (prompt, "4")


def test_calls_of_openhands_have_their_answer_beside_the_messages(tmp_path: Path) -> None:
    _, drawn = row(
        tmp_path / "call.jsonl",
        OPENHANDS | {"reward": 1.0},
        prompt="messages",
        completion="response",
        tools="kwargs.tools",
    )
    assert said(drawn) == [("user", "Fix the till"), ("assistant", "Fixed.")]
    assert drawn["tools"][0]["function"]["name"] == "read"


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("file.name", ["a", "b"]),
        ("file.parent", ["task-1", "task-2"]),
        (r"file(/task-(\d)/)", ["1", "2"]),
        (r'file("task-\d{1,2}|none")', ["task-1", "task-2"]),
        ("file.parent,file.name", ["task-1/a", "task-2/b"]),
        ("task|file.parent", ["task-1", "t"]),
    ],
)
def test_a_group_may_be_a_part_of_the_path_of_the_file(tmp_path: Path, field: str, wanted: list[str]) -> None:
    for task, name, more in ((1, "a", {}), (2, "b", {"task": "t"})):
        folder = tmp_path / f"task-{task}"
        folder.mkdir()
        record = {"id": name, "messages": KTO["prompt"] + KTO["completion"], "reward": 1.0} | more
        (folder / f"{name}.part.jsonl").write_text(json.dumps(record) + "\n", "utf-8")
    log = karl_fast.read(tmp_path, group=field)
    assert sorted(map(str, group_names(log))) == sorted(wanted)
    manifest = karl_fast.sample(tmp_path, tmp_path / "data", k=2, group=field).manifest
    assert manifest["groups"]["count"] == 2
    assert manifest["settings"]["group"] == field


def test_a_file_that_matches_nothing_has_no_group(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(LISTED | {"reward": 1.0}) + "\n", "utf-8")
    assert group_names(karl_fast.read(path, group="file(nothing-of-the-kind)")) == [None]
    for group in ("file(a", "file(()"):
        with pytest.raises(karl_fast.errors.KarlError, match=r"bracket|regular expression"):
            karl_fast.read(path, group=group)


@pytest.mark.parametrize("record", [GYM, SIMULATION, SMITH, INSPECT, SLIME, KTO, ALPACA])
def test_convert_knows_them_too(tmp_path: Path, record: dict[str, Any]) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(record) + "\n", "utf-8")
    account = karl_fast.convert(path, tmp_path / "out.jsonl")
    assert account.trajectories == 1


LISTED = {"runs": [{"value": 0.25}, {"value": 0.5}], "a.b": {"c|d": 2}, "messages": KTO["prompt"] + KTO["completion"]}


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("runs[1].value", 0.5),
        ("runs.0.value", 0.25),
        ("runs[2].value|runs[0].value", 0.25),
        ('"a.b"."c|d"', 2.0),
        ("a\\.b.c|d|runs[1].value", 0.5),
    ],
)
def test_paths_have_indices_and_quoted_keys(tmp_path: Path, path: str, wanted: float) -> None:
    log, _ = row(tmp_path / "log.jsonl", LISTED, reward={path: 1.0})
    assert list(log.rewards) == [wanted]


@pytest.mark.parametrize("path", ['"a', '"a"b', "", "a..b", '"a".'])
def test_a_path_that_means_nothing_is_refused(tmp_path: Path, path: str) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text(json.dumps(LISTED) + "\n", "utf-8")
    with pytest.raises(karl_fast.errors.KarlError):
        karl_fast.read(file, reward={path: 1.0})


BESIDE = {"setup": {"prompt": "You help.", "functions": [{"name": "read"}]}, "reward": 1.0}


def test_the_system_prompt_and_the_tools_are_named(tmp_path: Path) -> None:
    record = BESIDE | {"messages": KTO["prompt"] + KTO["completion"]}
    _, found = row(tmp_path / "log.jsonl", record, system="setup.prompt", tools="setup.functions")
    assert said(found) == [("system", "You help."), ("user", "2+2?"), ("assistant", "4")]
    assert found["tools"] == [{"type": "function", "function": {"name": "read"}}]


@pytest.mark.parametrize("prompt", [5, {"a": 1}, [{"type": "image"}]])
def test_a_system_prompt_that_is_no_text_drops_the_row(tmp_path: Path, prompt: Any) -> None:
    record = BESIDE | {"messages": KTO["prompt"] + KTO["completion"], "setup": {"prompt": prompt}}
    with pytest.raises(karl_fast.errors.NothingToSampleError, match="bad system"):
        row(tmp_path / "log.jsonl", record, system="setup.prompt")


def test_an_answer_beside_the_messages_is_joined_where_it_is_named(tmp_path: Path) -> None:
    record = {"messages": KTO["prompt"], "response": "4", "reward": 1.0}
    _, found = row(tmp_path / "log.jsonl", record, messages="messages", completion="response")
    assert said(found) == [("user", "2+2?"), ("assistant", "4")]


SKYRL = {
    "input_prompt": "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n",
    "output_response": "4<|im_end|>",
    "score": [0.0, 0.25, 0.5],
    "stop_reason": "stop",
    "env_class": "gsm8k",
    "env_extras": {"data_source": "gsm8k"},
    "data_source": "gsm8k",
}
OPENRLHF = {"input": "Human: 2+2?\nAssistant: ", "output": "4", "reward": 0.75}
TURNS = [
    {"role": "user", "content": "<|user|>2+2?<|assistant|>", "token_count": 4, "metadata": {}},
    {"role": "assistant", "content": "4?", "token_count": 2, "metadata": {}},
    {"role": "environment", "content": "<|user|>2+2?<|assistant|>4?<|user|>Sure?<|assistant|>", "token_count": 9},
    {"role": "assistant", "content": "4.", "token_count": 2, "metadata": {}},
]
TINKER = {
    "idx": 3,
    "benchmark": "gsm8k",
    "example_id": "gsm8k_1f",
    "turns": TURNS,
    "reward": 1.0,
    "metrics": {"correct": 1.0},
    "logs": {},
    "error": None,
    "time_seconds": 1.5,
}


@pytest.mark.parametrize(("score", "wanted"), [(0.5, 0.5), ([0.0, 0.25, 0.5], 0.75), ([1, -0.5], 0.5)])
def test_evaluations_of_skyrl(tmp_path: Path, score: Any, wanted: float) -> None:
    log, found = row(tmp_path / "gsm8k.jsonl", SKYRL | {"score": score})
    assert (found["prompt"], found["completion"]) == (SKYRL["input_prompt"], SKYRL["output_response"])
    assert (list(log.rewards), log.domain_names) == ([wanted], ["gsm8k"])


@pytest.mark.parametrize(
    ("score", "dropped"),
    [
        ([0.5, "x"], "reward_not_a_number"),
        ([[0.5]], "reward_not_a_number"),
        ([0.5, None], "missing_reward"),
        ([], "missing_reward"),
        ([1e100, 1e100], "reward_infinite"),
        ({"a": 1}, "reward_not_a_number"),
    ],
)
def test_scores_without_a_sum_are_dropped_by_name(tmp_path: Path, score: Any, dropped: str) -> None:
    path = tmp_path / "gsm8k.jsonl"
    path.write_text("".join(json.dumps(SKYRL | {"score": one}) + "\n" for one in (0.5, score)), "utf-8")
    assert karl_fast.inspect(path).report["accounting"]["dropped"] == {dropped: 1}


def test_output_of_openrlhf(tmp_path: Path) -> None:
    log, found = row(tmp_path / "out.jsonl", OPENRLHF)
    assert (found["prompt"], found["completion"]) == (OPENRLHF["input"], "4")
    assert (list(log.rewards), [file["format"] for file in log.inputs]) == ([0.75], ["openrlhf"])


def test_the_last_turns_of_tinker_cookbook_are_the_row(tmp_path: Path) -> None:
    log, found = row(tmp_path / "trajectories.jsonl", TINKER)
    assert (found["prompt"], found["completion"]) == (TURNS[2]["content"], "4.")
    assert (found["karl_fast"]["group"], list(log.rewards)) == ("gsm8k/gsm8k_1f", [1.0])


def test_a_failed_run_of_tinker_cookbook_has_no_reward(tmp_path: Path) -> None:
    path = tmp_path / "trajectories.jsonl"
    path.write_text("".join(json.dumps(TINKER | {"error": error}) + "\n" for error in (None, "timeout")), "utf-8")
    assert karl_fast.inspect(path).report["accounting"]["dropped"] == {"failed_rollout": 1}


@pytest.mark.parametrize("turns", [[], TURNS[:1], TURNS[:3], "x"])
def test_turns_without_an_answer_are_dropped(tmp_path: Path, turns: Any) -> None:
    with pytest.raises(karl_fast.errors.NothingToSampleError, match="no trajectory"):
        row(tmp_path / "trajectories.jsonl", TINKER | {"turns": turns})


def test_summaries_of_tinker_cookbook_are_named_with_what_to_do(tmp_path: Path) -> None:
    summary = {"schema_version": 1, "split": "train", "iteration": 1, "group_idx": 0, "traj_idx": 2, "tags": []}
    summary |= {"total_reward": 1.0, "final_reward": 1.0, "steps": [{"ob_len": 4, "ac_len": 2}], "final_ob_len": 6}
    path = tmp_path / "train_rollout_summaries.jsonl"
    path.write_text(json.dumps(summary) + "\n", "utf-8")
    for run in (karl_fast.sample, karl_fast.convert):
        with pytest.raises(karl_fast.errors.KarlError) as caught:
            run(path, tmp_path / "out.jsonl", **({"k": 1} if run is karl_fast.sample else {}))  # type: ignore[operator]
        assert "rollout summaries of tinker-cookbook" in f"{caught.value} {caught.value.hint}"
