"""What the documents show, runs, and prints what they say.

Every python block of README.md and of the pages in docs/ is executed, page by page in order, in one temporary
directory that has examples/ in it, and so is every `karl-fast` and `mlx_lm` command of a shell block. A text block that
follows commands, or stands right below a python block, is their output: each line has to be there.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import karl_fast
from tests.cli.run import environment
from tests.unit.train.conftest import SERVER

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = ROOT / "examples"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    text: str
    line: int

    @property
    def end(self) -> int:
        """The line of its closing fence."""
        return self.line + self.text.count("\n")


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [Block(found[1], found[2], text.count("\n", 0, found.start()) + 2) for found in FENCE.finditer(text)]


def pairs(page: Path) -> list[tuple[Block, Block]]:
    """Each block and the one after it."""
    return list(pairwise([*blocks(page), Block("", "", 0)]))


def missing(after: Block, said: str) -> list[str]:
    """The lines of a block of output that were not printed."""
    lines = {line.strip() for line in said.splitlines()} | {"", "..."}
    return [line for line in after.text.splitlines() if line.strip() not in lines]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that looks like the root of the repository."""
    if EXAMPLES.is_dir():
        shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_print_what_the_page_shows(
    page: Path, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    names: dict[str, object] = {"__name__": page.stem}
    for block, after in pairs(page):
        if block.language == "python":
            # Blank lines in front, so that a traceback names the line of the page.
            source = "\n" * (block.line - 1) + block.text
            exec(compile(source, str(page), "exec"), names)
            said = capsys.readouterr().out
            printed = after.language == "text" and after.line <= block.end + 3  # one blank line between their fences
            assert not printed or not missing(after, said), f"{page.name}, line {after.line}: {said}"
            shutil.rmtree("data", ignore_errors=True)


MLX_LM = [sys.executable, "-W", "ignore", "-m", "mlx_lm"]
"""What warnings another library gives is its own matter."""


def commands(block: Block, program: str = "karl-fast") -> list[list[str]]:
    """The `karl-fast` commands of a shell block, however they are called and joined; or those of another program."""
    if block.language not in ("sh", "bash", "console"):
        return []
    parts = re.split(r"&&|\n|;", block.text.replace("\\\n", " "))
    words = [shlex.split(part.strip().removeprefix("$ "), comments=True) for part in parts]
    return [found[1:] for found in words if found and found[0].split("/")[-1] == program]


def made(block: Block) -> list[list[str]]:
    """The scripts of examples/ that a shell block runs."""
    parts = re.split(r"&&|\n|;", block.text.replace("\\\n", " "))
    words = [shlex.split(part.strip(), comments=True) for part in parts if block.language == "sh"]
    return [found[1:] for found in words if len(found) > 1 and found[1].startswith("examples/")]


LEARN = ("ablate", "cycle", "eval", "export", "rl", "surprisal", "train")
"""Commands that need the extra `train`."""

HUB = "mlx-community/"
"""Models that a test does not fetch."""


FETCHED = "gpt-4o-airline.json"
"""A log that a reader fetches first: tests/unit/train/test_tau_bench.py runs the lines about it, where it is there."""


def ran(command: list[str], place: Path) -> subprocess.CompletedProcess[str]:
    """What it said, errors among it."""
    return subprocess.run(
        command,
        cwd=place,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run_and_print_what_the_page_says(page: Path, place: Path) -> None:
    for block, after in pairs(page):
        if FETCHED in block.text:
            continue
        said = ""
        for script in made(block):
            subprocess.run([sys.executable, *script], cwd=place, env=environment(), capture_output=True, check=True)
        for command in commands(block):
            if command[0] in LEARN and (importlib.util.find_spec("mlx_lm") is None or HUB in " ".join(command)):
                continue
            if command[0] == "sample":
                shutil.rmtree(place / "data", ignore_errors=True)
            done = SERVER.run(command, place, environment(), 180, None)
            printed = done.stderr + done.stdout
            assert done.returncode == 0, f"{page.name}, line {block.line}: {printed}"
            said += printed
        for command in commands(block, "mlx_lm"):
            if importlib.util.find_spec("mlx_lm") is not None and HUB not in " ".join(command):
                done = ran([*MLX_LM, *command], place)
                assert done.returncode == 0, f"{page.name}, line {block.line}: {done.stdout}"
        if said and after.language == "text":
            assert not missing(after, said), f"{page.name}, line {after.line}: not printed: {missing(after, said)}"


def test_page_runs_after_the_front_page() -> None:
    """Who followed the README has its outputs: the example of a page has names of its own, or replaces them."""
    words = [pairwise(command) for block in blocks(README) for command in commands(block)]
    there = {name for pair in words for option, name in pair if option in ("-o", "--out", "--adapter-path")}
    assert {"data", "train-data", "adapter"} <= there
    python = [(page.name, block.text) for page in PAGES[1:] for block in blocks(page) if block.language == "python"]
    assert [(page, call) for page, text in python for call in stumbles(text, there)] == []


def stumbles(text: str, there: set[str]) -> list[str]:
    """The calls that write what is there, and do not replace it."""
    calls = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Call)]
    writes = [
        ast.unparse(one) for one in calls if re.search(r"\b(sample|convert|train|export)$", ast.unparse(one.func))
    ]
    return [call for call in writes if any(repr(name) in call for name in there) and "force=True" not in call]


