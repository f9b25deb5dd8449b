"""Upload of a data set to the Hugging Face hub, private by default.

```text
folder -> unchanged since it was written? -> no secret in any row? -> repository -> rows, card, manifest last
```

A file that the repository holds already with the same bytes is not uploaded again, so a push that was interrupted goes
on where it ended. The manifest comes last: a data set is whole when its manifest is there.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast import _core
from karl_fast._extras import missing_extra
from karl_fast._safe_text import counted, describe_exception
from karl_fast.errors import DataSetError, FileError, KarlError, UsageError
from karl_fast.export.card import CARD, add_license
from karl_fast.export.data_set_reader import MANIFEST, DataSet, open_data_set
from karl_fast.export.manifest import dumps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from karl_fast.export.manifest import Manifest

    Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class PushResult:
    """A data set in the hub.

    Attributes:
        repository: its name, OWNER/NAME.
        url: its page.
        uploaded: names of the files that were uploaded.
        unchanged: names of the files that were there already.
        private: whether only its owner sees it.
    """

    repository: str
    url: str
    uploaded: tuple[str, ...]
    unchanged: tuple[str, ...]
    private: bool


def push(
    folder: str | Path,
    repository: str,
    *,
    license: str | None = None,
    public: bool = False,
    progress: Progress | None = None,
) -> PushResult:
    """Upload a data set that ``karl-fast sample`` wrote.

    The token is that of huggingface_hub: ``HF_TOKEN``, or what ``hf auth login`` stored.

    Args:
        folder: the data set.
        repository: OWNER/NAME; it is created if there is none.
        license: the hub's identifier of the licence that the card names; None names none.
        public: create a public repository, or write into one.
        progress: called with the bytes that are there and those of the data set.

    Returns:
        What was uploaded.

    Raises:
        MissingExtraError: huggingface_hub is not installed.
        DataSetError: the folder is not a data set, was edited, was drawn without the search for secrets, or a row
            holds a secret.
        UsageError: the name or the licence is none; or the repository is public, and ``public`` is not set.
        FileError: a file cannot be read, or the hub refuses.
    """
    if repository.count("/") != 1 or not all(repository.split("/")):
        raise UsageError(f"the repository is {repository!r}, wanted OWNER/NAME")
    try:
        from huggingface_hub import HfApi
    except ModuleNotFoundError as error:
        raise missing_extra("push needs huggingface_hub, which is not installed", "hub") from error
    data = open_data_set(folder)
    contents = dict(_contents(data, license))
    refuse_secrets(data)
    card = contents.get(CARD)
    if isinstance(card, bytes) and _core.redacted(card.decode("utf-8")) != card.decode("utf-8"):
        raise DataSetError(f"{data.path}/{CARD} holds text that looks like a secret", hint="take it out")
    return _upload(HfApi(), repository, contents, public=public, progress=progress)


def refuse_secrets(data: DataSet) -> None:
    """Raise unless a data set was written with the search for secrets, and the search finds nothing in it now.

    Args:
        data: the data set.

    Raises:
        DataSetError: it was not, or a row holds a secret; the message names the first row.
        FileError: it cannot be read.
    """
    if data.manifest is None:
        raise DataSetError(f"{data.path} is a file, and only the folder of a data set can be pushed")
    if data.manifest["settings"].get("allow_secrets"):
        raise DataSetError(
            f"{data.path} was drawn with --allow-secrets, so its rows may hold secrets",
            hint="draw it again without --allow-secrets",
        )
    counts: Counter[str] = Counter()
    bad: list[tuple[str, int]] = []
    for row in data.rows():
        counts[row.split] += 1
        line = row.line.decode("utf-8")
        if _core.redacted(line) != line:
            bad.append((row.split, counts[row.split]))
    if bad:
        split, number = bad[0]
        raise DataSetError(
            f"{data.path}: {counted(len(bad), 'row holds', 'rows hold')} text that looks like a secret, "
            f"the first is row {number:,} of {split}",
            hint="draw it again with this version, which replaces what it finds",
        )


def _contents(data: DataSet, license: str | None) -> Iterator[tuple[str, Path | bytes]]:
    """Yield each file of a data set, in the order of the upload: a path, or the bytes of one that is changed.

    Raises:
        DataSetError: a file is not as it was written, or the manifest names none.
    """
    folder, files = Path(data.path), (data.manifest or {})["export"].get("files", {})
    if not files:
        raise DataSetError(f"{folder} has a manifest that names no files", hint="draw the data set again")
    for name, facts in sorted(files.items()):
        if name != CARD:
            _refuse_edited(folder / name, facts)
            yield name, folder / name
    if license is not None or (folder / CARD).is_file():
        card = _read(folder / CARD).decode("utf-8")
        yield CARD, (card if license is None else add_license(card, license)).encode()
    yield MANIFEST, dumps(_without_places(data.manifest or {})).encode()


FILES = ("exclude", "tokenizer", "pseudonyms")
"""Settings that are paths."""


def _without_places(manifest: Manifest) -> Manifest:
    """Return a manifest with the names of files in the place of their paths, and without the facts about the run."""
    settings = manifest["settings"]
    inputs = [
        {key: value for key, value in file.items() if key not in ("beside", "bad_rows")}
        | {"path": Path(file["path"]).name}
        for file in manifest["inputs"]
    ]
    public = {key: value for key, value in manifest.items() if key != "run"}
    paths: dict[str, Any] = {name: Path(settings[name]).name for name in FILES if settings.get(name)}
    if settings.get("reward"):
        paths["reward"] = {name: _without_folder(part) for name, part in settings["reward"].items()}
    if functions := manifest.get("reward_functions"):
        public["reward_functions"] = {name: _without_folder(part) for name, part in functions.items()}
    if excluded := manifest.get("excluded"):
        public["excluded"] = excluded | {"path": Path(excluded["path"]).name}
    return public | {"inputs": inputs, "settings": settings | paths}


def _without_folder(reward: Any) -> Any:
    """Return a reward with the name of the file of its function in the place of its path."""
    return reward | {"fn": Path(reward["fn"]).name} if isinstance(reward, dict) and "fn" in reward else reward


def _refuse_edited(file: Path, facts: dict[str, Any]) -> None:
    size, digest = _core.file_digest(file)
    if (size, digest) != (facts["size_bytes"], facts["xxh3_128"]):
        raise DataSetError(f"{file} is not as karl-fast wrote it", hint="draw the data set again")


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise FileError(f"cannot read {file}: {error.strerror}", error.errno, str(file)) from error


def _upload(
    api: Any, repository: str, contents: dict[str, Path | bytes], *, public: bool, progress: Progress | None
) -> PushResult:
    """Upload the files that a repository does not have, one commit a file."""
    from huggingface_hub import utils

    utils.disable_progress_bars()  # type: ignore[attr-defined]  # progress is that of the whole data set
    total, sent = sum(map(_size, contents.values())), 0
    uploaded: list[str] = []
    unchanged: list[str] = []
    try:
        url = api.create_repo(repository, repo_type="dataset", private=not public, exist_ok=True)
        info = api.dataset_info(repository, files_metadata=True)
        if not info.private and not public:
            raise UsageError(
                f"{repository} is public", hint="--public writes into it; or make it private in its settings"
            )
        there = {file.rfilename: _remote_digest(file) for file in info.siblings or ()}
        for name, content in contents.items():
            if there.get(name) in _digests(content):
                unchanged.append(name)
            else:
                api.upload_file(
                    path_or_fileobj=content,
                    path_in_repo=name,
                    repo_id=repository,
                    repo_type="dataset",
                    commit_message=f"karl-fast: {name}",
                )
                uploaded.append(name)
            sent += _size(content)
            if progress is not None:
                progress(sent, total)
    except KarlError:
        raise
    except Exception as error:  # of the client, or of the HTTP library below it
        raise FileError(
            f"cannot push to {repository}: {describe_exception(error)}", None, repository, hint=AGAIN
        ) from error
    return PushResult(repository, str(url), tuple(uploaded), tuple(unchanged), bool(info.private))


AGAIN = "the same command goes on with the files that are missing; HF_TOKEN, or hf auth login, gives the token"


def _size(content: Path | bytes) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def _remote_digest(file: Any) -> str | None:
    """Return the SHA-256 of a large file in the hub, or git's SHA-1 of a small one."""
    digest: str | None = file.lfs.sha256 if file.lfs else file.blob_id
    return digest


def _digests(content: Path | bytes) -> tuple[str, str]:
    """Return both digests of a content."""
    size = _size(content)
    large, small = hashlib.sha256(), hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    for block in _blocks(content):
        large.update(block)
        small.update(block)
    return large.hexdigest(), small.hexdigest()


def _blocks(content: Path | bytes) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while block := file.read(1 << 20):
            yield block
