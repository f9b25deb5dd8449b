#!/usr/bin/env python3
"""Fail on import circles between the modules of the crates.

Usage: ``.ci/rust_circles.py [CRATE ...]``; without arguments, the crates in ``ENFORCED``. To enforce another crate, run
``.ci/rust_circles.py karl-log``, cut the circles it prints, and add the name to ``ENFORCED``.

A node is a file, an edge an import: ``use`` lines and inline paths, outside comments and ``#[cfg(test)]`` modules.
An imported name counts for the file that defines it, whatever ``pub use`` lines lie between, and a ``pub use`` is
no edge of its own unless its file also uses the name. Two checks: strongly connected components of the files, and of
the children of each folder, where a folder counts as one node.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ENFORCED = ["karl-core", "karl-reward", "karl-redact", "karl-log", "karl-transcripts", "karl-py"]

ModulePath = tuple[str, ...]
Graph = dict[ModulePath, set[ModulePath]]

# Comments, raw strings, strings, characters, and `pub(in path)`, which names no import.
NO_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|\br(#*)".*?"\1|"(?:\\.|[^"\\])*"|\'(?:\\[^\']+|[^\'\\])\'|\(in [\w:]+\)', re.DOTALL
)
USE = re.compile(r"\b(pub(?:\([a-z]*\))?\s+)?use\s+([^;]+);", re.DOTALL)
CHILD = re.compile(r"\bmod\s+(\w+)\s*;")
INLINE = re.compile(r"(?<![\w:])([a-z_]\w*(?:::\w+)+)")


@dataclass
class Module:
    """One file: its children, its imports by name, and the paths its code names."""

    code: str
    children: set[str] = field(default_factory=set)
    imports: dict[str, ModulePath] = field(default_factory=dict)
    exports: dict[str, ModulePath] = field(default_factory=dict)
    globs: list[ModulePath] = field(default_factory=list)


def without_tests(code: str) -> str:
    """Remove each ``#[cfg(test)]`` item, by its braces."""
    while (start := code.find("#[cfg(test)]")) >= 0:
        end = code.find(";", start)
        if 0 <= (brace := code.find("{", start)) < (end if end >= 0 else len(code)):
            end, depth = brace, 0
            while True:
                depth += {"{": 1, "}": -1}.get(code[end], 0)
                if depth == 0:
                    break
                end += 1
        code = code[:start] + code[end + 1 :]
    return code


def leaves(tree: str, prefix: ModulePath = ()) -> Iterator[tuple[ModulePath, str]]:
    """Yield each path of a ``use`` tree and the name it has in the file."""
    tree = tree.strip()
    head, brace, rest = tree.partition("{")
    if not brace:
        path, _, alias = (part.strip() for part in tree.partition(" as "))
        full = prefix + tuple(path.split("::"))
        full = full[:-1] if full[-1] == "self" else full
        yield full, alias or full[-1]
        return
    prefix = prefix + tuple(part for part in head.strip().split("::") if part)
    depth, item = 0, ""
    for char in rest.rsplit("}", 1)[0]:
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            yield from leaves(item, prefix) if item.strip() else ()
            item = ""
        else:
            item += char
    yield from leaves(item, prefix) if item.strip() else ()


def parse(text: str) -> Module:
    """Read one file."""
    code = without_tests(NO_CODE.sub(lambda match: "" if match[0].startswith("(in") else " ", text))
    module = Module(USE.sub(" ", code), set(CHILD.findall(code)))
    for public, tree in USE.findall(code):
        for path, name in leaves(tree):
            if name == "*":
                module.globs.append(path[:-1])
            else:
                (module.exports if public else module.imports)[name] = path
    return module


def read(source: Path) -> dict[ModulePath, Module]:
    """Read a crate: each file by its module path."""
    modules = {}
    for file in sorted(source.rglob("*.rs")):
        path = file.relative_to(source).with_suffix("").parts
        modules[path[:-1] if path[-1] in ("mod", "lib") else path] = parse(file.read_text())
    return modules


