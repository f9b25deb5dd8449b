"""The process of a check: `python -m karl_fast.doctor.child JOB.json`; its outcome is a file.

An exception is an outcome like others. Without one MLX ended the process, or its time was up, and Python has written
the stack to stderr.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

from karl_fast.doctor import FAILED, GRACE_SECONDS, NOT_INSTALLED, OK, SKIPPED, Job, Sizes, SkipCheckError
from karl_fast.errors import MissingExtraError


def main(order: str) -> None:
    """Run the check of a file, and write its outcome."""
    job = json.loads(Path(order).read_text("utf-8"))
    module, name = job.pop("function").split(":")
    answer = Path(job.pop("answer"))
    faulthandler.enable()
    faulthandler.dump_traceback_later(max(1.0, job["seconds"] - GRACE_SECONDS), exit=True)
    result: dict[str, Any] = {}

    def write(**outcome: Any) -> None:
        draft = answer.with_suffix(".draft")
        draft.write_text(json.dumps(outcome), encoding="utf-8")
        draft.replace(answer)

    def save(so_far: dict[str, Any]) -> None:
        result.update(so_far)
        write(status=FAILED, result=result)

    try:
        check = getattr(import_module(module), name)
        result |= check(Job(**job | {"sizes": Sizes(**job["sizes"])}), save)
        write(status=OK, result=result)
    except SkipCheckError as error:
        write(status=SKIPPED, result=result, reason=str(error))
    except MissingExtraError as error:
        write(status=NOT_INSTALLED, result=result, reason=str(error))
    except (Exception, SystemExit) as error:  # models of mlx-lm that miss a package exit
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        write(status=FAILED, result=result, reason=reason, traceback=traceback.format_exc())
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(sys.argv[1])
