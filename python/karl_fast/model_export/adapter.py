"""An adapter, the model that it was trained on, and the weights of both as one."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast.errors import UsageError
from karl_fast.modeling.adapters import CONFIG
from karl_fast.modeling.load import load, require_adapter, require_mlx_lm
from karl_fast.settings.toml_text import TRAIN_FILE
from karl_fast.train.config import load as load_settings

if TYPE_CHECKING:
    from karl_fast.modeling.load import Loaded


@dataclass(frozen=True)
class Adapter:
    """An adapter on its model.

    Attributes:
        folder: of the adapter.
        model: the folder or the name of the model.
        loaded: the model with the adapter.
        config: of the adapter.
    """

    folder: Path
    model: str
    loaded: Loaded
    config: dict[str, Any]

    @property
    def remarks(self) -> list[str]:
        """Remarks on an adapter that was trained on another form of the model."""
        return [] if self.loaded.remark is None else [self.loaded.remark]

    def model_folder(self) -> Path:
        """Return the folder of the model on this machine."""
        path = Path(self.model)
        if path.is_dir():
            return path
        from mlx_lm.utils import hf_repo_to_path

        find: Any = hf_repo_to_path
        return Path(find(self.model))

    def fuse(self) -> None:
        """Put the adapter into the weights of the model, as `mlx_lm fuse` does."""
        from mlx.utils import tree_unflatten

        model = self.loaded.model
        fused = [(name, module.fuse()) for name, module in model.named_modules() if hasattr(module, "fuse")]
        if fused:
            model.update_modules(tree_unflatten(fused))


def open_adapter(folder: Path, model: str | None) -> Adapter:
    """Load an adapter onto its model.

    Raises:
        UsageError: no model is given, and the folder does not say which it is.
        ModelError: the model or the adapter is missing, or they do not fit.
    """
    require_mlx_lm()
    require_adapter(str(folder))
    model = model or _recorded_model(folder)
    if model is None:
        raise UsageError(f"{folder} does not say which model it was trained on: wanted it as --model", "model")
    loaded = load(model, str(folder))
    return Adapter(folder, model, loaded, json.loads((folder / CONFIG).read_text("utf-8")))


def _recorded_model(folder: Path) -> str | None:
    """Return the model that the settings beside an adapter name."""
    if (folder / TRAIN_FILE).is_file():
        path = load_settings(folder).model
        return os.path.normpath(path) if path is not None and Path(path).is_dir() else path
    try:
        value = json.loads((folder / CONFIG).read_text("utf-8")).get("model")
    except (OSError, ValueError, AttributeError):
        return None
    return value if isinstance(value, str) and value else None
