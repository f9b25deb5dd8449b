"""A name that is not there, and one that is nearly the same: the hint asks whether that was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from karl_fast import Settings, _suggest
from karl_fast.errors import UsageError
from tests import rows
from tests.cli.run import karl
from tests.cli.test_exits import refused
from tests.cli.test_warnings import said

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

HELP = "karl-fast sample --help all lists what it takes"


def hinted(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The hint of an error; nothing where it has none."""
    refused(done, code)
    return "".join(done.stderr.splitlines()[1:]).removeprefix("hint: ")


WORDS = {
    "--score zscor": "did you mean zscore?",
    "--score nothing-like-it": HELP,
    "--as chta": "did you mean chat?",
    "--sampler gumble": "did you mean gumbel?",
    "--format generci": "did you mean generic?",
    "--format Prime_LR": "did you mean prime-rl?",
    "--per domian=equal": "did you mean --per domain=equal?",
    "--per skill=equal": "name the path of the field with --domain",
    "--per domain=eqal": "did you mean --per domain=equal?",
    "--per group=by-root": "",
}


@pytest.mark.parametrize("words", WORDS)
def test_a_choice(folder: Path, words: str) -> None:
    assert hinted(karl("sample", "tiny.jsonl", "-k", 3, "--dry-run", *words.split(), folder=folder), 2) == WORDS[words]


@pytest.mark.parametrize("name", ["GENERIC", "Generic"])
def test_a_format_has_many_spellings(folder: Path, name: str) -> None:
    (folder / "karl.toml").write_text(f'format = "{name}"\n', "utf-8")
    for how in (["--format", name], ["--config", "karl.toml"]):
        assert karl("inspect", "tiny.jsonl", *how, folder=folder).returncode == 0
    assert Settings(format="Prime_RL").format == "Prime_RL"
    for no_text in (5, ["generic"], {}, b"generic"):
        with pytest.raises(UsageError, match=r"format is .*, wanted a text"):
            Settings(format=no_text)  # type: ignore[arg-type]


def test_data_set_as_log(folder: Path) -> None:
    assert karl("sample", "tiny.jsonl", "-k", 3, "-o", "data", folder=folder).returncode == 0
    done = karl("sample", "data", "-k", 3, "--dry-run", folder=folder)
    assert refused(done, 2) == "the folder data is a data set of karl-fast, not a log"
    assert hinted(done, 2) == "give what it was drawn from: tiny.jsonl"
    assert karl("inspect", "data", folder=folder).returncode == 0
    (folder / "all").mkdir()
    (folder / "data").rename(folder / "all" / "data")
    sentence = refused(karl("inspect", "all", folder=folder), 2)
    assert sentence.startswith("the folder all holds no file that ends in .jsonl")
    assert sentence.endswith("but in 1 data set of karl-fast")


@pytest.mark.parametrize("inputs", ["", ', "inputs": 5', ', "inputs": [5, {"path": 5}]'])
def test_data_set_without_inputs_as_log(folder: Path, inputs: str) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "manifest.json").write_text(f'{{"schema": 1, "karl_fast": "0"{inputs}}}')
    assert hinted(karl("inspect", "data", folder=folder), 2) == "give what it was drawn from"


def test_rows_of_data_set_as_log(folder: Path) -> None:
    assert karl("sample", "tiny.jsonl", "-k", 9, "-o", "data", folder=folder).returncode == 0
    told, meant = "data/train.jsonl is of a data set of karl-fast", "--reward karl_fast.reward --group karl_fast.group"
    done = karl("sample", "data/train.jsonl", "-k", 3, "--dry-run", folder=folder)
    assert refused(done, 4).endswith(f"; {told}")
    assert hinted(done, 4) == f"give the log that it was drawn from, or {meant}"
    assert "give the log" not in said(karl("inspect", "data/train.jsonl", folder=folder).stdout)
    done = karl("inspect", "data/train.jsonl", *meant.split(), "--score", "zscore", folder=folder)
    assert (done.returncode, "data set" in done.stdout) == (0, False)


def test_raw_data_set_is_a_log(folder: Path) -> None:
    assert karl("sample", "tiny.jsonl", "-k", 9, "-o", "data", "--as", "raw", folder=folder).returncode == 0
    done = karl("inspect", "data/train.jsonl", folder=folder)
    assert (done.returncode, "data set" in done.stdout) == (0, False)


IN_A_FILE = {
    'score = "zscor"': "did you mean zscore?",
    'per = { domian = "equal" }': "did you mean --per domain=equal?",
    'per = "domain=eqal"': "did you mean --per domain=equal?",
    'format = "verifier"': "did you mean verifiers?",
    "scor = 1": "did you mean score?",
    "[samples]": "did you mean [sample]?",
    "[sampl]": "did you mean [sample]?",
    "[trian]\nx = 1": "did you mean [train]?",
    "[domian]": "did you mean domain?",
    "samples = 1": "did you mean sampler?",
}


