"""Each exception is the standard one that it is a case of, and survives a trip to another process."""

from __future__ import annotations

import inspect
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karl_fast
from karl_fast import errors
from tests import rows

if TYPE_CHECKING:
    from pathlib import Path

ALL = [thing for _, thing in inspect.getmembers(errors, inspect.isclass) if issubclass(thing, Exception)]

STANDARD = {
    "UsageError": ValueError,
    "IncoherentObjectiveError": ValueError,
    "ArgumentError": ValueError,
    "DTypeError": TypeError,
    "LayoutError": ValueError,
    "LogError": ValueError,
    "LogChangedError": ValueError,
    "PackedError": ValueError,
    "EncodingError": ValueError,
    "TranscriptError": ValueError,
    "FileError": OSError,
    "DataSetError": ValueError,
    "AlreadyConvertedError": ValueError,
    "BadRewardError": ValueError,
    "BadRowError": ValueError,
    "ByNameError": ValueError,
    "RewardError": ValueError,
    "NothingToSampleError": ValueError,
    "OutputExistsError": FileExistsError,
    "OutputForeignError": FileExistsError,
    "OutputTakenError": FileExistsError,
    "OverlapError": ValueError,
    "MissingExtraError": ImportError,
    "ModelError": ValueError,
    "TemplateError": ValueError,
    "NothingToTrainError": ValueError,
    "CheckpointError": ValueError,
    "ColumnError": ValueError,
    "DivergedError": ArithmeticError,
    "AlarmError": ArithmeticError,
    "RunFailedError": ChildProcessError,
    "WorkersLostError": RuntimeError,
}

CODES = {
    "UsageError": 2,
    "IncoherentObjectiveError": 2,
    "BadRowError": 3,
    "NothingToSampleError": 4,
    "OutputExistsError": 5,
    "OutputForeignError": 5,
    "OutputTakenError": 5,
    "NothingToTrainError": 4,
}


def test_every_exception_is_in_the_table() -> None:
    assert {error.__name__ for error in ALL} == {"KarlError", *STANDARD}


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.__name__)
def test_exceptions_are_karl_errors_and_standard_ones(error: type[Exception]) -> None:
    assert issubclass(error, errors.KarlError)
    assert issubclass(error, STANDARD.get(error.__name__, Exception))
    assert error.exit_code == CODES.get(error.__name__, 1)  # type: ignore[attr-defined]


MORE = {errors.FileError: (2, "log.jsonl"), errors.EncodingError: ("UTF-16LE",), errors.PackedError: ("tar",)}
"""What some are made of besides their message."""


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.__name__)
def test_an_exception_survives_pickling(error: type[Exception]) -> None:
    made = error("what, where", *MORE.get(error, ()))
    back = pickle.loads(pickle.dumps(made))
    assert type(back) is error
    assert str(back) == str(made) == "what, where"
    assert vars(back) == vars(made)


def test_an_exception_of_the_core_survives_pickling(tmp_path: Path) -> None:
    with pytest.raises(errors.FileError) as caught:
        karl_fast.read(tmp_path / "nowhere.jsonl")
    back = pickle.loads(pickle.dumps(caught.value))
    assert (back.errno, back.filename) == (2, str(tmp_path / "nowhere.jsonl"))
    assert str(back) == str(caught.value)


def test_messages_have_place_and_no_full_stop() -> None:
    with pytest.raises(errors.UsageError, match=r"^k is 0, wanted a whole number from 1 on and below 2\*\*32$"):
        karl_fast.Settings(k=0)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"k": "3"}, "k is '3', wanted a whole number from 1 on and below 2**32"),
        ({"k": True}, "k is True, wanted a whole number from 1 on and below 2**32"),
        ({"k": 3.0}, "k is 3.0, wanted a whole number from 1 on and below 2**32"),
        ({"ess": "0.5"}, "ess is '0.5', wanted a number above 0 and up to 1"),
        ({"eps": None}, "eps is None, wanted a finite number from 0 on"),
        ({"seed": None}, "seed is None, wanted a whole number from 0 on and below 2**64"),
        ({"ess": np.float32(0.5)}, "ess is np.float32(0.5), wanted a number above 0 and up to 1"),
        ({"dedup": np.bool_(True)}, "dedup is np.True_, wanted true or false"),
        ({"ddof": 1.0}, "ddof is 1.0, wanted 0 (population) or 1 (sample)"),
        ({"dedup": "no"}, "dedup is 'no', wanted true or false"),
        ({"split": "0.8,0.1,0.1"}, "split is '0.8,0.1,0.1', wanted three shares, like (0.8, 0.1, 0.1)"),
        ({"scor": "zscore"}, "there is no setting scor"),
    ],
)
def test_a_setting_of_a_wrong_type_is_told(choice: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.UsageError) as raised:
        karl_fast.sample("log.jsonl", None, **choice)
    assert str(raised.value) == said
    assert raised.value.hint == ("did you mean score?" if "scor" in choice else None)


def test_what_a_manifest_can_hold_is_taken(tmp_path: Path) -> None:
    rows.write(tmp_path / "log.jsonl", rows.records(12))
    done = karl_fast.sample(
        tmp_path / "log.jsonl", tmp_path / "out", k=3, ess=np.float64(0.5), min_reward=-1, split=[1, 0, 0], ddof=1
    )
    assert done.manifest["draw"]["rows"] == 3


@pytest.mark.parametrize("log", [None, 3, [{"id": 1}], "", b"x"])
def test_what_is_no_path_is_no_log(log: Any, tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match="wanted a path, a folder, a glob or -"):
        karl_fast.sample(log, None, k=1)
    with pytest.raises(errors.UsageError, match="wanted a path, a folder, a glob or -"):
        karl_fast.convert(log, tmp_path / "out.jsonl")
