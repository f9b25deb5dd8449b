#!/usr/bin/env python3
"""Fail where two types share a name: classes of the Python package, or types of the crates.

Python: classes at the level of a module; a leading underscore is no difference. Rust: structs, enums, traits and
aliases that are ``pub`` or ``pub(...)``. Each crate has its own ``Error`` and ``Result``, and a type of karl-py may
have the name of the one type that it wraps.
"""

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

RUST_TYPE = re.compile(r"^ *pub(?:\([\w: ]+\))? +(?:unsafe +)?(?:struct|enum|trait|type|union) +(\w+)", re.MULTILINE)
OF_EACH_CRATE = {"Error", "Result"}

Places = dict[str, list[Path]]


def python_classes() -> Places:
    """Return the files of each class name."""
    places: defaultdict[str, list[Path]] = defaultdict(list)
    for path in sorted(Path("python/karl_fast").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(path)
    return places


def rust_types() -> Places:
    """Return the files of each type name."""
    places: defaultdict[str, list[Path]] = defaultdict(list)
    for path in sorted(Path("rust").glob("*/src/**/*.rs")):
        for name in RUST_TYPE.findall(path.read_text(encoding="utf-8")):
            places[name].append(path)
    return places


def is_shared_in_rust(name: str, paths: list[Path]) -> bool:
    """Return whether a name is of more than a type and its wrapper."""
    wrappers = sum(path.parts[1] == "karl-py" for path in paths)
    return name not in OF_EACH_CRATE and max(len(paths) - wrappers, wrappers) > 1


def main() -> None:
    """Collect the names of all types; print those that occur twice."""
    classes, types = python_classes(), rust_types()
    shared = [(name, paths) for name, paths in classes.items() if len(paths) > 1]
    shared += [(name, paths) for name, paths in types.items() if is_shared_in_rust(name, paths)]
    for name, paths in sorted(shared):
        print(f"{name} is defined in {', '.join(map(str, paths))}: rename all but one")
    if shared:
        sys.exit(1)
    print(f"each of {len(classes)} names of Python classes, and of {len(types)} names of Rust types, is of one type")


if __name__ == "__main__":
    main()