@pytest.mark.parametrize("text", IN_A_FILE)
def test_a_choice_in_a_file(folder: Path, text: str) -> None:
    (folder / "karl.toml").write_text(f"k = 3\n{text}\n", "utf-8")
    done = karl("sample", "tiny.jsonl", "--dry-run", "--config", "karl.toml", folder=folder)
    assert hinted(done, 2) == IN_A_FILE[text]


def test_where_rewards_come_from(folder: Path) -> None:
    done = karl("convert", "tiny.jsonl", "-o", "t.jsonl", "--rate", "karlv2", folder=folder)
    assert hinted(done, 2) == "did you mean karl-v2?"


PLACES = {
    "sample tiny.jsnl -k 3 --dry-run": "tiny.jsonl",
    "inspect ./tiny.json": "tiny.jsonl",
    "inspect many": "many.jsonl.zst",
    "sample logs/on.jsonl -k 3 --dry-run": "logs/one.jsonl",
    "sample log -k 3 --dry-run": "logs",
    "convert log -o t.jsonl": "logs",
    "compare data-on data-two": "data-one",
    "sample tiny.jsonl --dry-run --config karl.tml": "karl.toml",
    "train data-on --model x": "data-one",
    "rl --config karl.tml": "karl.toml",
}


@pytest.mark.parametrize("command", PLACES)
def test_a_file_or_a_folder(folder: Path, command: str) -> None:
    (folder / "logs").mkdir()
    (folder / "data-one").mkdir()
    (folder / "many.jsonl.zst").touch()
    for name in ("logs/one.jsonl", "karl.toml"):
        (folder / name).write_text("")
    if command.startswith(("train", "rl")):
        pytest.importorskip("mlx.core")
    assert hinted(karl(*command.split(), folder=folder), 1) == f"did you mean {PLACES[command]}?"


def test_nothing_near_is_no_hint(folder: Path) -> None:
    assert hinted(karl("inspect", "another", folder=folder), 1) == ""
    assert hinted(karl("inspect", "nowhere.jsonl", folder=folder), 1) == ""
    assert hinted(karl("inspect", "nowhere/tiny.jsnl", folder=folder), 1) == ""


HOMELESS = [
    "inspect {}",
    "sample {} -k 3 --dry-run",
    "sample tiny.jsonl --dry-run --config {}",
    "convert {} -o t.jsonl",
]


@pytest.mark.parametrize("command", HOMELESS)
def test_the_home_of_nobody_is_no_hint(folder: Path, command: str) -> None:
    done = karl(*command.format("~nobody-at-all/x.jsonl").split(), folder=folder)
    assert hinted(done, 1) == ""
    assert done.stderr.startswith("error: cannot open ~nobody-at-all/x.jsonl: ")


def test_the_folder_of_a_tokenizer(folder: Path) -> None:
    (folder / "tiny-modem").touch()
    (folder / "tiny-model").mkdir()
    how = ("sample", "tiny.jsonl", "-k", 3, "--dry-run", "--max-tokens", 9, "--tokenizer", "tiny-modle")
    assert hinted(karl(*how, folder=folder), 1) == "did you mean tiny-model?"


FUNCTIONS = {
    "mine.py:corect": "did you mean correct?",
    "mine.py:other": "it has correct, Judge",
    "mien.py:correct": "did you mean mine.py?",
    "karl-v1.outcom": "did you mean karl-v1.outcome?",
}


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_a_function_of_a_file(folder: Path, fn: str) -> None:
    own = "from math import floor\nLIMIT = 3\nlower = str.lower\n"
    own += "def correct(completions):\n    return []\nclass Judge:\n    pass\n"
    (folder / "mine.py").write_text(own, "utf-8")
    (folder / "karl.toml").write_text(f'[reward]\nmine = {{ fn = "{fn}" }}\n', "utf-8")
    done = karl("sample", "tiny.jsonl", "-k", 3, "--dry-run", "--config", "karl.toml", folder=folder)
    assert hinted(done, 1) == FUNCTIONS[fn]


PARTS = [{"outcome": n / 8, "efficiency": 0.5, "cost": {"usd": 1.0}} for n in range(8)]

COMPONENTS = {
    "parts.outcom=0.8,parts.efficiency=0.2": (
        "; the first record lacks parts.outcom; parts holds outcome, efficiency, cost",
        "--reward parts.outcome?",
    ),
    "parts.outcome=0.8,parts.efficency": (
        "; the first record lacks parts.efficency; parts holds outcome, efficiency, cost",
        "--reward parts.efficiency?",
    ),
    "parts.cost.usdd": ("; no record has the reward parts.cost.usdd; parts.cost holds usd", "--reward parts.cost.usd?"),
    "part.outcome": (
        "; no record has the reward part.outcome; the records hold id, group, reward, messages, parts",
        "--reward parts.outcome?",
    ),
}


