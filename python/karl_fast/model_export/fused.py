"""The model with an adapter in its weights, bit for bit as `mlx_lm fuse` writes it.

Quantized layers are quantized again after the sum, as they are there: what the adapter adds is rounded to their bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast import _atomic
from karl_fast.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

    from karl_fast.model_export.adapter import Adapter


def write_fused(adapter: Adapter, out: Path, *, lmstudio: bool = False) -> list[str]:
    """Write the model and its tokenizer into a folder.

    Args:
        adapter: on its model, which is changed.
        out: the folder.
        lmstudio: refuse a model without a chat template, which LM Studio needs.

    Returns:
        Remarks.

    Raises:
        ModelError: LM Studio could not talk with the model.
        FileError: the disk refused.
    """
    from mlx_lm.utils import save

    loaded, remarks = adapter.loaded, list(adapter.remarks)
    if lmstudio:
        if not getattr(loaded.tokenizer, "chat_template", None):
            raise ModelError(f"{adapter.model} has no chat template, which LM Studio needs", hint="--to mlx needs none")
        remarks.append("LM Studio finds it at ~/.lmstudio/models/PUBLISHER/MODEL; such weights run on a Mac")
    if loaded.base["quantization"]:
        remarks.append("the weights are quantized again: what the adapter adds is rounded to their bits")
    adapter.fuse()
    with _atomic.write_folder(out) as draft:
        save(draft, adapter.model, loaded.model, loaded.tokenizer, dict(loaded.config), donate_model=False)
    return remarks
