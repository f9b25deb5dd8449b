"""A file of each product that is read: what it gives is inspected, drawn, and rendered as `train` renders it.

The files are those of the tests of each format, made from its product's own schema.
"""

from __future__ import annotations

import json
import zipfile
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import karl_fast
from karl_fast import train
from tests.unit.convert import samples
from tests.unit.convert import test_atif as atif
from tests.unit.convert import test_copilot_cli as copilot
from tests.unit.convert import test_cursor as cursor
from tests.unit.convert import test_gemini_cli as gemini
from tests.unit.convert import test_langfuse as langfuse
from tests.unit.convert import test_mini_swe_agent as mini
from tests.unit.convert import test_opencode as opencode
from tests.unit.convert import test_openhands as openhands
from tests.unit.convert import test_pi as pi
from tests.unit.convert import test_spans as spans
from tests.unit.convert import test_sts as sts
from tests.unit.convert import test_traces as traces
from tests.unit.formats import test_presets as presets
from tests.unit.train.conftest import tiny_model as tiny_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Export(NamedTuple):
    """A file of a product.

    Attributes:
        write: writes it to a new folder, and returns its path.
        format: name of the format that is detected.
        reward: field of the reward, if the product names it otherwise than its format says.
        converted: whether it is a transcript, which `convert` reads.
    """

    write: Callable[[Path], Path]
    format: str
    reward: str | None = None
    converted: bool = False


def lines(*records: Any) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / "log.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
        return path

    return write


