"""What lies in a folder beside the logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import karl_fast
from karl_fast import errors
from tests import rows
from tests.cli.run import karl


def test_a_folder_skips_and_names_recordless_files(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", rows.records(20))
    (tmp_path / "config.json").write_text(json.dumps({"lr": 1e-5, "name": "run"}, indent=1))
    report = karl_fast.inspect(tmp_path).report
    assert report["accounting"]["rows_read"] == 20
    assert [skipped["path"] for skipped in report["run"]["skipped"]] == [str(tmp_path / "config.json")]


def test_a_recordless_file_by_name_is_an_error(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"lr": 1e-5, "name": "run"}, indent=1))
    with pytest.raises(errors.LogError, match="neither is a record nor holds"):
        karl_fast.inspect(config)


def test_a_data_set_of_ours_is_no_log(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", rows.records(40))
    karl_fast.sample(tmp_path, tmp_path / "data", k=20, shape="raw")
    assert karl_fast.inspect(tmp_path).report["accounting"]["rows_read"] == 40


def test_a_folder_skips_and_names_parquet(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", rows.records(20))
    (tmp_path / "a").mkdir()
    for name in ("a/x.parquet", "y.parquet"):
        (tmp_path / name).touch()
    parquet = karl_fast.read(tmp_path).passed
    assert sorted(parquet) == [str(tmp_path / "a/x.parquet"), str(tmp_path / "y.parquet")]
    for how in (("sample", "-k", 3, "--dry-run"), ("inspect",)):
        done = karl(*how, ".", folder=tmp_path)
        assert done.returncode == 0
        told = (
            "warning: 2 Parquet files of folders were passed over: Parquet is read where it is named, as by ./*.parquet"
        )
        assert told in " ".join((done.stdout + done.stderr).split())
    (tmp_path / "y.parquet").unlink()
    told = "warning: 1 Parquet file of a folder was passed over: Parquet is read where it is named, as by a/*.parquet"
    assert told in " ".join(karl("inspect", ".", folder=tmp_path).stdout.split())


def test_parquet_named_too_is_read(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", rows.records(20))
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(rows.records(20)), tmp_path / "x.parquet")
    assert karl_fast.read([tmp_path, tmp_path / "*.parquet"]).passed == []


def test_a_file_name_outside_utf8_is_escaped(tmp_path: Path) -> None:
    name = (bytes(tmp_path) + b"/log\xff.jsonl").decode("utf-8", "surrogateescape")
    try:
        Path(name).write_text(rows.dumps(rows.records(10)))
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    report = karl_fast.inspect(tmp_path).report
    assert report["inputs"][0]["path"].endswith("log\\xff.jsonl")


def test_one_odd_first_record_hides_no_format(tmp_path: Path) -> None:
    def result(task: int, trial: int) -> dict[str, object]:
        turns = rows.record(task)["messages"]
        return {"task_id": task, "trial": trial, "reward": 1.0, "traj": turns}

    odd = {key: value for key, value in result(99, 0).items() if key != "trial"}
    for made in ([odd, *(result(task, 0) for task in range(9))], [*(result(task, 0) for task in range(9)), odd]):
        for text in (rows.dumps(made), json.dumps(made)):
            log = tmp_path / "log.json"
            log.write_text(text)
            assert karl_fast.inspect(log).report["inputs"][0]["format"] == "tau-bench"


def test_records_before_a_torn_array_are_kept(tmp_path: Path) -> None:
    for indent in (None, 1):
        text = json.dumps({"run": 7, "results": rows.records(50)}, indent=indent)
        log = tmp_path / "log.json"
        log.write_text(text[:-30])
        account = karl_fast.inspect(log).report["accounting"]
        assert (account["rows_kept"], account["dropped"]) == (49, {"torn": 1})


def test_hidden_files_and_broken_links_are_skipped(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    log = rows.write(rows_folder(folder) / "log.jsonl", rows.records(20))
    hidden = {".x.jsonl", "._log.jsonl", ".cache/y.jsonl", "sub/.z.jsonl"}
    for name in hidden:
        rows.write(rows_folder((folder / name).parent) / Path(name).name, rows.records(5))
    (folder / ".#log.jsonl").symlink_to("me@host.123:456")
    (folder / "gone.jsonl").symlink_to("nowhere.jsonl")
    (folder / "log.jsonl~").write_text("backup")
    run = karl_fast.inspect(folder).report
    assert run["accounting"]["rows_read"] == 20
    told = {str(Path(one["path"]).relative_to(folder)): one["reason"] for one in run["run"]["skipped"]}
    assert told.keys() == {*hidden, ".#log.jsonl", "gone.jsonl"}
    assert told["gone.jsonl"] == "it is a link to what is not there"
    account = karl_fast.convert(folder, tmp_path / "out.jsonl")
    assert {str(Path(path).relative_to(folder)) for path, _ in account.skipped} == told.keys()
    assert karl_fast.inspect([folder, folder / ".x.jsonl"]).report["accounting"]["rows_read"] == 25
    with pytest.raises(errors.FileError, match=r"cannot open .*gone.jsonl: it is a link to what is not there"):
        karl_fast.inspect(folder / "gone.jsonl")
    log.unlink()
    with pytest.raises(errors.UsageError, match="holds no file that ends in") as refused:
        karl_fast.inspect(folder)
    assert "begins with a dot" in str(refused.value.hint)


def rows_folder(folder: Path) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    return folder
