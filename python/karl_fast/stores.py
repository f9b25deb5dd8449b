"""Objects of stores by URL: listed, read in ranges, and data sets written whole or not at all.

```text
s3://bucket/key  gs://bucket/key  az://container/key  https://host/path    obstore, extra `stores`
hf://datasets/OWNER/NAME/path  hf://buckets/OWNER/NAME/path                 huggingface_hub, extra `hub`
```

Credentials are those of the stores' own conventions (``AWS_ACCESS_KEY_ID``, ``GOOGLE_APPLICATION_CREDENTIALS``,
``AZURE_STORAGE_ACCOUNT_KEY``, ``HF_TOKEN`` and their like, roles of machines): none is read here, and a URL that holds
one is refused.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import json
import os
import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from karl_fast._extras import missing_extra
from karl_fast.errors import (
    FileError,
    KarlError,
    LogChangedError,
    OutputExistsError,
    OutputForeignError,
    OutputTakenError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMES = ("s3", "gs", "az", "http", "https", "hf")
"""Schemes of URLs that are read."""

READ_ONLY = ("http", "https")
"""Schemes of stores that take no objects."""

ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")
"""Variables that name another server of S3."""

RANGE_BYTES = 8 << 20
"""Bytes of one request: enough that its latency is little of it."""

IN_FLIGHT = 4
"""Requests for one range of an object at a time."""

ATTEMPTS = 3
"""Times that a range is asked for, where fewer bytes come than were asked for; the client retries failed requests."""

RETRY_SECONDS = 60
"""For how long the client retries a request."""


@dataclass(frozen=True)
class StoredObject:
    """An object as it was when it was listed.

    Attributes:
        url: its URL.
        size: its bytes.
        version: its ETag, or what stands in for one: differs once its bytes do.
        modified: the time of its last change, in seconds since 1970.
    """

    url: str
    size: int
    version: str
    modified: float


def is_url(name: object) -> bool:
    """Return whether the name of a log or an output is a URL.

    Raises:
        UsageError: of a scheme that is not read, or with a credential in it.
    """
    if not isinstance(name, str) or not (match := re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", name)):
        return False
    from urllib.parse import urlsplit  # logs in files do without

    scheme, parts = match[1].lower(), urlsplit(name)
    if scheme not in SCHEMES:
        raise UsageError(f"{scheme}:// is not read, wanted a path, or a URL of {', '.join(SCHEMES)}")
    if "@" in parts.netloc or (scheme != "hf" and parts.query):
        raise UsageError(
            f"the URL {scheme}://{parts.netloc.rpartition('@')[2]}{parts.path} has a name, a password or a query, "
            "which may be a credential and would stand in reports",
            hint="leave it out: credentials come from the store's own variables and files",
        )
    return True


class Store(Protocol):
    """A bucket, a host, or the hub."""

    def head(self, key: str) -> StoredObject:
        """Return one object; FileNotFoundError if there is none."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects whose keys begin so."""

    def read(self, key: str, start: int, end: int) -> tuple[bytes, StoredObject]:
        """Return bytes of an object, and the object that they are of."""

    def write(self, key: str, file: Path, *, new: bool) -> None:
        """Write an object; FileExistsError if it has to be new and is not."""

    def delete(self, key: str) -> None:
        """Delete an object."""