def test_a_call_over_two_lines_stumbles_too() -> None:
    calls = 'sample("a.jsonl",\n    "data")', 'sample("a.jsonl", "data",\n    force=True)', 'sample("a.jsonl", "mine")'
    assert [bool(stumbles(call, {"data"})) for call in calls] == [True, False, False]


def test_front_page_model_is_that_of_the_examples() -> None:
    page, maths = README.read_text("utf-8"), EXAMPLES / "rl" / "maths"
    assert f"```toml\n{maths.with_suffix('.toml').read_text('utf-8')}```" in page
    [shown] = [block.text for block in blocks(README) if "def correct(" in block.text]
    assert all(part.strip() in maths.with_suffix(".py").read_text("utf-8") for part in shown.split("\n\n\n"))


def test_smallest_log_in_the_guide_is_current() -> None:
    log = (ROOT / "examples" / "smallest-log.jsonl").read_text("utf-8")
    assert f"```json\n{log}```" in (ROOT / "docs" / "guides" / "own_logs.md").read_text("utf-8")


SAYS = {
    "bandit.py": r"trajectory balance, seed 4 +0\.467 0\.467 0\.042 0\.023",
    "arrow_polars.py": "48 drawn",
    "make_tiny_model.py": "made tiny-model: qwen3, 512 tokens|mlx_lm is not installed",
    "numpy_advantages.py": r"rows drawn of each prompt: \[0 0 4 5 7 0\], evenness 0.60",
    "numpy_objective.py": r"step  0: reward 0\.1[\s\S]*step 60: reward 0\.9",
    "polars_expression.py": "127 of 160 rows have an advantage, 48 drawn",
    "trl_loop.py": r"step  0: reward 0\.0[\s\S]*step 30: reward 0\.[6-9]",
    "verl_estimator.py": r"a \[1\.1547, 1\.1547, 1\.1547\][\s\S]*gradient of the first rollout: \[-0\.",
}
"""What an example prints, as a pattern, where that says more than that it ran."""

NEEDS_TORCH = ("trl_loop.py", "verl_estimator.py")


LONG = ("bandit.py",)
"""Examples that run at night; tests/integration/test_bandit.py trains with the functions of this one."""


def example(path: Path) -> Any:
    return pytest.param(path, id=path.name, marks=[pytest.mark.slow] * (path.name in LONG))


@pytest.mark.parametrize("script", [example(path) for path in sorted(EXAMPLES.glob("*.py"))])
def test_examples_run(place: Path, script: Path) -> None:
    done = subprocess.run(
        [sys.executable, f"examples/{script.name}"],
        cwd=place,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    without = script.name in NEEDS_TORCH and importlib.util.find_spec("torch") is None
    assert re.search("torch is not installed" if without else SAYS.get(script.name, ""), done.stdout), done.stdout


def modules() -> list[str]:
    found = pkgutil.walk_packages(karl_fast.__path__, "karl_fast.")
    return ["karl_fast", *(module.name for module in found)]


@pytest.mark.parametrize("name", modules())
def test_docstring_examples_run(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    assert doctest.testmod(importlib.import_module(name)).failed == 0