def packed(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/s1_epoch_2.json", json.dumps(presets.INSPECT, indent=2))
    return folder / "log.eval"


def job(folder: Path) -> Path:
    document = atif.document(atif.step("user", "Fix the till"), atif.step("agent", "Fixed."), session_id="s")
    atif.write(folder / "job" / "t1__x", document, {"reward": 1.0})
    return folder / "job"


SHAREGPT = {
    "conversations": [{"from": "human", "value": "2+2?"}, {"from": "gpt", "value": "4"}],
    "reward": 1.0,
}
TRANSCRIPT = partial(Export, converted=True)
SCORE = "grade(scores.match.value)"
EXPORTS = {
    "Claude Code": TRANSCRIPT(lines(*samples.session()), "claude-code"),
    "Codex": TRANSCRIPT(lines(*samples.codex()), "codex"),
    "opencode": TRANSCRIPT(lambda folder: opencode.storage(folder, opencode.session("ses_1")), "opencode"),
    "Pi": TRANSCRIPT(lines(*pi.LINES), "pi"),
    "Gemini CLI": TRANSCRIPT(lines(gemini.FACTS | {"messages": gemini.MESSAGES}), "gemini-cli"),
    "Copilot CLI": TRANSCRIPT(lines(*copilot.EVENTS), "copilot-cli"),
    "Cursor, stream": TRANSCRIPT(lines(*cursor.LINES), "cursor"),
    "Cursor, transcript": TRANSCRIPT(lines(*cursor.TRANSCRIPT), "cursor"),
    "OpenTelemetry": TRANSCRIPT(lines(spans.request(*spans.SPANS)), "otlp"),
    "OpenInference": TRANSCRIPT(lines(spans.request(spans.inference())), "otlp"),
    "OpenLLMetry": TRANSCRIPT(lines(spans.request(spans.traceloop())), "otlp"),
    "Langfuse": TRANSCRIPT(lines(*langfuse.OBSERVATIONS, *langfuse.SCORES), "langfuse"),
    "verifiers 1.0": TRANSCRIPT(lines(traces.TRACE), "verifiers-traces"),
    "OpenHands": TRANSCRIPT(lambda folder: openhands.folder(folder, openhands.EVENTS), "openhands"),
    "STS": TRANSCRIPT(lines(*sts.LINES), "sts"),
    "SWE-agent": TRANSCRIPT(lines(samples.run()), "swe-agent"),
    "Harbor": TRANSCRIPT(job, "atif"),
    "mini-swe-agent": Export(lines(mini.document(mini.TEXTS, reward=1.0)), "mini-swe-agent"),
    "NeMo Gym": Export(lines(presets.GYM), "nemo-gym"),
    "tau2-bench": Export(lines(presets.SIMULATION), "tau2"),
    "SWE-smith": Export(lines(presets.SMITH), "swe-smith"),
    "lm-eval": Export(lines(presets.LM_EVAL), "lm-eval", "exact_match"),
    "Inspect, JSON": Export(lines(presets.INSPECT), "inspect", SCORE),
    "Inspect, .eval": Export(packed, "inspect", SCORE),
    "slime": Export(lines(presets.SLIME), "slime"),
    "SkyRL": Export(lines(presets.SKYRL), "skyrl"),
    "tinker-cookbook": Export(lines(presets.TINKER), "tinker"),
    "OpenRLHF": Export(lines(presets.OPENRLHF), "openrlhf"),
    "verl": Export(lines(*samples.verl()), "verl"),
    "prime-rl": Export(lines(*samples.prime_rl()), "prime-rl"),
    "verifiers 0.x": Export(lines(*samples.verifiers()), "verifiers"),
    "KTO": Export(lines(presets.KTO), "kto"),
    "Alpaca": Export(lines(presets.ALPACA), "alpaca"),
    "ShareGPT": Export(lines(SHAREGPT), "generic"),
}
MESSAGES = {"ShareGPT": "conversations"}
"""Fields of conversations that the user names."""


def draw(name: str, folder: Path) -> list[dict[str, Any]]:
    """Read the file of a product, and return the rows that are drawn of it."""
    export = EXPORTS[name]
    path = export.write(folder)
    if export.converted:
        account = karl_fast.convert(path, folder / "trajectories.jsonl")
        assert {file["format"] for file in account.files} == {export.format}
        found = [json.loads(line) for line in (folder / "trajectories.jsonl").read_text("utf-8").splitlines()]
        path = lines(*(one | {"reward": 1.0} for one in found))(folder / "..")
    wishes: dict[str, Any] = {"reward": {export.reward: 1.0}} if export.reward else {}
    wishes |= {"messages": MESSAGES[name]} if name in MESSAGES else {}
    looked = karl_fast.inspect(path, **wishes).report
    assert [file["format"] for file in looked["inputs"]] == ["trajectory" if export.converted else export.format]
    assert looked["accounting"]["dropped"] == {}
    karl_fast.sample(path, folder / "data", k=1, split=(1, 0, 0), **wishes)
    return [json.loads(line) for line in (folder / "data" / "train.jsonl").read_text("utf-8").splitlines()]


def is_learned(row: dict[str, Any]) -> bool:
    """Return whether a row ends with the model's words or calls, and arguments of its calls are objects."""
    if "completion" in row:
        return bool(row["prompt"].strip() and row["completion"].strip())
    calls = [call for one in row["messages"] for call in one.get("tool_calls") or []]
    last = row["messages"][-1]
    has_words = bool(last.get("content") or last.get("tool_calls"))
    return (
        last["role"] == "assistant" and has_words and all(isinstance(c["function"]["arguments"], dict) for c in calls)
    )


@pytest.mark.parametrize("name", EXPORTS)
def test_the_file_of_a_product_is_read_and_drawn(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    rows = draw(name, tmp_path / "in")
    assert len(rows) == 1
    assert is_learned(rows[0])


def test_rows_of_all_products_are_rendered_for_training(tmp_path: Path, tiny_model: Path) -> None:
    drawn = []
    for at, name in enumerate(EXPORTS):
        (tmp_path / str(at) / "in").mkdir(parents=True)
        drawn += [row for row in draw(name, tmp_path / str(at) / "in") if "messages" in row]
    path = lines(*({"id": str(at), "reward": 1.0} | row for at, row in enumerate(drawn)))(tmp_path)
    result = karl_fast.sample(
        path, tmp_path / "data", k=len(drawn), split=(1, 0, 0), tokenizer=str(tiny_model), max_tokens=100_000
    )
    assert result.manifest["draw"]["failed"] == {}
    assert len((tmp_path / "data" / "train.jsonl").read_text("utf-8").splitlines()) == len(drawn)


def test_rows_of_all_products_are_trained_on(tmp_path: Path, tiny_model: Path) -> None:
    """A step on each of them: chats by the chat template, decoded texts as they are."""
    drawn: dict[str, list[dict[str, Any]]] = {"chats": [], "texts": []}
    for at, name in enumerate(EXPORTS):
        (tmp_path / str(at) / "in").mkdir(parents=True)
        for row in draw(name, tmp_path / str(at) / "in"):
            drawn["chats" if "messages" in row else "texts"].append(row)
    for kind, rows in drawn.items():
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        settings = train.Training(iters=len(rows), batch_size=1, num_layers=1)
        trained = train.train(tmp_path / kind, tiny_model, tmp_path / f"{kind}-adapter", settings)
        account = trained.rows["train"]
        assert (account["rows"], account["dropped"]) == (len(rows), {})
