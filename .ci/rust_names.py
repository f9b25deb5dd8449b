#!/usr/bin/env python3
"""Fail where two types of the crates share a name: structs, enums, traits and aliases that are ``pub`` or ``pub(...)``.

Each crate has its own ``Error`` and ``Result``, and a type of karl-py may have the name of the one type that it wraps.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

TYPE = re.compile(r"^ *pub(?:\([\w: ]+\))? +(?:unsafe +)?(?:struct|enum|trait|type|union) +(\w+)", re.MULTILINE)
OF_EACH_CRATE = {"Error", "Result"}


def main() -> None:
    """Collect the names of all types; print those that occur twice."""
    places: defaultdict[str, list[Path]] = defaultdict(list)
    for path in sorted(Path("rust").glob("*/src/**/*.rs")):
        for name in TYPE.findall(path.read_text(encoding="utf-8")):
            places[name].append(path)
    shared = 0
    for name, paths in sorted(places.items()):
        wrappers = [path for path in paths if path.parts[1] == "karl-py"]
        if name not in OF_EACH_CRATE and max(len(paths) - len(wrappers), len(wrappers)) > 1:
            shared += 1
            print(f"type {name} is defined in {', '.join(map(str, paths))}: rename all but one")
    if shared:
        sys.exit(1)
    print(f"each of {len(places)} names of types is of one type, or of a type and its wrapper")


if __name__ == "__main__":
    main()
