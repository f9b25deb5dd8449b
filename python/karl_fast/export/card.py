"""Card of a data set: the README.md by which people and the Hugging Face hub know what is in its folder.

```text
---
configs: the file of each split          read by datasets.load_dataset and the viewer of the hub
size_categories, tags, license           license only if the user gives one
---
rows, columns, how they were drawn, what was left out, secrets
```

The card has no path, name or text of a log: it is a function of seed, records and settings, as the rows are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from karl_fast.errors import UsageError
from karl_fast.export.tables import SHAPES

if TYPE_CHECKING:
    from karl_fast.export.manifest import Manifest

CARD = "README.md"
"""Name of the card in the folder of a data set."""

HUB_SPLITS = {"train": "train", "valid": "validation", "test": "test"}
"""Name of each split in the hub."""

SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
"""Categories of sizes in the hub, by the number of rows below."""

LIST = "list of messages"

COLUMNS: dict[str, dict[str, str]] = {
    "chat": {"messages": LIST, "tools": "list of tools, or null"},
    "prompt-completion": {"prompt": LIST, "completion": LIST, "tools": "list of tools, or null"},
    "prompt-completion-text": {"prompt": "text", "completion": "text"},
    "text": {"text": "text"},
    "raw": {"(keys of the log)": "as they were logged"},
    "preference": {"prompt": LIST, "chosen": LIST, "rejected": LIST, "tools": "list of tools, or null"},
    "kto": {
        "prompt": LIST,
        "completion": LIST,
        "label": "true if the answer was wanted",
        "tools": "list of tools, or null",
    },
    "sharegpt": {"conversations": "list of from and value", "tools": "JSON text, or null"},
    "alpaca": dict.fromkeys(("instruction", "input", "output", "system"), "text")
    | {"history": "list of pairs of texts"},
    "openai": {"messages": LIST + ", arguments of calls as JSON text", "tools": "list of tools"},
    "atif": {
        "schema_version": "text",
        "agent": "object",
        "steps": "list of steps",
        "extra": "object that holds karl_fast",
    },
    "verl": {"messages": LIST + ", arguments of calls as JSON text", "tools": "list of tools, or null"},
    "prime-rl": {"messages": LIST + ", arguments of calls as JSON text", "tools": "JSON text, or null"},
}
"""Columns of each shape, with their content."""


def describe_data_set(manifest: Manifest) -> str:
    """Return the card of a data set.

    Args:
        manifest: of the data set, before its files have been written.

    Returns:
        The text of README.md, without a licence.
    """
    export, sections = (
        manifest["export"],
        [_describe_rows(manifest), _describe_draw(manifest), _describe_secrets(manifest)],
    )
    rows = sum(export["splits"].values())
    head = [
        "---",
        "configs:",
        "- config_name: default",
        "  data_files:",
        *_list_files(export),
        "size_categories:",
        f"- {next((name for limit, name in SIZES if rows < limit), '1M<n')}",
        "tags:",
        "- karl-fast",
        "---",
    ]
    return "\n".join([*head, "", "# Training set drawn by karl-fast", *("\n" + section for section in sections)]) + "\n"


def _list_files(export: dict[str, Any]) -> list[str]:
    suffix = "parquet" if export["shape"] in SHAPES else "jsonl"
    splits = [split for split, rows in export["splits"].items() if rows] or ["train"]
    lines = ((f"  - split: {HUB_SPLITS[split]}", f"    path: {split}.{suffix}") for split in splits)
    return [line for pair in lines for line in pair]


def _describe_rows(manifest: Manifest) -> str:
    export = manifest["export"]
    shape = export["shape"]
    splits = [f"| {HUB_SPLITS[split]} | {rows:,} |" for split, rows in export["splits"].items() if rows]
    columns = [f"| `{name}` | {content} |" for name, content in COLUMNS.get(shape, {}).items()]
    if shape not in ("raw", "atif"):
        columns.append("| `karl_fast` | id, group, reward, score, log_weight and copies of the row |")
    lines = ["## Rows", "", f"Shape: `{shape}`.", "", "| split | rows |", "|---|---:|", *splits]
    lines += ["", "| column | content |", "|---|---|", *columns]
    if "label_above" in export:
        lines += ["", f"The label is true if the reward is above {export['label_above']:g}."]
    if "reasoning_left_out" in export:
        lines += [
            "",
            f"{export['reasoning_left_out']:,} messages are without their reasoning, which the shape has no key for.",
        ]
    return "\n".join(lines)


def _describe_draw(manifest: Manifest) -> str:
    draw, account, reward = manifest["draw"], manifest["accounting"], manifest.get("reward", {})
    lines = ["## How it was drawn", "", f"- Sampler `{draw['sampler']}` ({draw['law']}), seed {manifest['seed']}."]
    if target := manifest.get("target"):
        lines.append(f"- Score `{target['score']}`, inverse temperature {target['inverse_temperature']:.6g}.")
    dropped = ", ".join(f"{reason} {count:,}" for reason, count in account["dropped"].items())
    lines.append(
        f"- Records read: {account['rows_read']:,}; kept: {account['rows_kept']:,}"
        + (f"; dropped: {dropped}." if dropped else ".")
    )
    if failed := ", ".join(f"{reason} {count:,}" for reason, count in draw["failed"].items()):
        lines.append(f"- Drawn records that could not be written: {failed}.")
    before, after = (reward.get(when, {}).get("mean") for when in ("before", "after"))
    if before is not None and after is not None:
        lines.append(f"- Mean reward: {before:.6g} of all records with a reward, {after:.6g} of the rows.")
    return "\n".join([*lines, "", "`manifest.json` has every setting and count."])


def _describe_secrets(manifest: Manifest) -> str:
    settings = manifest["settings"]
    if settings.get("allow_secrets"):
        state = "The search for secrets was off (`--allow-secrets`)."
    else:
        families = ", ".join(f"{family} {count:,}" for family, count in sorted(manifest["secrets"].items()))
        state = f"Text that looks like a secret was replaced: {families or 'none'}."
        state += " The search knows forms and names, not every secret."
    personal = " Personal data was replaced by pseudonyms." if settings.get("pseudonyms") else ""
    return f"## Secrets\n\n{state}{personal}"


HEAD = re.compile(r"---\n(.*?)^---\n", re.DOTALL | re.MULTILINE)
"""The values that the hub reads, in YAML, at the beginning of a card."""

LICENCE = re.compile(r"[a-z0-9][a-z0-9.\-]*")


def add_license(card: str, license: str) -> str:
    """Return a card with a licence.

    Args:
        card: as `describe_data_set` made it, or edited: a licence in its head is replaced, and a head is added.
        license: the hub's identifier, such as `apache-2.0` or `cc-by-4.0`.

    Returns:
        The text of the card.

    Raises:
        UsageError: the licence is not an identifier.
    """
    if not LICENCE.fullmatch(license):
        raise UsageError(f"license is {license!r}, wanted an identifier of the hub, like apache-2.0 or cc-by-4.0")
    head = HEAD.match(card)
    values = [line for line in head[1].splitlines(keepends=True) if not line.startswith("license:")] if head else []
    return f"---\nlicense: {license}\n{''.join(values)}---\n{card[head.end() :] if head else chr(10) + card}"
