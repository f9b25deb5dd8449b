"""The same draw from logs that are read by many processes or machines.

```text
plan: files -> splits -> scan: one task a split, on any executor -> parts -> join: columns -> select, draw
                                                                     records drawn <- tasks, or ranged reads
```

Each byte is read once, by a worker; rows of 50 to 80 bytes come back, and only the records drawn are read again. The
rows, the bytes of the data set and its manifest but for ``inputs`` and ``run`` are those of one machine, for any number
of workers, any size of splits and any order in which they arrive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karl_fast.distributed.log import read
from karl_fast.pipeline.sample import Sample, merge_settings
from karl_fast.pipeline.sample import sample as _sample
from karl_fast.settings.sample import Settings
from karl_fast.settings.sample_fields import show_keywords

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import Unpack

    from karl_fast.distributed.tasks import Submits
    from karl_fast.export.write import Progress
    from karl_fast.settings.sample_fields import SampleKeywords

__all__ = ["read", "sample"]


@show_keywords(Settings)
def sample(
    urls: str | Path | Iterable[str | Path],
    out: str | Path | None,
    settings: Settings | None = None,
    *,
    executor: Submits,
    split_bytes: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
    written: Progress | None = None,
    **choices: Unpack[SampleKeywords],
) -> Sample:
    """Draw a training set as `karl_fast.sample` does, with logs that an executor's workers read.

    Args:
        urls: files, folders and globs, which every worker has to see under the same path.
        out: the directory; None writes nothing.
        settings: every choice; ``choices`` change single ones.
        executor: what runs the tasks: a thread or process pool of ``concurrent.futures``, a
            `karl_fast.distributed.ray.RayExecutor`, a client of Dask, or anything else with ``submit`` whose
            futures have ``result`` and ``add_done_callback``. It stays open.
        split_bytes: bytes of a file of lines that one task reads, 64 MiB by default; arrays, and packed files other
            than zstd of several frames, are one task each. It changes no row.
        force: replace an existing data set.
        progress: called with the bytes that tasks have read so far and the bytes there are.
        written: called likewise with the bytes of rows written.

    Returns:
        The draw, as of `karl_fast.sample`.

    Raises:
        UsageError: for settings that need all records on one machine (functions of ``reward``), and as
            `karl_fast.sample`.
        WorkersLostError: workers ended before their tasks did.
        LogChangedError: a file changed while it was read.
        FileError, LogError, BadRowError, NothingToSampleError, OutputExistsError: as `karl_fast.sample`.
    """
    settings = merge_settings(urls, settings, choices)
    with read(urls, settings, executor=executor, split_bytes=split_bytes, progress=progress) as log:
        return _sample(log, out, force=force, written=written)
