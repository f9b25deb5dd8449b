"""Write the pages of docs/lab from the records of `karl-fast ablate examples/lab/*.toml`.

    karl-fast ablate examples/lab/*.toml --out ablations
    python benches/lab/publish.py ablations

Each record is kept as benches/record/lab-NAME.json; without a folder, the pages are written again from those. Needs the
extra `plot`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from karl_fast.ablation import load, write_page

ROOT = Path(__file__).resolve().parents[2]
RECORDS, PAGES = ROOT / "benches" / "record", ROOT / "docs" / "lab"


def main() -> None:
    """Keep the records of the folders that are given, and write every page."""
    for folder in sys.argv[1:]:
        for record in Path(folder).glob("*/record.json"):
            text = json.dumps(json.loads(record.read_text("utf-8")), separators=(",", ":"))
            (RECORDS / f"lab-{record.parent.name}.json").write_text(text + "\n", encoding="utf-8")
    PAGES.mkdir(exist_ok=True)
    for file in sorted(RECORDS.glob("lab-*.json")):
        record = json.loads(file.read_text("utf-8"))
        experiment = f"examples/lab/{record['name']}.toml"
        record["setting"] = load(ROOT / experiment).setting
        page = write_page(record, PAGES, f"karl-fast ablate {experiment}")
        (PAGES / f"{record['name']}.png").unlink(missing_ok=True)
        print(page)


if __name__ == "__main__":
    main()
