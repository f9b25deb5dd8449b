"""The tiny model of the tests of training."""

from __future__ import annotations

from tests.unit.train.conftest import tiny_model

__all__ = ["tiny_model"]
