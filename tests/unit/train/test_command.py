"""`karl-fast train` and `karl-fast eval` as a person runs them: what comes out, what goes wrong, what stays whole."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from karl_fast.entrypoint import STOPS
from tests import rows
from tests.cli.run import COMMAND, ended_while_reporting
from tests.slow import nightly
from tests.unit.modeling import parts
from tests.unit.train.conftest import quiet, ran
from tests.unit.train.test_mlx_lm_defects import chat, write

if TYPE_CHECKING:
    from pathlib import Path

FLAGS = ("--iters", 6, "--max-seq-length", 96, "--learning-rate", "1e-3", "--steps-per-report", 2, "--save-every", 3)


def karl(*words: Any, cwd: Path | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return ran(list(map(str, words)), cwd, variables=(env or quiet()) | {"COLUMNS": "100", "TERM": "dumb"})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    records = [record | {"domain": f"d{n % 3}"} for n, record in enumerate(rows.records(60, groups=20))]
    log = rows.write(folder / "log.jsonl", records)
    karl_fast.sample(log, folder / "data", k=60, inverse_temperature=0.0, split=(0.6, 0.2, 0.2))
    return folder / "data"


@pytest.fixture(scope="module")
def adapter(data: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("run") / "adapter"
    done = karl("train", data, "--model", tiny_model, "--adapter-path", place, *FLAGS)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    for said in ("rows, ", "memory    about", "held-out loss", "loss ", "grad norm", "tokens/s", "peak", "written"):
        assert said in done.stderr, said
    assert "\n          " in done.stderr
    assert all(len(line) <= 80 for line in done.stderr.splitlines() if not line.startswith("written"))
    return place


def test_run_is_repeated_from_its_files(adapter: Path, tmp_path: Path) -> None:
    done = karl("train", "--config", adapter, "--adapter-path", tmp_path)
    assert done.returncode == 0, done.stderr
    name = "adapters.safetensors"
    assert (tmp_path / name).read_bytes() == (adapter / name).read_bytes()
    assert tomllib.loads((tmp_path / "train.toml").read_text("utf-8"))["train"]["max_seq_length"] == 96


def test_continued_run_is_repeated_from_its_files(adapter: Path, tmp_path: Path) -> None:
    begun, name = tmp_path / "begun", "adapters.safetensors"
    weights = ("--resume-adapter-file", adapter / name, "--iters", 3)
    done = karl("train", "--config", adapter, "--adapter-path", begun, *weights)
    assert done.returncode == 0, done.stderr
    file = tomllib.loads((begun / "train.toml").read_text("utf-8"))["train"]["resume_adapter_file"]
    assert (begun / file).resolve() == (adapter / name).resolve()
    again = karl("train", "--config", begun, "--adapter-path", tmp_path / "again")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "again" / name).read_bytes() == (begun / name).read_bytes() != (adapter / name).read_bytes()
    on = karl("train", "--config", adapter, "--adapter-path", begun, "--iters", 6, "--resume")
    assert on.returncode == 0, on.stderr
    assert tomllib.loads((begun / "train.toml").read_text("utf-8"))["train"]["resume_adapter_file"] == file
    other = ("--resume-adapter-file", begun / name)
    refused = karl("train", "--config", adapter, "--adapter-path", begun, "--iters", 9, "--resume", *other)
    assert refused.returncode == 1
    assert f"its resume_adapter_file was {file}, and is {name}" in refused.stderr


@pytest.mark.parametrize("fine_tune_type", nightly(["lora", "dora", "full"]))
def test_mlx_lm_generates_and_fuses_the_adapter(
    data: Path, any_model: Path, tmp_path: Path, fine_tune_type: str
) -> None:
    if "4bit" in any_model.name and fine_tune_type != "lora":
        pytest.skip("one quantized kind is enough")
    where, flags = tmp_path / "adapter", ("--fine-tune-type", fine_tune_type)
    done = karl("train", data, "--model", any_model, "--adapter-path", where, *FLAGS, *flags)
    assert done.returncode == 0, done.stderr
    if fine_tune_type != "full":
        assert len(parts.tensors(where / "adapters.safetensors")) == {"lora": 28, "dora": 42}[fine_tune_type]
    code = (
        "import sys, mlx.core as mx, mlx_lm\n"
        "model, adapter = sys.argv[1:]\n"
        "tokens = mx.array([[5, 6, 7, 8]])\n"
        "base = mlx_lm.load(model)[0](tokens)\n"
        "tuned, tokenizer = mlx_lm.load(model, adapter_path=adapter)\n"
        "assert not mx.allclose(base, tuned(tokens), atol=1e-3)\n"
        "mlx_lm.generate(tuned, tokenizer, 'question 3', max_tokens=3)\n"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code, any_model, where], env=quiet(), capture_output=True, text=True, check=False
    )
    assert loaded.returncode == 0, loaded.stderr


def test_quantized_layers_cannot_be_trained_whole(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    from tests.unit.train.conftest import made

    model = made(tmp_path / "q", "--bits", 4)
    done = karl("train", data, "--model", model, "--adapter-path", tmp_path / "a", "--fine-tune-type", "full")
    assert done.returncode == 2
    assert done.stderr == "error: --fine-tune-type full cannot train quantized layers: take lora or dora\n"


def test_the_report_as_json(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    done = karl("train", data, "--model", tiny_model, "--adapter-path", tmp_path / "a", *FLAGS, "--json", "-q")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert found["steps"] == [6, 6]
    assert found["rows"]["train"]["rows"] == len((data / "train.jsonl").read_text("utf-8").splitlines())


def test_eval_tells_an_adapter_from_its_base(data: Path, adapter: Path, tiny_model: Path) -> None:
    flags = ("--max-seq-length", 96, "--by", "karl_fast.domain", "--against", "base")
    done = karl("eval", data, "--model", tiny_model, "--adapter-path", adapter, *flags, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["whole"]["loss"] < found["whole"]["against"]
    one = found["difference"]
    assert one["low"] <= one["value"] <= one["high"] < 0
    assert one["value"] == pytest.approx(found["whole"]["loss"] - found["whole"]["against"], abs=1e-9)
    assert sum(part["tokens"] for part in found["by"].values()) == found["whole"]["tokens"]
    rows = map(json.loads, (data / "test.jsonl").read_text("utf-8").splitlines())
    assert set(found["by"]) == {row["karl_fast"]["domain"] for row in rows}
    again = karl("eval", data, "--model", tiny_model, "--adapter-path", adapter, *flags)
    assert ": better" in " ".join(again.stdout.split())
    same = karl("eval", data, "--model", tiny_model, "--adapter-path", adapter, "--against", adapter)
    assert "by +0.0000 nats a token (95% from +0.0000 to +0.0000" in same.stdout
    assert all(len(line) <= 80 for line in (again.stdout + same.stdout).splitlines())


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["{data}", "--model", "{tmp}/nothing"], 1, "cannot load a model from"),
        (["{data}", "--model", "./nodir"], 1, "cannot load a model from ./nodir: no such folder"),
        (["{data}", "--model", "~/nodir"], 1, "cannot load a model from ~/nodir: no such folder"),
        (["{data}", "--model", "{data}/train.jsonl"], 1, "train.jsonl: it is a file, wanted the folder of a model"),
        (["{data}", "--model", "{tmp}"], 1, "it has no config.json"),
        (
            ["{data}", "--model", "no modle"],
            1,
            "there is no such folder, and the Hugging Face hub has none of that name",
        ),
        (["{tmp}/nothing", "--model", "{model}"], 1, "no such folder"),
        (["{data}/train.jsonl", "--model", "{model}"], 1, "train.jsonl is a file, wanted a folder with train.jsonl"),
        (["{turns}", "--model", "{model}"], 4, "learn from: bad template 1; the rows hold id, turns"),
        (["{tmp}", "--model", "{model}"], 1, "it has no train.jsonl, valid.jsonl or test.jsonl"),
        (["{empty}", "--model", "{model}"], 4, "has no rows"),
        (["{damaged}", "--model", "{model}"], 1, "train.jsonl, line 2: the row is not JSON"),
        (["{long}", "--model", "{model}", "--overlong", "error", "--max-seq-length", "32"], 4, "row 1 has"),
        (["{data}", "--model", "{model}", "--num-layers", "9"], 2, "--num-layers is 9, and the model has 2"),
        (
            ["{data}", "--model", "{model}", "--lora-keys", "mlp.nothing"],
            2,
            "--lora-keys names a layer that no block has: mlp.nothing",
        ),
        (["{data}", "--model", "{model}", "--memory-limit", "0.0001"], 2, "needs about"),
        (["{data}", "--model", "{model}", "--recipe", "boltzmann"], 2, "they would count twice"),
        (["{data}", "--model", "{model}", "--max-seq-length", "1"], 2, "--max-seq-length is 1, wanted a whole number"),
        (["{data}", "--model", "{model}", "--iters", "0"], 2, "--iters is 0, wanted a whole number from 1 on"),
        (
            ["{data}", "--model", "{model}", "--report-to", "wandb"],
            1,
            "--report-to wandb needs wandb, which is not installed",
        ),
        (["{data}", "--model", "{model}", "--resume-adapter-file", "{tmp}/x.safetensors"], 1, "there is no such file"),
        (["{data}"], 2, "no model given"),
        (["--model", "{model}"], 2, "no data set given"),
        (["{data}", "--model", "{model}", "--config", "{tmp}/no.toml"], 1, "no.toml: no such file or folder"),
    ],
)
def test_what_goes_wrong_is_one_sentence(
    words: list[str], code: int, said: str, data: Path, tiny_model: Path, tmp_path: Path
) -> None:
    pytest.importorskip("mlx_lm")
    if "wandb" in words:
        pytest.skip("wandb is there") if __import__("importlib").util.find_spec("wandb") else None
    places = {"data": data, "model": tiny_model, "tmp": tmp_path / "tmp", "empty": tmp_path / "empty"}
    (tmp_path / "tmp").mkdir()
    places["long"] = write(tmp_path / "long", [chat("long " * 100, "a")])
    write(places["empty"], [])
    places["turns"] = write(tmp_path / "turns", [{"id": 1, "turns": []}])
    places["damaged"] = write(tmp_path / "damaged", [chat("q", "a")])
    with (places["damaged"] / "train.jsonl").open("a") as file:
        file.write("{nothing\n")
    done = karl("train", *[word.format(**places) for word in words], "--adapter-path", tmp_path / "a")
    assert done.returncode == code, done.stderr
    [error, *hint] = done.stderr.splitlines()
    assert error.startswith("error: ")
    assert said in error
    assert len(hint) <= 1
    assert not (tmp_path / "a" / "adapters.safetensors").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train {data} --model m --adapter-path=", "--adapter-path is empty, wanted a path"),
        ("train {data} --model m --resume-adapter-file=", "--resume-adapter-file is empty, wanted a path"),
        ("train {data} --model m --config=", "--config is empty, wanted a file of settings"),
        ("train {data} --config {toml}", "adapter_path is empty, wanted a path"),
        ("train {data} --model=", "no model given"),
        ("eval {data} --model=", "--model is empty, wanted a path"),
        ("eval {data} --model m --adapter-path=", "--adapter-path is empty, wanted a path"),
        ("eval {data} --model m --against=", "--against is empty, wanted a path"),
    ],
)
def test_an_empty_path_is_none(words: str, said: str, data: Path, tmp_path: Path) -> None:
    pytest.importorskip("mlx_lm")
    (tmp_path / "train.toml").write_text('[train]\nmodel = "m"\nadapter_path = ""\n', "utf-8")
    given = words.format(data=data, toml=tmp_path / "train.toml").split()
    done = karl(*given, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["train.toml"]


@pytest.mark.parametrize("command", ["train", "eval"])
def test_an_empty_name_is_no_data_set(command: str, data: Path) -> None:
    pytest.importorskip("mlx_lm")
    done = karl(command, "", "--model", "m", cwd=data)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(("error: no data set given", "error: DATA is empty, wanted a path"))


def test_an_adapter_is_not_replaced_unasked(data: Path, adapter: Path, tiny_model: Path) -> None:
    before = (adapter / "adapters.safetensors").read_bytes()
    done = karl("train", data, "--model", tiny_model, "--adapter-path", adapter, *FLAGS)
    assert done.returncode == 5
    assert "has an adapter already" in done.stderr
    assert "--resume" in done.stderr
    assert (adapter / "adapters.safetensors").read_bytes() == before


def test_a_field_that_no_row_has_is_named(data: Path, tiny_model: Path) -> None:
    done = karl("eval", data, "--model", tiny_model, "--by", "nothing.there")
    assert done.returncode == 2
    assert "--by is nothing.there, a field that no row of" in done.stderr
    assert done.stdout == ""


def test_missing_adapter_does_not_blame_the_model(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    done = karl("eval", data, "--model", tiny_model, "--adapter-path", tmp_path / "none")
    assert done.returncode == 1
    assert f"cannot load an adapter from {tmp_path / 'none'}: no such folder" in done.stderr
    assert "hint: --adapter-path takes" in done.stderr


def test_empty_adapter_folder_does_not_blame_the_model(data: Path, tiny_model: Path) -> None:
    done = karl("eval", data, "--model", tiny_model, "--adapter-path", data)
    assert f"cannot load an adapter from {data}: it has no adapters.safetensors" in done.stderr
    assert "hint: --adapter-path takes" in done.stderr


def test_an_empty_split_is_named(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "data")
    (tmp_path / "data" / "test.jsonl").write_text("")
    done = karl("eval", tmp_path / "data", "--model", tiny_model)
    assert done.returncode == 4
    assert "test.jsonl has no rows to judge by" in done.stderr
    assert "--split valid has" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_a_full_disk_leaves_the_last_checkpoint(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    """The second checkpoint does not fit: files may have no more bytes than the first run's."""
    where = tmp_path / "adapter"
    assert karl("train", data, "--model", tiny_model, "--adapter-path", where, *FLAGS[2:], "--iters", 3).returncode == 0
    before = {path: path.read_bytes() for path in where.rglob("*.safetensors")}

    def small() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    flags = (*FLAGS[2:], "--iters", 6, "--resume")
    words = [*COMMAND, "train", data, "--model", tiny_model, "--adapter-path", where, *map(str, flags)]
    done = subprocess.run(words, env=quiet(), capture_output=True, text=True, check=False, preexec_fn=small)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: cannot write ")
    assert {path: path.read_bytes() for path in where.rglob("*.safetensors")} == before
    assert not list(where.rglob(".unfinished-*"))
    again = karl("train", data, "--model", tiny_model, "--adapter-path", where, *flags)
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_signal_keeps_and_reports_the_last_checkpoint(
    data: Path, tiny_model: Path, tmp_path: Path, stop: signal.Signals
) -> None:
    where = tmp_path / "adapter"
    words = ["train", data, "--model", tiny_model, "--adapter-path", where, "--iters", 5000, "--save-every", 2]
    process = subprocess.Popen([*COMMAND, *map(str, words)], env=quiet(), stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not (where / "adapters.safetensors").is_file() and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(stop)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + stop
    assert "Traceback" not in said
    newest = max(int(place.name) for place in (where / "checkpoints").iterdir())
    found = re.fullmatch(rf"{STOPS[stop]} at step (\d+); --resume goes on from step (\d+)", said.splitlines()[-1])
    assert found
    assert int(found[2]) == newest <= int(found[1])
    tensors = parts.tensors(where / "adapters.safetensors")
    assert tensors
    assert all(np.isfinite(tensor).all() for tensor in tensors.values())
    assert not list(where.rglob(".unfinished-*"))


def test_signal_after_training_reports_the_adapter(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    words = (data, "--model", tiny_model, "--adapter-path", tmp_path / "adapter", *FLAGS, "-q")
    command = [*ended_while_reporting("train"), *map(str, words)]
    done = subprocess.run(command, env=quiet(), capture_output=True, text=True, check=False, timeout=180)
    assert (done.returncode, done.stderr) == (143, f"terminated; {tmp_path / 'adapter'} is written\n")
    assert (tmp_path / "adapter" / "adapters.safetensors").is_file()


def test_starting_up_loads_no_mlx(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['karl-fast', 'train', '--help']\n"
        "from karl_fast.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert {'mlx', 'mlx_lm', 'transformers', 'numpy'}.isdisjoint(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
