"""Functions that score a log for the command."""

from __future__ import annotations

import gzip
import hashlib
import json
import shlex
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from karl_fast.errors import RewardError, UsageError
from karl_fast.settings.sample import Settings
from tests import rows
from tests.cli.run import karl

if TYPE_CHECKING:
    from pathlib import Path

FUNCTIONS = """
def style(completions, kind):
    return [len(one[0]["content"]) / 10 if of != "k0" else None for one, of in zip(completions, kind)]

def asked(prompts, completions, **columns):
    assert set(columns) == {"id", "group", "reward", "messages", "kind"}
    return [len(prompt) + len(completion) / 2 for prompt, completion in zip(prompts, completions)]

def place(completions, id):
    return [at / 512 for at in range(len(id))]

def nan(completions, id):
    return [float("nan") if one == "r7" else 1.0 for one in id]

def text(completions, id):
    return ["1" if one == "r7" else 1.0 for one in id]

def raises(completions, id):
    assert "r7" not in id, "no r7"
    return [1.0] * len(id)

def short(completions):
    return [1.0]

def spoils(completions, prompts):
    for one in (*completions, *prompts):
        one.clear()
    return [1.0] * len(completions)

def huge(completions, id):
    return [1e101 if one == "r7" else 1.0 for one in id]

def leaves(completions, id):
    if "r7" in id:
        import sys
        sys.exit(0)
    return [1.0] * len(id)

def mapping(completions):
    return dict.fromkeys(range(len(completions)), 1.0)

def square(completions):
    import numpy
    return numpy.ones((len(completions), 1))

async def coroutine(completions):
    return [1.0] * len(completions)

def all_raise(completions):
    raise ConnectionError("the judge is away")

def generator(completions):
    return (float(len(one)) for one in completions)

def array(completions):
    import numpy
    return numpy.arange(len(completions), dtype="float32")
"""

TABLE = """
logs = "../runs/*"
split = [1, 0, 0]

[reward]
reward = 0.75
style = { weight = 0.25, fn = "my.py:NAME" }
"""


def records(count: int = 60) -> list[dict[str, Any]]:
    return [row | {"kind": f"k{number % 3}"} for number, row in enumerate(rows.records(count))]


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """A folder with logs, and a configuration with its functions in another."""
    for name in ("runs", "conf"):
        (tmp_path / name).mkdir()
    rows.write(tmp_path / "runs" / "log.jsonl", records())
    (tmp_path / "conf" / "my.py").write_text(FUNCTIONS)
    configure(tmp_path, "style")
    return tmp_path


def configure(folder: Path, function: str) -> None:
    (folder / "conf" / "karl.toml").write_text(TABLE.replace("NAME", function))


def drawn(folder: Path, out: str, *options: Any, config: str = "conf/karl.toml") -> dict[str, Any]:
    done = karl("sample", "--config", config, "-o", out, "-k", 20, *options, folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / out / "manifest.json").read_text("utf-8"))


def data(folder: Path, out: str) -> str:
    return (folder / out / "train.jsonl").read_text("utf-8")


def wanted(record: dict[str, Any]) -> float:
    style = len(record["messages"][1]["content"]) / 10
    return record["reward"] if record["kind"] == "k0" else 0.75 * record["reward"] + 0.25 * style


def test_a_function_has_its_share_where_it_applies(there: Path) -> None:
    by_id = {record["id"]: wanted(record) for record in records()}
    manifest = drawn(there, "data")
    for line in data(there, "data").splitlines():
        row = json.loads(line)["karl_fast"]
        assert row["reward"] == pytest.approx(by_id[row["id"]], rel=1e-14)
    reward = manifest["reward"]
    assert reward["before"]["mean"] == pytest.approx(np.mean(list(by_id.values())), rel=1e-12)
    assert reward["components"]["style"]["weight"] == 0.25
    assert reward["components"]["style"]["before"]["count"] == 40


def test_manifest_with_function_reproduces_data(there: Path) -> None:
    manifest = drawn(there, "data")
    digest = hashlib.sha256((there / "conf" / "my.py").read_bytes()).hexdigest()
    assert manifest["reward_functions"] == {"style": {"fn": "conf/my.py:style", "sha256": digest}}
    assert manifest["settings"]["reward"] == {"reward": 0.75, "style": {"fn": "conf/my.py:style", "weight": 0.25}}
    drawn(there, "again", *named_again(there), config="data/manifest.json")
    assert data(there, "again") == data(there, "data")


