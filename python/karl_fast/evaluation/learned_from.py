"""Hashes of what an adapter learned from: kept beside it, or those of the data set that mlx-lm trained it on.

```text
ADAPTER/seen-hashes.txt       of a run of karl-fast
ADAPTER/adapter_config.json   of mlx-lm: "data" names the data set, "resume_adapter_file" the adapter that it began from
```

The rows of a data set are hashed when an adapter is judged, not when they are drawn: they are all there, and a run of
`karl-fast train` hashes the same ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from karl_fast import _seen_hashes
from karl_fast.errors import CheckpointError, OverlapError
from karl_fast.export.training_rows import open_source
from karl_fast.modeling.adapters import CONFIG
from karl_fast.modeling.load import ADAPTERS

LEARNED = ("train", "valid")
"""Splits that an adapter learned from or was chosen on."""


def read_learned_hashes(adapter: Path, later: tuple[Path, ...] = ()) -> _seen_hashes.Seen:
    """Return the hashes of what an adapter, and those that it began from, learned from or were chosen on.

    Args:
        adapter: its folder.
        later: folders of adapters that began from it.

    Raises:
        OverlapError: that is not known.
        KarlError: a file is damaged or cannot be read.
    """
    kept = _seen_hashes.read(adapter)
    if kept is not None:
        return kept
    config, later = _read_adapter_config(adapter), (*later, adapter.resolve())
    found = _of_data(adapter, config.get("data"))
    weights = config.get("resume_adapter_file")
    if not weights:
        return found
    before = Path(weights).parent
    if before.resolve() in later:
        raise _unknown(
            adapter, f"began from {weights}, which a later run replaced", "train each adapter in its own folder"
        )
    return found | read_learned_hashes(before, later)


def of_data_set(folder: Path) -> _seen_hashes.Seen:
    """Return the hashes of what an adapter of a data set would learn from or be chosen on."""
    source, found = open_source(folder), _seen_hashes.read(folder) or _seen_hashes.Seen()
    for split in LEARNED:
        found |= _seen_hashes.of_rows(source.rows(split))
    return found


def _read_adapter_config(adapter: Path) -> dict[str, Any]:
    """Return the settings of the run of mlx-lm that made an adapter; empty if there are none."""
    file = adapter / CONFIG
    try:
        found = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} is damaged: {error}") from error
    return found if isinstance(found, dict) else {}


def _of_data(adapter: Path, data: Any) -> _seen_hashes.Seen:
    """Return the hashes of the data set that an adapter was trained on."""
    if not isinstance(data, str):
        hint = f"karl-fast train and rl write it beside the adapter; mlx_lm lora names its data in {CONFIG}"
        raise _unknown(adapter, f"has no {_seen_hashes.FILE}, and no {CONFIG} that names its data", hint)
    folder = Path(data)
    if not folder.is_dir():
        hint = f"run this where mlx_lm ran, if {data} is relative to it, or bring the data set back"
        raise _unknown(adapter, f"names the data {data} in its {CONFIG}, which is not a folder", hint)
    trained = (adapter / ADAPTERS).stat().st_mtime
    files = [folder / f"{split}.jsonl" for split in LEARNED]
    newer = next((file for file in files if file.is_file() and file.stat().st_mtime > trained), None)
    if newer is not None:
        hint = "train again, or bring back the data set that it was trained on"
        raise _unknown(adapter, f"is older than its data {newer}", hint)
    return of_data_set(folder)


def _unknown(adapter: Path, why: str, hint: str) -> OverlapError:
    return OverlapError(f"{adapter} {why}: what it learned from is not known", hint=hint)
