"""Overlap of held-out data with what an adapter learned from or was chosen on: such data cannot judge it.

```text
ADAPTER/seen-hashes.txt       hashes of prompts and groups, of a run of karl-fast
ADAPTER/adapter_config.json   of mlx-lm: "data" names the data set, "resume_adapter_file" the adapter it began from
```

Rows of a data set that mlx-lm learned are hashed when the adapter is judged, not when they are drawn: they are all
there, and a run of `karl-fast train` hashes the same ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from karl_fast import _seen_hashes
from karl_fast._safe_text import counted
from karl_fast.errors import (
    CheckpointError,
    OverlapError,
)
from karl_fast.export.training_rows import open_source
from karl_fast.modeling.adapters import CONFIG
from karl_fast.modeling.load import ADAPTERS


def refuse_overlap(learner: str | Path, learned: _seen_hashes.Seen, held_out: _seen_hashes.Seen) -> None:
    """Raise if an adapter, or the data set it is to learn, has some of the held-out data."""
    both = learned & held_out
    if both:
        shares = [_share(getattr(both, kind), getattr(held_out, kind), kind) for kind in ("prompts", "groups")]
        shared = " and ".join(share for share in shares if share)
        raise OverlapError(
            f"{learner} learned from, or was chosen on, {shared} of the held-out data",
            hint="promote by data that no run has seen",
        )


def _share(both: frozenset[str], all: frozenset[str], kind: str) -> str:
    return f"{len(both):,} of {counted(len(all), kind[:-1])} ({len(both) / len(all):.0%})" if both else ""


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
    hashes = _seen_hashes.read_seen(adapter)
    if hashes is not None:
        return hashes
    config, later = _read_adapter_config(adapter), (*later, adapter.resolve())
    learned = _hash_trained_data(adapter, config.get("data"))
    weights = config.get("resume_adapter_file")
    if not weights:
        return learned
    before = Path(weights).parent
    if before.resolve() in later:
        raise _unknown(
            adapter, f"began from {weights}, which a later run replaced", "train each adapter in its own folder"
        )
    return learned | read_learned_hashes(before, later)


def hash_data_set(folder: Path) -> _seen_hashes.Seen:
    """Return the hashes of what an adapter of a data set would learn from or be chosen on."""
    source, learned = open_source(folder), _seen_hashes.read_seen(folder) or _seen_hashes.Seen()
    for split in LEARNED:
        learned |= _seen_hashes.hash_rows(source.rows(split))
    return learned


def _read_adapter_config(adapter: Path) -> dict[str, Any]:
    """Return the settings of the run of mlx-lm that made an adapter; empty if there are none."""
    file = adapter / CONFIG
    try:
        config = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} is damaged: {error}") from error
    return config if isinstance(config, dict) else {}


def _hash_trained_data(adapter: Path, data: Any) -> _seen_hashes.Seen:
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
    return hash_data_set(folder)


def _unknown(adapter: Path, why: str, hint: str) -> OverlapError:
    return OverlapError(f"{adapter} {why}: what it learned from is not known", hint=hint)
