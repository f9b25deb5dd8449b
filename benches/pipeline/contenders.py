"""Who takes part: names, commands, what each one needs, and which inputs it takes."""

from __future__ import annotations

import compileall
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

import compiled

PEERS = Path(__file__).resolve().parents[1] / "peers"
KARL_FAST = str(Path(sys.executable).parent / "karl-fast")
JOB = ["--score", "zscore", "--ddof", "1", "--inverse-temperature", "15", "--split", "1,0,0", "--quiet", "--force"]
RAW = ["--as", "raw", "--allow-secrets"]


def as_installed() -> None:
    """Writes the bytecode of karl-fast, as pip does of what it installs: an editable install is else compiled by each
    process where none may be written (PYTHONDONTWRITEBYTECODE)."""
    found = importlib.util.find_spec("karl_fast")
    for folder in (found and found.submodule_search_locations) or []:
        compileall.compile_dir(folder, quiet=1)


@dataclass(frozen=True)
class Contender:
    name: str
    command: tuple[str, ...]  # LOG, K and OUT stand for what they are in a run
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ("plain", "gz", "zst")
    slow: bool = False
    written: str = ""  # the file of rows in OUT; OUT itself if empty
    rows: bool = True  # whether it does the job, or only reads the log

    @property
    def names(self) -> set[str]:
        """What it answers to: its name, with the number of threads or without."""
        return {self.name, self.name.partition("@")[0]}

    def filled(self, log: str, k: int, out: Path) -> list[str]:
        values = {"LOG": log, "K": str(k), "OUT": str(out)}
        return [values.get(word, word) for word in self.command]

    def missing(self, packing: str) -> list[str]:
        """The packages that it would need; the drawn lines of a zstd log are copied with zstandard."""
        needs = [*self.needs, *(["zstandard"] if packing == "zst" and self.needs else [])]
        return [module for module in needs if importlib.util.find_spec(module) is None]


@dataclass(frozen=True)
class Compiled(Contender):
    """A peer in C++, compiled before its first run; the first word of its command is its source."""

    def filled(self, log: str, k: int, out: Path) -> list[str]:
        source, *words = super().filled(log, k, out)
        return [str(compiled.program(Path(source), *self.needs)), *words]

    def missing(self, packing: str) -> list[str]:
        return compiled.missing(Path(self.command[0]), *self.needs)


def ours(threads: int) -> str:
    return f"karl-fast@{threads}"


def karl_fast(threads: list[int]) -> list[Contender]:
    base = (KARL_FAST, "sample", "LOG", "-k", "K", "-o", "OUT", *JOB)

    def contender(name: str, form: list[str], count: int) -> Contender:
        return Contender(name, (*base, *form, "--threads", str(count)), written="train.jsonl")

    return [
        *(contender(ours(count), RAW, count) for count in threads),
        contender("karl-fast-rows", [], max(threads)),  # conversations, with secrets replaced
    ]


def peer(name: str, module: str, form: str, *also: str, takes: str = "plain gz zst", slow: bool = False) -> Contender:
    command = (sys.executable, str(PEERS / f"by_{module}.py"), form, "LOG", "K", "OUT")
    return Contender(name, command, (module, *also), tuple(takes.split()), slow)


def in_cpp(library: str, threads: int) -> Compiled:
    command = (str(PEERS / f"by_{library}.cpp"), "LOG", "K", "OUT", str(threads))
    return Compiled(f"{library}@{threads}", command, (library,), ("plain",))


OTHERS = [
    in_cpp("simdjson", 2),
    in_cpp("simdjson", 1),
    peer("msgspec", "msgspec", "two-passes"),
    peer("msgspec-isal", "msgspec", "two-passes+isal", "isal", takes="gz"),
    peer("msgspec-held", "msgspec", "held", slow=True),
    peer("msgspec-held-isal", "msgspec", "held+isal", "isal", takes="gz", slow=True),
    peer("msgspec-processes", "msgspec", "processes", takes="plain"),
    peer("orjson", "orjson", "two-passes"),
    peer("duckdb", "duckdb", "two-columns"),
    peer("duckdb-statement", "duckdb", "statement"),
    peer("duckdb-full", "duckdb", "full", slow=True),
    peer("polars", "polars", "two-columns"),
    peer("polars-lines", "polars", "lines", slow=True),
    peer("polars-full", "polars", "full", slow=True),
    peer("pyarrow", "pyarrow", "two-columns"),
    peer("daft", "daft", "two-columns", takes="plain", slow=True),
    peer("spark", "pyspark", "two-columns", "pandas", takes="plain", slow=True),
    peer("pandas", "pandas", "full", slow=True),
    Contender("wc -l", ("wc", "-l", "LOG"), rows=False),
    Contender("cat", ("cat", "LOG"), rows=False),
]


def packing(log: str) -> str:
    return {".gz": "gz", ".zst": "zst"}.get(Path(log).suffix, "plain")


def chosen(log: str, threads: list[int], only: list[str], every: bool) -> tuple[list[Contender], list[str]]:
    """Who runs on this log, and who is left out for want of a package; karl-fast itself always runs."""
    kind = packing(log)
    fit = [one for one in OTHERS if kind in one.takes and wanted(one, only, every)]
    absent = [f"{one.name} (needs {', '.join(one.missing(kind))})" for one in fit if one.missing(kind)]
    mine = [one for one in karl_fast(threads) if one.name != "karl-fast-rows" or not only or one.name in only]
    return [*mine, *(one for one in fit if not one.missing(kind))], absent


def wanted(one: Contender, only: list[str], every: bool) -> bool:
    return not one.names.isdisjoint(only) if only else every or not one.slow