def named_again(folder: Path) -> list[str]:
    """What the hint says of a manifest whose function nobody named in the run."""
    done = karl("sample", "--config", "data/manifest.json", "-o", "again", folder=folder)
    assert (done.returncode, (folder / "again").exists()) == (2, False)
    return shlex.split(done.stderr.splitlines()[1].removeprefix("hint: ").removesuffix(" names it"))


def test_a_manifest_brings_no_code(there: Path) -> None:
    drawn(there, "data")
    (there / "conf" / "my.py").write_text("open('ran', 'w')\n" + FUNCTIONS)
    for command in (["inspect"], ["sample", "-o", "again"]):
        done = karl(command[0], "--config", "data/manifest.json", *command[1:], folder=there)
        assert done.returncode == 2
        said = "error: reward.style is conf/my.py:style in the manifest, and a manifest brings no code: name it again"
        assert done.stderr.splitlines()[0] == said
        assert done.stderr.splitlines()[1] == "hint: --reward reward=0.75,style=0.25:conf/my.py:style names it"
    settings = karl_fast.Settings.load(there / "data" / "manifest.json")
    with pytest.raises(UsageError, match="a manifest brings no code"):
        karl_fast.read(there / "log.jsonl", settings)
    assert not (there / "ran").exists()
    assert karl("inspect", "--config", "data/manifest.json", *named_again(there), folder=there).returncode == 0
    assert (there / "ran").exists()


def test_a_function_that_changed_since_is_told(there: Path) -> None:
    drawn(there, "data")
    (there / "conf" / "my.py").write_text(FUNCTIONS.replace("/ 10", "/ 5"))
    done = karl("sample", "--config", "data/manifest.json", *named_again(there), "-o", "again", folder=there)
    assert "warning: conf/my.py:style has changed since data/manifest.json was written" in done.stderr


@pytest.mark.parametrize("function", ["style", "asked", "place"])
def test_threads_and_shards_change_nothing(there: Path, function: str) -> None:
    configure(there, function)
    drawn(there, "one", "--threads", 1)
    drawn(there, "many", "--threads", 64)
    rows.write(there / "runs" / "log.jsonl", records()[40:])
    rows.write(there / "runs" / "a.jsonl", records()[20:40][::-1])
    rows.write(there / "runs" / "b.jsonl", records()[:20])
    shutil.move(there / "runs" / "b.jsonl", there / "runs" / "z.jsonl")
    drawn(there, "sharded")
    assert data(there, "one") == data(there, "many") == data(there, "sharded")


def test_rows_come_in_order_in_calls_of_512(there: Path) -> None:
    configure(there, "place")
    rows.write(there / "runs" / "log.jsonl", records(1200))
    log = karl_fast.read(there / "runs", Settings.load(there / "conf" / "karl.toml"))
    at = np.arange(1200) % 512 / 512
    assert np.array_equal(log.components["style"], at)
    assert np.allclose(log.rewards, 0.75 * log.components["reward"] + 0.25 * at, rtol=1e-15)
    assert np.array_equal(np.asarray(log.core.component(1)), at)