class ObjectStore:
    """A bucket or a host behind obstore."""

    def __init__(self, root: str) -> None:
        try:
            import obstore
            import obstore.exceptions
            from obstore.store import from_url
        except ModuleNotFoundError as error:
            raise missing_extra(f"{root} needs obstore, which is not installed", "stores") from error
        self.root = root
        self._obstore = obstore
        # A client refuses http: unless it is asked for: an address that begins so asks for it.
        addresses = (root, *(os.environ.get(name, "") for name in ENDPOINTS))
        client: Any = {"allow_http": True} if any(address.startswith("http:") for address in addresses) else None
        self._store: Any = from_url(
            root,
            client_options=client,
            retry_config={"max_retries": 5, "retry_timeout": timedelta(seconds=RETRY_SECONDS)},
        )

    def _object(self, meta: Any) -> StoredObject:
        modified = meta["last_modified"].timestamp()
        version = meta["e_tag"] or f"{modified}-{meta['size']}"
        return StoredObject(f"{self.root}/{meta['path']}", meta["size"], version, modified)

    def head(self, key: str) -> StoredObject:
        """Return one object; FileNotFoundError if there is none."""
        return self._object(self._obstore.head(self._store, key))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects whose keys begin so."""
        folder = prefix.rpartition("/")[0]  # a prefix of a store ends at a slash
        for chunk in self._obstore.list(self._store, prefix=folder or None):
            for meta in chunk:
                if meta["path"].startswith(prefix):
                    yield self._object(meta)

    def read(self, key: str, start: int, end: int) -> tuple[bytes, StoredObject]:
        """Return bytes of an object, and the object that they are of."""
        if start == end:
            return b"", self.head(key)
        answer = self._obstore.get(self._store, key, options={"range": (start, end)})
        return bytes(answer.bytes()), self._object(answer.meta)

    def write(self, key: str, file: Path, *, new: bool) -> None:
        """Write an object; an error if it has to be new and is not."""
        self._obstore.put(self._store, key, file, mode="create" if new else "overwrite")

    def delete(self, key: str) -> None:
        """Delete an object."""
        self._obstore.delete(self._store, key)


class Hub:
    """The Hugging Face hub."""

    def __init__(self, root: str) -> None:
        try:
            from huggingface_hub import HfFileSystem
        except ModuleNotFoundError as error:
            raise missing_extra(f"{root} needs huggingface_hub, which is not installed", "hub") from error
        self._files: Any = HfFileSystem(use_listings_cache=False)

    def _object(self, info: Any) -> StoredObject:
        lfs, commit = info.get("lfs") or {}, info.get("last_commit")
        version = lfs.get("sha256") or info.get("blob_id") or info.get("xet_hash") or f"{info['size']}"
        modified = commit.date.timestamp() if commit else 0.0
        return StoredObject(f"hf://{info['name']}", info["size"], str(version), modified)

    def head(self, key: str) -> StoredObject:
        """Return one object; FileNotFoundError if there is none."""
        info = self._files.info(key)
        if info["type"] != "file":
            raise FileNotFoundError(key)
        return self._object(info)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects whose keys begin so."""
        folder = prefix.rpartition("/")[0]
        for name, info in sorted(self._files.find(folder, detail=True).items()):
            if name.startswith(prefix):
                yield self._object(info)

    def read(self, key: str, start: int, end: int) -> tuple[bytes, StoredObject]:
        """Return bytes of an object, and the object that they are of."""
        return self._files.cat_file(key, start=start, end=end), self.head(key)

    def write(self, key: str, file: Path, *, new: bool) -> None:
        """Write an object; an error if it has to be new and is not."""
        if new and self._files.exists(key):
            raise FileExistsError(key)
        self._files.put_file(str(file), key)

    def delete(self, key: str) -> None:
        """Delete an object."""
        self._files.rm_file(key)


@functools.lru_cache(maxsize=64)
def _open_store(root: str) -> Store:
    return Hub(root) if root.startswith("hf:") else ObjectStore(root)


def _locate(url: str) -> tuple[Store, str]:
    """Return the store of a URL, and the key of the object."""
    from urllib.parse import unquote  # as in is_url

    scheme, rest = url.split("://", 1)
    if scheme.lower() == "hf":
        return _open_store("hf:/"), rest
    bucket, _, key = rest.partition("/")
    with _name_errors(url, "open"):
        return _open_store(f"{scheme.lower()}://{bucket}"), unquote(key) if scheme.startswith("http") else key


@contextlib.contextmanager
def _name_errors(url: str, doing: str) -> Iterator[None]:
    """Raise errors that name the URL in the place of those of a client."""
    try:
        yield
    except KarlError:
        raise
    except Exception as error:
        raise FileError(f"cannot {doing} {url}: {_reason(error)}", None, url, hint=_hint(error)) from None


def _reason(error: Exception) -> str:
    """Return why a client failed in one line, without addresses, whose queries may be credentials."""
    if isinstance(error, FileNotFoundError):
        return "there is no such object"
    text = re.sub(r"Debug source:.*", "", str(error), flags=re.DOTALL)
    text = re.sub(r"https?://\S+", "the store", " ".join(text.split()))
    return text[:300] or type(error).__name__


