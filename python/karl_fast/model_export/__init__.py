"""Adapters in the forms that other programs run.

| form | what is written | for |
|---|---|---|
| ``mlx`` | the model with the adapter in its weights, as `mlx_lm fuse` writes it | mlx-lm, and what is built on it |
| ``lmstudio`` | the same, as a folder PUBLISHER/MODEL | LM Studio on a Mac |
| ``peft`` | the adapter alone | PEFT, transformers, vLLM |
| ``gguf`` | one file, the adapter in its weights | llama.cpp, and what is built on it |
| ``ollama`` | such a file, and a Modelfile | Ollama |

Needs the extra ``train``; the last two need the extra ``gguf`` too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from karl_fast.errors import OutputExistsError, UsageError

__all__ = ["ExportResult", "Form", "export_adapter"]

Form = Literal["mlx", "gguf", "peft", "ollama", "lmstudio"]


@dataclass(frozen=True)
class ExportResult:
    """Result of an export.

    Attributes:
        path: the file or folder that was written.
        form: its form.
        model: the model that the adapter was put on.
        files: names of the files in the folder; the file itself for ``gguf``.
        size_bytes: their size.
        remarks: on what the other program should know.
    """

    path: Path
    form: Form
    model: str
    files: list[str]
    size_bytes: int
    remarks: list[str] = field(default_factory=list)


def export_adapter(
    adapter: str | Path, out: str | Path, form: Form, *, model: str | None = None, base: str | None = None
) -> ExportResult:
    """Write an adapter in the form that another program runs.

    Args:
        adapter: a folder that `karl-fast train`, `karl-fast rl` or `mlx_lm lora` wrote.
        out: the folder to write, or the file for ``gguf``; nothing may be there.
        form: mlx, gguf, peft, ollama or lmstudio.
        model: the model that the adapter was trained on; by default that of the settings beside the adapter.
        base: for ``peft``: the name of the model as PEFT loads it; by default `model`.

    Returns:
        The files that were written.

    Raises:
        UsageError: a form or a model that is not known, or `base` for another form than ``peft``.
        MissingExtraError: a package that the form needs is not installed.
        ModelError: the model or the adapter is missing, does not fit, or cannot be written in this form.
        OutputExistsError: there is something at `out`.
        FileError: a file cannot be read or written; nothing is left then.
    """
    if form not in get_args(Form):
        raise UsageError(f"the form is {form!r}, wanted one of {', '.join(get_args(Form))}", "to")
    if base is not None and form != "peft":
        raise UsageError(f"base is the name of the model for peft, and the form is {form}", "base")
    place = Path(out)
    if place.exists() or place.is_symlink():
        raise OutputExistsError(f"{place} exists already", hint="give the output another name, or remove it")
    from karl_fast.model_export.adapter import open_adapter

    opened = open_adapter(Path(adapter), model)
    match form:
        case "mlx" | "lmstudio":
            from karl_fast.model_export.fused import write_fused

            remarks = write_fused(opened, place, lmstudio=form == "lmstudio")
        case "peft":
            from karl_fast.model_export.peft import write_peft

            remarks = write_peft(opened, place, base or opened.model)
        case "gguf" | "ollama":
            from karl_fast.model_export.gguf import write_gguf, write_ollama

            remarks = (write_gguf if form == "gguf" else write_ollama)(opened, place)
    files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    names = [path.name if path == place else str(path.relative_to(place)) for path in files]
    return ExportResult(place, form, opened.model, names, sum(path.stat().st_size for path in files), remarks)