class Crate:
    """The files of one crate, and the imports between them."""

    def __init__(self, modules: dict[ModulePath, Module]) -> None:
        """Hold the files by module path."""
        self.modules = modules

    def absolute(self, at: ModulePath, path: ModulePath) -> ModulePath | None:
        """Return a path from the crate's root; none for one that leaves the crate."""
        if path[0] == "crate":
            return path[1:]
        if path[0] == "self":
            return at + path[1:]
        if path[0] == "super":
            rest = path
            while rest and rest[0] == "super":
                at, rest = at[:-1], rest[1:]
            return at + rest
        module = self.modules[at]
        if path[0] in module.children:
            return at + path
        known = module.imports.get(path[0]) or module.exports.get(path[0])
        return self.absolute(at, known + path[1:]) if known and known[0] != path[0] else None

    def owner(self, path: ModulePath, seen: frozenset[ModulePath] = frozenset()) -> ModulePath:
        """Return the file that defines what a path from the root names."""
        at: ModulePath = ()
        for place, name in enumerate(path):
            if (*at, name) in self.modules:
                at += (name,)
                continue
            return self.behind(at, name, path[place + 1 :], seen | {path})
        return at

    def behind(self, at: ModulePath, name: str, rest: ModulePath, seen: frozenset[ModulePath]) -> ModulePath:
        """Follow re-exports of a name; the file itself where it has none."""
        module = self.modules[at]
        found = [module.exports[name] + rest] if name in module.exports else []
        found += [(*glob, name, *rest) for glob in module.globs] if not found else []
        for path in found:
            root = self.absolute(at, path)
            if root and root not in seen and (owner := self.owner(root, seen)) != at:
                return owner
        return at

    def named(self, at: ModulePath) -> Iterator[ModulePath]:
        """Yield the paths that a file names: imports, re-exports it uses itself, globs, and paths in its code."""
        module = self.modules[at]
        yield from module.imports.values()
        yield from (path for name, path in module.exports.items() if re.search(rf"\b{name}\b", module.code))
        yield from module.globs
        yield from (tuple(found.split("::")) for found in INLINE.findall(module.code))

    def graph(self) -> Graph:
        """Return the imports of each file."""
        edges: Graph = {at: set() for at in self.modules}
        for at in self.modules:
            for path in self.named(at):
                if absolute := self.absolute(at, path):
                    edges[at].add(self.owner(absolute))
            edges[at].discard(at)
        return edges


def siblings(edges: Graph, folder: ModulePath) -> Graph:
    """Return the graph of the children of a folder, each with all below it as one node."""
    size = len(folder)
    inside = {at: at[: size + 1] for at in edges if len(at) > size and at[:size] == folder}
    graph: Graph = {child: set() for child in inside.values()}
    for at, child in inside.items():
        graph[child] |= {inside[to] for to in edges[at] if to in inside} - {child}
    return graph


def circles(graph: Graph) -> list[list[ModulePath]]:
    """Return the strongly connected components of two nodes or more."""

    def reached(start: ModulePath) -> set[ModulePath]:
        seen: set[ModulePath] = set()
        waiting = [start]
        while waiting:
            fresh = graph[waiting.pop()] - seen
            seen |= fresh
            waiting += fresh
        return seen

    reach = {node: reached(node) for node in graph}
    on_circle = [node for node in graph if node in reach[node]]
    groups = {frozenset(other for other in reach[node] if node in reach[other]) for node in on_circle}
    return sorted(sorted(group) for group in groups)


def shortest(graph: Graph, circle: list[ModulePath]) -> list[ModulePath]:
    """Return a shortest way round in a component, its first node at both ends."""
    ways = [[node] for node in circle]
    while True:
        ways = [[*way, to] for way in ways for to in sorted(graph[way[-1]]) if to in circle]
        for way in ways:
            if way[0] == way[-1]:
                return way


def found(source: Path) -> Iterable[str]:
    """Yield one line for each circle of a crate."""
    edges = Crate(read(source)).graph()
    name = "::".join
    for circle in circles(edges):
        yield f"files: {' -> '.join(name(at) or 'lib' for at in shortest(edges, circle))}"
    for folder in sorted({at[:-1] for at in edges if at}):
        for circle in circles(siblings(edges, folder)):
            yield f"in {name(folder) or 'the root'}: {' <-> '.join(node[-1] for node in circle)}"


def main(crates: list[str]) -> int:
    """Check the crates; return the exit code."""
    root = Path(__file__).parent.parent / "rust"
    lines = [f"{crate}: circle between {line}" for crate in crates for line in found(root / crate / "src")]
    print("\n".join(lines) or f"no import circles in {', '.join(crates)}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ENFORCED))