@pytest.mark.parametrize("reward", COMPONENTS)
def test_a_component_of_the_reward(tmp_path: Path, reward: str) -> None:
    records = [row | {"parts": parts} for row, parts in zip(rows.records(8), PARTS, strict=True)]
    rows.write(tmp_path / "log.jsonl", records)
    done = karl("sample", "log.jsonl", "-k", 3, "--dry-run", "--reward", reward, folder=tmp_path)
    held, meant = COMPONENTS[reward]
    assert refused(done, 4) == f"no row is left to draw: 8 read, dropped: missing reward 8{held}"
    assert hinted(done, 4) == f"did you mean {meant}"
    looked = karl("inspect", "log.jsonl", "--reward", reward, folder=tmp_path)
    told = "all of the rewards" if "," in reward else "the reward"
    assert f"warning: no record has a value for {told} part" in said(looked.stdout)


def test_a_group_inside_an_object(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", [row | {"info": {"task": "t"}} for row in rows.records(8)])
    how = ("sample", "log.jsonl", "-k", 3, "--dry-run", "--score", "zscore", "--group", "info.tsak")
    done = karl(*how, folder=tmp_path)
    assert refused(done, 2).endswith("no record has the group info.tsak; info holds task")
    assert hinted(done, 2) == "did you mean --group info.task?"


@pytest.mark.parametrize("rule", ["--drop-constant-groups", "--max-per-group=2"])
@pytest.mark.parametrize("command", [["sample", "-k", "3", "--dry-run"], ["inspect"]])
def test_a_rule_of_groups_where_there_are_none(folder: Path, command: list[str], rule: str) -> None:
    done = karl(*command, "tiny.jsonl", "--group", "gruop", rule, folder=folder)
    said = f"{rule.split('=')[0]} is a rule of groups, but no record has the group gruop; the records hold"
    assert refused(done, 2).startswith(said)
    assert hinted(done, 2) == "did you mean --group group?"


def test_an_online_run_without_settings_names_an_example(folder: Path) -> None:
    done = karl("rl", folder=folder)
    assert hinted(done, 2) == "karl-fast rl --config examples/rl/reversal.toml runs one of a checkout"


@pytest.mark.parametrize("per", [{1: "equal"}, {"domain": 2}, {"domain": None}])
def test_what_is_no_name_is_near_to_none(per: Any) -> None:
    with pytest.raises(UsageError, match=r"^per ") as caught:
        Settings(k=3, per=per)
    assert "did you mean" not in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("claud-code", "claude-code"), ("tau-b", "tau-bench"), ("TAU_B", "tau-bench"), ("swe", "swe-agent")],
)
def test_a_format_of_transcripts(folder: Path, name: str, meant: str) -> None:
    done = karl("convert", "tiny.jsonl", "-o", "out.jsonl", "--format", name, folder=folder)
    assert hinted(done, 2) == f"did you mean {meant}?"


def test_swapped_letters_are_nearest() -> None:
    names = ["gspo", "grpo", "dapo"]
    assert _suggest.nearest("gpro", names) == ["grpo"]
    assert _suggest.nearest("gsp", names) == ["gspo"]
    assert _suggest.nearest("score", ["cores", "scores"]) == ["scores"]


def test_prefix_is_taken_for_a_name() -> None:
    assert _suggest.nearest("tau", ["tau-bench", "tua"]) == ["tua"]
    assert _suggest.nearest("tau", ["generic", "tau-bench"]) == ["tau-bench"]
    assert _suggest.nearest("ta", ["generic", "tau-bench"]) == []


def test_the_component_that_is_missing_is_named(folder: Path) -> None:
    done = karl("sample", "tiny.jsonl", "-k", 3, "--reward", "reward=0.5,cst=0.5", "--dry-run", folder=folder)
    assert "; the first record lacks cst; the records hold" in refused(done, 4)
    assert "did you mean --reward reward?" not in done.stderr


def test_parquet_in_folder_hint(folder: Path) -> None:
    (folder / "pq").mkdir()
    (folder / "pq" / "a.parquet").write_bytes(b"PAR1")
    done = karl("sample", "pq", "-k", 3, "--dry-run", folder=folder)
    assert hinted(done, 2) == "Parquet files are taken by name or glob: pq/*.parquet"


def test_a_folder_as_the_output_of_convert(folder: Path) -> None:
    done = karl("convert", "tiny.jsonl", "-o", "out/", folder=folder)
    assert refused(done, 2) == "--out is out/, wanted the name of a file"
    assert hinted(done, 2) == "out/trajectories.jsonl is one: folders on the way to it are made"