def test_windows_and_packing_change_nothing(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.load(there / "conf" / "karl.toml")
    whole = karl_fast.read(there / "runs", settings).rewards
    monkeypatch.setattr("karl_fast.log.reward_functions.WINDOW", 1000)
    assert np.array_equal(karl_fast.read(there / "runs", settings).rewards, whole, equal_nan=True)
    packed = gzip.compress((there / "runs" / "log.jsonl").read_bytes())
    (there / "runs" / "log.jsonl").unlink()
    (there / "runs" / "log.jsonl.gz").write_bytes(packed)
    assert np.array_equal(karl_fast.read(there / "runs", settings).rewards, whole, equal_nan=True)


def test_caller_columns_keep_or_replace_reward(there: Path) -> None:
    pl = pytest.importorskip("polars")
    log = karl_fast.read(there / "runs", Settings.load(there / "conf" / "karl.toml"))
    frame = pl.DataFrame(log)
    assert frame["reward"].to_list() == log.rewards.tolist()
    half = log.with_columns(frame[:30].with_columns(named=pl.lit("x")), group="named")
    assert half.rewards[:30].tolist() == log.rewards[:30].tolist()
    assert np.isnan(half.rewards[30:]).all()
    replaced = log.with_columns(frame.with_columns(mine=2.0), reward="mine")
    assert set(replaced.rewards.tolist()) == {2.0}
    assert replaced.functions is None


def test_a_signal_is_named_without_a_file(there: Path) -> None:
    more = [{"outcome": {"redo_detected": number % 2 == 0}} for number in range(60)]
    rows.write(there / "runs" / "log.jsonl", [row | one for row, one in zip(records(), more, strict=True)])
    reward = {"karl": {"fn": "karl-v2"}, "reward": 0.5}
    found = karl_fast.sample(there / "runs", None, k=20, reward=reward)
    assert found.manifest["reward_functions"] == {"karl": {"fn": "karl-v2", "sha256": None}}
    log = karl_fast.read(there / "runs", reward=reward)
    scores = {karl_fast.reward.compute_reward(one, version="v2")["reward_score"] for one in more}
    assert set(log.components["karl"].tolist()) == scores
    assert len(scores) == 2


@pytest.mark.parametrize(
    ("function", "kind", "says"),
    [
        ("nan", "nan", "it gave NaN: nan"),
        ("text", "not a number", "it gave no number: '1'"),
        ("huge", "infinite", "it gave a number beyond 1e100 in size: 1e+101"),
        ("raises", "raised", "it raised AssertionError: no r7 (my.py, line "),
        ("leaves", "raised", "it raised SystemExit: 0 (my.py, line "),
    ],
)
def test_invalid_reward_is_missing_and_named(there: Path, function: str, kind: str, says: str) -> None:
    configure(there, function)
    offset = len(rows.dumps(records()[:7]))
    done = karl("sample", "--config", "conf/karl.toml", "-o", "data", "-k", 20, folder=there)
    assert done.returncode == 0
    assert f"warning: conf/my.py:{function} leaves 1 row without a reward, the first is row " in done.stderr
    assert f"log.jsonl, byte {offset}): {says}" in done.stderr
    manifest = json.loads((there / "data" / "manifest.json").read_text("utf-8"))
    assert manifest["reward_functions"]["style"]["missing"] == {kind: 1}
    assert manifest["accounting"]["dropped"] == {"missing_reward": 1}
    again = karl("sample", "--config", "data/manifest.json", *named_again(there), "-o", "again", folder=there)
    assert "is not what it was" not in again.stderr
    assert data(there, "again") == data(there, "data")


@pytest.mark.parametrize("function", ["short", "mapping", "square", "coroutine", "all_raise"])
def test_all_rewards_missing_leaves_nothing(there: Path, function: str) -> None:
    configure(there, function)
    done = karl("sample", "--config", "conf/karl.toml", "-o", "data", "-k", 20, folder=there)
    assert done.returncode == 4
    assert f"dropped: missing reward 60; conf/my.py:{function} leaves 60 rows without a reward" in done.stderr
    assert "RuntimeWarning" not in done.stderr
    assert not (there / "data").exists()
    assert f"conf/my.py:{function} leaves 60 rows" in karl("inspect", "--config", "conf/karl.toml", folder=there).stdout


@pytest.mark.parametrize("function", ["generator", "array"])
def test_iterators_and_arrays_of_one_dimension_are_rewards(there: Path, function: str) -> None:
    configure(there, function)
    assert "missing" not in drawn(there, "data")["reward_functions"]["style"]


def test_a_function_changes_nothing_for_the_next(there: Path) -> None:
    place = str(there / "conf" / "my.py")
    alone = karl_fast.read(there / "runs", reward={"asked": {"fn": f"{place}:asked"}}).rewards
    both = {"spoils": {"fn": f"{place}:spoils"}, "asked": {"fn": f"{place}:asked"}}
    log = karl_fast.read(there / "runs", reward=both)
    assert log.components["asked"].tolist() == alone.tolist()
    assert not log.unrewarded


@pytest.mark.parametrize("command", ["sample", "inspect"])
def test_missing_function_ends_the_run(there: Path, command: str) -> None:
    out = ["-o", "data", "-k", 20] if command == "sample" else []
    configure(there, "gone")
    done = karl(command, "--config", "conf/karl.toml", *out, folder=there)
    assert (done.returncode, "my.py" in done.stderr, "has no function gone" in done.stderr) == (1, True, True)
    assert not (there / "data").exists()


@pytest.mark.parametrize("weight", [1e300, -1e300, 1e99])
@pytest.mark.parametrize("packed", [False, True])
def test_a_weighted_sum_beyond_the_range_is_missing(there: Path, weight: float, packed: bool) -> None:
    folder = there / "runs"
    rows.write(folder / "log.jsonl", [*records(), records()[0] | {"id": "huge", "reward": 1e60}])
    more = ["--sampler", "weighted-reservoir", "--inverse-temperature", "1e-99"] if packed else []
    found = karl("sample", "runs", "-o", "data", "-k", 5, "--reward", f"reward={weight}", *more, folder=there)
    dropped = json.loads((there / "data" / "manifest.json").read_text("utf-8"))["accounting"]["dropped"]
    huge = sum(abs(one["reward"] * weight) > 1e100 for one in records()) + 1
    assert (found.returncode, dropped) == (0, {"missing_reward": huge})


def test_record_without_conversation_is_empty_answer(there: Path) -> None:
    rows.write(there / "runs" / "log.jsonl", [*records(), {"id": "x", "group": "g", "reward": 1.0, "kind": "k1"}])
    log = karl_fast.read(there / "runs", Settings.load(there / "conf" / "karl.toml"))
    assert np.count_nonzero(log.components["style"] == 0.0) == 1


@pytest.mark.parametrize(
    "reward",
    [
        {"style": {"weight": 0.5}},
        {"style": {"fn": "my.py:style", "name": "x"}},
        {"style": {"fn": "my.py:style", "weight": "1"}},
        {"style": {"fn": "my.py:style", "weight": 0.0}},
        {"style": {"fn": "my.py:style"}, "reward": 0.0},
    ],
)
def test_a_table_that_means_nothing_is_refused(reward: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"reward|weight"):
        Settings.from_dict({"reward": reward})
    with pytest.raises(UsageError, match=r"reward|weight"):
        Settings(reward=reward)


def test_settings_with_a_function_are_written_and_read(there: Path) -> None:
    settings = Settings.load(there / "conf" / "karl.toml")
    (there / "kept").mkdir()
    (there / "kept" / "karl.toml").write_text(settings.to_toml(there / "kept"))
    again = Settings.load(there / "kept" / "karl.toml")
    reward = again.reward or {}
    assert reward["style"] == {"fn": f"{there}/kept/../conf/my.py:style", "weight": 0.25}
    assert Settings.from_dict(settings.to_dict()) == settings


def test_another_function_wants_another_reading(there: Path) -> None:
    log = karl_fast.read(there / "runs", Settings.load(there / "conf" / "karl.toml"))
    with pytest.raises(UsageError, match="read it again"):
        karl_fast.sample(log, None, k=2, reward={"style": {"fn": "karl-v2"}})
    with pytest.raises(RewardError, match="there is no file"):
        karl_fast.read(there / "runs", reward={"style": {"fn": "gone.py:style"}})


LEAVES = """
import os
{at_once}

def one(completions):
    os.makedirs("{elsewhere}", exist_ok=True)
    os.chdir("{elsewhere}")
    return [1.0] * len(completions)
"""


@pytest.mark.parametrize("at_once", ["", "os.makedirs('elsewhere', exist_ok=True); os.chdir('elsewhere')"])
@pytest.mark.parametrize("out", ["data", "new/data"])
def test_function_may_change_directory(tmp_path: Path, at_once: str, out: str) -> None:
    (tmp_path / "logs").mkdir()
    rows.write(tmp_path / "logs" / "log.jsonl", rows.records(20))
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text(LEAVES.format(at_once=at_once, elsewhere=tmp_path / "elsewhere"))
    (tmp_path / "karl.toml").write_text(
        "[reward]\n" + "".join(f'{name} = {{ weight = 1, fn = "{name}.py:one" }}\n' for name in ("first", "second"))
    )
    reward = ("--config", "karl.toml")
    done = karl("sample", "logs", *reward, "-o", out, "-k", 5, "--as", "raw", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(rows.lines(tmp_path / out)) == 5
    manifest = json.loads((tmp_path / out / "manifest.json").read_text("utf-8"))
    assert manifest["inputs"][0]["path"] == "logs/log.jsonl"
    again = karl("sample", "logs", *reward, "-o", out, "-k", 5, "--force", folder=tmp_path)
    assert again.returncode == 0, again.stderr
    assert list((tmp_path / "elsewhere").iterdir()) == []
