"""One declaration of a setting, and everything that is derived from it."""

from __future__ import annotations

import inspect
import os
import re
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

import karl_fast
from karl_fast.cli import options
from karl_fast.errors import UsageError
from karl_fast.rl.settings import Online
from karl_fast.settings import sample_fields
from karl_fast.settings.reference import page
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import SampleKeywords, show_keywords
from karl_fast.settings.schema import Range, build, check_keys, schema, setting
from karl_fast.settings.toml import SettingsFile, parse_toml
from karl_fast.train.settings import Training

CLASSES = (Settings, Training, Online)
HELP = "Zeal of the run."


@dataclass(frozen=True)
class MoreSettings(Settings):
    zeal: int = setting(3, "Run", HELP, bounds=Range(low=1, below=9))


@dataclass(frozen=True)
class MoreTraining(Training):
    zeal: int = setting(3, "Run", HELP, bounds=Range(low=1, below=9))


@dataclass(frozen=True)
class MoreOnline(Online):
    zeal: int = setting(3, "Run", HELP, bounds=Range(low=1, below=9))


def command(kind: type) -> Any:
    """A command with the settings of a class; its result are the settings and its standard output."""
    app, seen = typer.Typer(), list[Any]()

    def load(path: str, name: str) -> SettingsFile:
        return SettingsFile(path, check_keys(kind, parse_toml(Path(path).read_text())))

    @app.command()
    @options.add_settings(kind, load, "A file.")
    def run(*, settings: Any, config: Any) -> None:
        seen.append(settings)

    def call(*words: str, **env: str) -> tuple[Any, str]:
        done = CliRunner().invoke(app, words, env=env | {"COLUMNS": "200"}, standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return (seen.pop() if seen else None), done.stdout

    return call


@pytest.mark.parametrize("kind", [MoreSettings, MoreTraining, MoreOnline])
def test_new_setting_appears_everywhere(kind: Any, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("zeal = 4\n")
    file, call = ("--config", str(tmp_path / "a.toml")), command(kind)
    assert call()[0].zeal == 3
    assert call(*file)[0].zeal == 4
    assert call(*file, KARL_FAST_ZEAL="5")[0].zeal == 5
    assert call(*file, "--zeal", "6", KARL_FAST_ZEAL="5")[0].zeal == 6
    assert re.search(rf"--zeal +<int> +{HELP} +\[default: 3\]", call("--help")[1])
    row = f"| `--zeal` | a whole number from 1 on and below 9 | `3` | {HELP} |"
    assert row in page(kind)
    assert build(kind, {"zeal": 7}).zeal == 7
    with pytest.raises(UsageError, match="zeal is 9, wanted a whole number from 1 on and below 9"):
        kind(zeal=9)
    with pytest.raises(UsageError, match="KARL_FAST_ZEAL: zeal is 0"):
        call(KARL_FAST_ZEAL="0")
    with pytest.raises(UsageError, match="zeal is 'x', wanted a whole number from 1 on and below 9"):
        check_keys(kind, {"zeal": "x"})
    function = show_keywords(kind)(lambda **_: None)
    assert inspect.signature(function).parameters["zeal"].default == 3


@pytest.mark.parametrize("kind", CLASSES)
def test_every_field_is_declared_with_help_and_group(kind: type) -> None:
    assert {one.part or name for name, one in schema(kind).items()} == {one.name for one in fields(kind)} - {"origins"}
    assert all(one.help.endswith((".", "]")) for one in schema(kind).values())
    assert all(one.group for one in schema(kind).values())
    flags = [one.flag for one in schema(kind).values()]
    assert len({*flags}) == len(flags)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in CLASSES for name, one in schema(kind).items() if one.kind in (int, float)],
)
def test_number_out_of_bounds_is_refused(kind: Any, name: str) -> None:
    one = schema(kind)[name]
    low, high, above, below, also, _ = one.bounds
    beyond = [low - 1 if low is not None else above, high + 1 if high is not None else below, float("nan"), "x", True]
    for value in (number for number in beyond if number is not None and number != also):
        with pytest.raises(UsageError) as raised:
            build(kind, {name: value})
        assert str(raised.value) == f"{name} is {value!r}, wanted {one.wanted}"
        assert raised.value.settings == (name,)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (Range(), "a finite number"),
        (Range(low=0), "a finite number from 0 on"),
        (Range(above=0, high=1), "a number above 0 and up to 1"),
        (Range(low=0, below=1 << 64), "a number from 0 on and below 2**64"),
        (Range(low=1, also=-1), "a finite number from 1 on, or -1 for all"),
        (Range(high=1, words="a share"), "a share"),
    ],
)
def test_bounds_are_described_in_words(bounds: Range, words: str) -> None:
    assert bounds.of(float) == words


def test_bounds_include_their_edges() -> None:
    inside = {Range(low=1): 1, Range(high=1): 1, Range(low=1, also=-1): -1}
    outside = {Range(above=1): 1, Range(below=1): 1, Range(): float("inf"), Range(low=1, also=-1): 0}
    assert all(bounds.hold(value) for bounds, value in inside.items())
    assert not any(bounds.hold(value) for bounds, value in outside.items())


def test_the_page_has_every_setting_once() -> None:
    for kind in CLASSES:
        rows = re.findall(r"^\| `(\S+)` \|", page(kind), re.MULTILINE)
        assert sorted(rows) == sorted(one.flag for one in schema(kind).values())


def test_key_and_variable_follow_from_the_option_as_the_page_says() -> None:
    for entry in (one for kind in CLASSES for one in schema(kind).values()):
        name = entry.flag.removeprefix("--").removeprefix("-").replace("-", "_")
        assert entry.variable == f"KARL_FAST_{name.upper()}"
        assert entry.key.replace(".", "_") == name


def test_keywords_of_editors_are_those_of_the_settings() -> None:
    """`KARL_FAST_UPDATE=1` writes them anew."""
    source, declared = Path(sample_fields.__file__), [one for one in fields(Settings) if one.name in schema(Settings)]
    lines = "".join(f"    {one.name}: {one.type}\n" for one in declared)
    if os.environ.get("KARL_FAST_UPDATE"):
        head, _, tail = source.read_text("utf-8").partition('by name."""\n\n')
        source.write_text(f'{head}by name."""\n\n{lines}{tail[tail.index(chr(10) * 2) + 1 :]}', "utf-8")
    assert f'by name."""\n\n{lines}\n\n' in source.read_text("utf-8")
    assert get_type_hints(SampleKeywords) == {name: one.annotation for name, one in schema(Settings).items()}


@pytest.mark.parametrize("function", [karl_fast.sample, karl_fast.inspect, karl_fast.read])
def test_signatures_name_every_setting(function: Any) -> None:
    found = inspect.signature(function).parameters
    assert "choices" not in found
    for name, one in schema(Settings).items():
        assert found[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert found[name].default == (... if one.default is MISSING else one.default)
