"""Checks that go wrong, which the doctor runs in a process of its own."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast.doctor import SkipCheckError
from karl_fast.errors import MissingExtraError

if TYPE_CHECKING:
    from karl_fast.doctor import Job, Save


def fine(job: Job, save: Save) -> dict[str, Any]:
    return {"answer": 42}


def raising(job: Job, save: Save) -> dict[str, Any]:
    save({"so_far": 1})
    raise ValueError(f"no file {Path.home()}/secret/log.jsonl of {os.environ['USER']}")


def raising_inside(job: Job, save: Save) -> dict[str, Any]:
    return {"operations": {"rope": {"error": f"in {Path.home()}", "traceback": f"by {os.environ['USER']}"}}}


def of_the_environment(job: Job, save: Save) -> dict[str, Any]:
    return {"environment": f"MLX_METAL_PATH={Path.home()}/mlx"}


def exiting(job: Job, save: Save) -> dict[str, Any]:
    raise SystemExit("needs ai2-olmo")


def ending(job: Job, save: Save) -> dict[str, Any]:
    os._exit(1)


def aborting(job: Job, save: Save) -> dict[str, Any]:
    save({"so_far": 2})
    os.abort()


def hanging(job: Job, save: Save) -> dict[str, Any]:
    time.sleep(60)
    return {}


def missing(job: Job, save: Save) -> dict[str, Any]:
    raise MissingExtraError("training needs mlx and mlx-lm, which are not installed")


def skipping(job: Job, save: Save) -> dict[str, Any]:
    raise SkipCheckError("nothing to do")
