"""A line that is read without typer says what typer would have read; and what it leaves to typer."""

from __future__ import annotations

from typing import Any

import pytest

from karl_fast.cli.app import app
from karl_fast.cli.commands import sample
from karl_fast.cli.fast_parser import COMMAND_OPTIONS, parse_plain
from karl_fast.errors import UsageError
from karl_fast.settings.sample import Settings
from karl_fast.settings.schema import schema
from tests.cli.run import karl

VALUES = {
    "shaping": "up=1.4,down=0.5",
    "format": "verl",
    "id": "meta.id,run",
    "group": "hash(prompt)",
    "parent": "parent.id",
    "reward": "outcome=0.5, cost=-0.1",
    "messages": "meta.messages",
    "prompt": "question",
    "system": "rules",
    "tools": "functions",
    "completion": "answer",
    "domain": "kind",
    "order_by": "meta.at",
    "score": "leave-one-out",
    "baseline": "partition",
    "baseline_by": "domain",
    "ema_alpha": "0.3",
    "ema_start": "0",
    "pseudonyms": "names.key",
    "exclude": "benchmark.jsonl",
    "ddof": "1",
    "eps": "1e-9",
    "ess": "0.25",
    "inverse_temperature": "15",
    "recency_half_life": "14d",
    "partition_by": "meta.kind",
    "min_reward": ".5",
    "variance_top_p": "0.9",
    "max_per_group": "2",
    "sampler": "multinomial",
    "per": "domain=sqrt",
    "k": "1_000",
    "fraction": "0.07",
    "seed": " 7",
    "shape": "raw",
    "split": "0.5,0.25,0.25",
    "max_tokens": "4096",
    "tokenizer": "tok",
    "max_line_bytes": "100",
    "threads": "3",
}
"""A value of each setting that takes one."""

ALSO = {
    "max_tokens": ["--tokenizer", "tok"],
    "tokenizer": ["--max-tokens", "9"],
    "per": ["-k", "3"],
    "baseline": ["--score", "advantage", "--inverse-temperature", "2"],
    "baseline_by": ["--score", "advantage"],
    "ema_alpha": ["--score", "advantage", "--baseline", "ema", "--order-by", "at"],
    "ema_start": ["--score", "advantage", "--baseline", "ema", "--order-by", "at"],
    "recency_half_life": ["--order-by", "at"],
}
"""What some of them are refused without."""

NOT_PLAIN = (
    "",
    "inspect log",
    "sample",
    "sample -k 3",
    "sample log --help",
    "sample log -k",
    "sample log -k5",
    "sample log -k=5",
    "sample log -k five",
    "sample log -k 2.5",
    "sample log --no-dedup",
    "sample log --dedup=1",
    "sample log --min-reward -1",
    "sample log --score Raw",
    "sample log --split 1,0",
    "sample log --scor raw",
    "sample log --config karl.toml",
    "sample log -qk 5",
    "sample -- log",
    "--version sample log",
)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What typer reads in a line, in the form that `draw` takes."""
    seen: dict[str, Any] = {}
    monkeypatch.setattr(sample, "draw_and_report", lambda **given: seen.update(given))

    def parse(arguments: list[str]) -> dict[str, Any]:
        app(arguments, prog_name="karl-fast", standalone_mode=False)
        return seen

    return parse


def same(arguments: list[str], typed: Any) -> None:
    line, wanted = parse_plain(arguments), typed(arguments)
    assert line is not None
    switches = dict.fromkeys(("force", "dry_run", "index", "json", "quiet"), False)
    own = switches | {"out": None, "engine": None}
    assert own | line == wanted
    for place in ("threads", "origins"):
        assert getattr(line["settings"], place) == getattr(wanted["settings"], place)


@pytest.mark.parametrize("name", sorted(schema(Settings)))
@pytest.mark.parametrize("form", ["apart", "together"])
def test_every_setting_is_read_as_typer_reads_it(name: str, form: str, typed: Any) -> None:
    option, value = schema(Settings)[name].flag, VALUES.get(name)
    words = [option] if value is None else [option, value]
    if form == "together" and value is not None and option.startswith("--"):
        words = [f"{option}={value}"]
    same(["sample", "a.jsonl", *words, *ALSO.get(name, [])], typed)
    assert (value is None) == (schema(Settings)[name].kind is bool)


@pytest.mark.parametrize(
    "line",
    [
        "sample a -k 3 b -o out --force -q",
        "sample --out=- a --json --dry-run --quiet",
        "sample - -k 3 -o -",
        "sample a -k 3 -k 4 --threads 1 --threads 2 --strict",
        "sample a=b -k 3 -o x=y --group=a=b",
    ],
)
def test_a_line_is_read_as_typer_reads_it(line: str, typed: Any) -> None:
    same(line.split(), typed)


@pytest.mark.parametrize("line", NOT_PLAIN)
def test_what_is_not_plain_is_left_to_typer(line: str) -> None:
    assert parse_plain(line.split()) is None


def test_an_empty_word_is_left_to_typer() -> None:
    assert parse_plain(["sample", ""]) is None
    assert parse_plain(["sample", "log", "--id", ""]) is None


@pytest.mark.parametrize("name", ["KARL_FAST_SEED", "KARL_FAST_K", "KARL_FAST_AS", "KARL_FAST_CONFIG"])
def test_a_variable_has_its_say(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "3")
    assert parse_plain(["sample", "log", "-k", "3"]) is None


def test_the_command_has_no_other_options() -> None:
    import typer

    command = typer.main.get_command(app).commands["sample"]  # type: ignore[attr-defined]
    options = {word for param in command.params if param.param_type_name == "option" for word in param.opts}
    assert options == {"--config", *(one.flag for one in schema(Settings).values()), *COMMAND_OPTIONS}


def test_conflicts_have_the_same_words_in_both_parsers() -> None:
    arguments = ["sample", "log", "-k", "3", "--fraction", "0.5", "-o", "out"]
    with pytest.raises(UsageError):
        parse_plain(arguments)
    quick, slow = karl(*arguments), karl(*arguments, "--no-dedup")
    assert (quick.returncode, quick.stderr) == (slow.returncode, slow.stderr) != (0, "")