def _hint(error: Exception) -> str | None:
    if isinstance(error, FileNotFoundError):
        return None
    name = type(error).__name__
    if name in ("UnauthenticatedError", "PermissionDeniedError"):
        return "the store refused these credentials: check its variables and files"
    if "credential" in str(error).lower() or "169.254" in str(error):
        return "no credentials were found: set those of the store, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say"
    return None


GLOB = re.compile(r"[*?\[]")
"""Characters that make a URL a pattern."""


def list_url(url: str, suffixes: tuple[str, ...]) -> list[tuple[StoredObject, bool]]:
    """Return the objects that a URL names, each with whether it was found in a folder.

    A URL that ends in ``/``, or that names no object, is a folder: its objects whose names end in one of ``suffixes``
    are taken. One with ``*``, ``?`` or ``[`` is a pattern, in which ``*`` matches ``/`` too.

    Raises:
        FileError: there is no such object, or the store refuses.
        UsageError: a folder or pattern without any.
    """
    store, key = _locate(url)
    with _name_errors(url, "read"):
        if is_pattern := bool(GLOB.search(key)):
            prefix = key[: GLOB.search(key).start()]  # type: ignore[union-attr]
            entries = [(entry, False) for entry in store.list(prefix) if fnmatch.fnmatchcase(_key(entry.url), key)]
        elif key and not key.endswith("/"):
            with contextlib.suppress(FileNotFoundError):
                return [(store.head(key), False)]
            entries = [(entry, True) for entry in store.list(key + "/") if entry.url.endswith(suffixes)]
            if not entries:
                raise FileNotFoundError(url)
        else:
            entries = [(entry, True) for entry in store.list(key) if entry.url.endswith(suffixes)]
    if not entries:
        wanted = "matches" if is_pattern else f"ends in {', '.join(suffixes)} in"
        raise UsageError(f"no object {wanted} {url}")
    return sorted(entries, key=lambda pair: pair[0].url)


def stat_url(url: str) -> StoredObject:
    """Return one object.

    Raises:
        FileError: there is none, or the store refuses.
    """
    store, key = _locate(url)
    with _name_errors(url, "read"):
        return store.head(key)


def _key(url: str) -> str:
    scheme, rest = url.split("://", 1)
    return rest if scheme == "hf" else rest.partition("/")[2]


def refuse_changed(source: StoredObject) -> None:
    """Raise where an object is not what was listed.

    Raises:
        LogChangedError: it has another ETag or size.
        FileError: it cannot be read.
    """
    store, key = _locate(source.url)
    with _name_errors(source.url, "read"):
        _compare(source, store.head(key))


def _compare(source: StoredObject, now: StoredObject) -> None:
    if (now.version, now.size) != (source.version, source.size):
        raise LogChangedError(f"{source.url}: it changed after the run began")


def read_range(source: StoredObject, start: int, end: int) -> bytes:
    """Return bytes of an object, which is still what was listed.

    Raises:
        LogChangedError: it has another ETag or size.
        FileError: it cannot be read, or the store gives other bytes than asked for, several times.
    """
    store, key = _locate(source.url)
    with _name_errors(source.url, "read"):
        for _ in range(ATTEMPTS):
            text, now = store.read(key, start, end)
            _compare(source, now)
            if len(text) == end - start:
                return text
    raise FileError(
        f"cannot read {source.url}: {len(text):,} bytes came of the {end - start:,} from byte {start:,} on",
        None,
        source.url,
    )


def copy_range(source: StoredObject, start: int, end: int, to: Path, base: int) -> None:
    """Write a range of an object into a file, whose first byte is that at ``base``; several requests at a time.

    Raises:
        LogChangedError, FileError: as `read_range`.
    """
    from concurrent.futures import ThreadPoolExecutor  # which loads logging, and most runs read no store

    ranges = [(at, min(at + RANGE_BYTES, end)) for at in range(start, end, RANGE_BYTES)]
    with ThreadPoolExecutor(IN_FLIGHT) as pool, to.open("r+b") as file:
        # Few at a time: what is asked for waits in memory.
        for first in range(0, len(ranges), IN_FLIGHT):
            batch = ranges[first : first + IN_FLIGHT]
            for (at, _), text in zip(batch, pool.map(lambda r: read_range(source, *r), batch), strict=True):
                file.seek(at - base)
                file.write(text)


MANIFEST = "manifest.json"
CARD = "README.md"

OWN = (
    *("train.jsonl", "valid.jsonl", "test.jsonl", "train.parquet", "valid.parquet", "test.parquet"),
    CARD,
)
"""Files of a data set beside its manifest."""


@contextlib.contextmanager
def new_data_set(url: str, *, force: bool) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Yield a folder of this machine for a data set, and the function that uploads it.

    An empty ``train.jsonl`` that has to be new claims the place, the other files follow, and the manifest is written
    last: a data set exists when its manifest does. A run that fails or is interrupted deletes what it wrote; one that
    is killed leaves files without a manifest. With ``force`` the manifest of the data set that is replaced is deleted
    first.

    Raises:
        OutputExistsError: there is a data set, and ``force`` is not set.
        OutputForeignError: there is something else.
        OutputTakenError: another run writes there, or one ended before its manifest.
        UsageError: the store is read only.
        FileError: it cannot be read or written.
    """
    import tempfile  # as in is_url

    store, key = _locate(url)
    if url.startswith(READ_ONLY):
        raise UsageError(f"cannot write {url}: objects are written to s3://, gs://, az:// and hf://")
    folder = key.rstrip("/")
    if not folder:
        raise UsageError(f"cannot write {url}: the output needs a name of its own")
    _refuse_existing(store, folder, url, force=force)
    with tempfile.TemporaryDirectory(prefix="karl-fast-") as place:
        draft = Path(place, "data")
        yield draft, lambda: _upload(store, folder, url, draft, force=force)


def _refuse_existing(store: Store, folder: str, url: str, *, force: bool) -> bool:
    """Return whether a data set is there that is to be replaced."""
    with _name_errors(url, "read"):
        names = [entry.url.removeprefix(f"{url.rstrip('/')}/") for entry in store.list(folder + "/")]
        if not names:
            return False
        has_manifest = MANIFEST in names and _is_data_set(store, f"{folder}/{MANIFEST}")
    others = [name for name in names if name not in OWN]
    if set(names) == {CARD}:  # a card is uploaded last: alone it is of somebody else
        others = [CARD]
    if not has_manifest and others:
        raise OutputForeignError(f"{url}: it exists and holds {others[0]}, which no run writes")
    if not force:
        raise OutputExistsError(f"{url}: it exists") if has_manifest else _taken(url)
    return has_manifest


def _taken(url: str) -> OutputTakenError:
    return OutputTakenError(
        f"{url}: it has files of a data set and no manifest: another run writes there, or ended before it was done",
        hint="--force replaces what a run left that has ended",
    )


def _is_data_set(store: Store, key: str) -> bool:
    try:
        size = store.head(key).size
        manifest = json.loads(store.read(key, 0, size)[0])
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(manifest, dict) and {"schema", "karl_fast"} <= manifest.keys()


def _upload(store: Store, folder: str, url: str, draft: Path, *, force: bool) -> None:
    if _refuse_existing(store, folder, url, force=force):
        with _name_errors(url, "replace"):
            store.delete(f"{folder}/{MANIFEST}")
    names = sorted(
        (path.name for path in draft.iterdir() if path.name != MANIFEST), key=lambda name: (name == CARD, name)
    )
    written: list[str] = []
    with _name_errors(url, "write"):
        if not force:
            claim = draft.with_name("claim")
            claim.touch()
            _write_new(store, f"{folder}/{OWN[0]}", claim, url)
            written.append(OWN[0])
        try:
            for name in names:
                written.append(name)
                store.write(f"{folder}/{name}", draft / name, new=False)
            for name in set(OWN) - set(names):
                _delete(store, f"{folder}/{name}")  # of the data set that is replaced
            _write_new(store, f"{folder}/{MANIFEST}", draft / MANIFEST, url)
        except OutputTakenError:
            raise  # the files are now those of another run
        except BaseException:
            for name in written:
                with contextlib.suppress(Exception):
                    _delete(store, f"{folder}/{name}")
            raise


def _write_new(store: Store, key: str, file: Path, url: str) -> None:
    """Write an object where none is."""
    try:
        store.write(key, file, new=True)
    except Exception as error:
        if isinstance(error, FileExistsError) or type(error).__name__ == "AlreadyExistsError":
            raise _taken(url) from None
        raise


def _delete(store: Store, key: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        store.head(key)
        store.delete(key)
