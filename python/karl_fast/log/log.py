"""A log as columns of numbers, in memory or as an Arrow table; columns computed elsewhere replace those read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from karl_fast import _core
from karl_fast.errors import UsageError
from karl_fast.log.parquet_out import load, save

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from karl_fast.log.parquet_in import LeftOut
    from karl_fast.log.trl_rewards import SummedReward
    from karl_fast.settings.sample import Settings
    from karl_fast.typing import ArrowArray, ArrowStream

READ_SETTINGS = (
    *("format", "id", "group", "reward", "messages", "prompt", "completion", "system", "tools", "domain"),
    *("order_by", "strict"),
    "max_line_bytes",
)
"""Settings that can only be chosen when a log is read."""


def columns(settings: Settings) -> dict[str, Any]:
    """Return the format of records, and where each column of a log is in them."""
    return {
        "format": settings.format,
        "id": settings.id,
        "group": settings.group,
        "reward": settings.paths,
        "messages": settings.messages,
        "prompt": settings.prompt,
        "completion": settings.completion,
        "system": settings.system,
        "tools": settings.tools,
        "domain": settings.domain,
    }


def reader_settings(settings: Settings, *, fingerprint: bool) -> dict[str, Any]:
    """Return the settings of reading, which every worker needs."""
    compared = "records" if settings.shape == "raw" else "content"
    return {
        **columns(settings),
        "partition": settings.partition_field,
        "order": settings.order_by,
        "max_line_bytes": settings.max_line_bytes,
        "domain_asked": settings.domain_asked,
        "compare": compared if settings.dedup or fingerprint else None,
        "strict": settings.strict,
        "threads": settings.threads,
    }


class ObjectFacts(NamedTuple):
    """A file whose bytes are not here.

    Attributes:
        version: what stands for its bytes in the store; None of a file of a file system.
        codec: its compression.
    """

    version: str | None
    codec: str


class Log:
    """Records of files as columns, in an order that depends on the records alone.

    Rows are in the order of (hash of the id, hash of the record), independent of the order in files.
    B is the number of records.

    A log is an Arrow table for libraries with the PyCapsule protocol: ``polars.DataFrame(log)``,
    ``pyarrow.table(log)``, ``duckdb.sql("from log")``. Its columns are ``row`` (the row number), ``id_hash`` (16 bytes:
    XXH3-128 of the id), ``ordinal`` (which of the records of one id), ``group``, ``domain``, ``reward`` (null where it
    is missing), ``reward.PATH`` for each component, ``log_weight``, ``partition`` and ``trajectory_hash`` where there
    are some, and ``file``, ``offset`` and ``length`` (bytes of the unpacked file) of the record.
    """

    def __init__(
        self,
        core: _core.Log,
        settings: Settings,
        spool: contextlib.ExitStack,
        replaced_columns: tuple[dict[str, Any], ...] = (),
        functions: dict[str, dict[str, Any]] | None = None,
        passed: Sequence[str] = (),
        unrewarded: Sequence[str] = (),
        left_out: Sequence[tuple[str, LeftOut]] = (),
        skipped: Sequence[tuple[str, str]] = (),
        summed: Sequence[tuple[str, SummedReward]] = (),
        objects: Mapping[str, ObjectFacts] | None = None,
        excluded: dict[str, Any] | None = None,
        trees: dict[str, Any] | None = None,
        log_factors: NDArray[np.float64] | None = None,
        tree_roots: NDArray[np.int64] | None = None,
    ) -> None:
        self.core = core
        self.settings = settings
        # What each call of with_columns replaced, for the manifest.
        self.replaced_columns = replaced_columns
        # What scored the components that were not read, for the manifest.
        self.functions = functions
        # Files of folders that were skipped for their names.
        self.passed = passed
        # Hidden files of folders and links that lead nowhere, each with the reason.
        self.skipped = skipped
        # Which rewards functions left missing, and why, in sentences.
        self.unrewarded = unrewarded
        # Columns of Parquet files that are in no record.
        self.left_out = left_out
        # Rewards that are sums of columns of Parquet files.
        self.summed = summed
        # Files that lie elsewhere, or that other processes unpack, by name.
        self.objects = objects or {}
        # Prompts that must not be learned from: their file, and the rows whose rewards were set aside for them.
        self.excluded = excluded
        # Trees of trajectories, whose rows have the reward of their root: their number, and factors of the weights.
        self.trees = trees
        self.log_factors = log_factors
        self.tree_roots = tree_roots  # the row of the root of each row
        # Standard input was copied into a temporary file, which the second pass still needs.
        self._spool = spool

    def __len__(self) -> int:
        return len(self.core)

    def __repr__(self) -> str:
        return f"Log({len(self)} records from {len(self.inputs)} files)"

    def _repr_html_(self) -> str:
        """Return a table and the histogram of the rewards, for the output of a cell of a notebook."""
        from karl_fast._plots import Series, Shares, counts_table, fragment, histogram

        rewards = self.rewards
        known = rewards[rewards == rewards]  # without NaN
        facts = {"records": len(self), "files": len(self.inputs), "groups": self.core.distinct("group")}
        facts |= {"domains": self.core.distinct("domain"), "rewards": len(known)}
        if not len(known):
            return fragment(counts_table(facts))
        shares = Shares(known.tolist())
        plot = histogram("Rewards", shares.edges, [Series("", shares.counts, float(known.mean()))], axis="reward")
        return fragment(counts_table(facts | {"mean reward": float(known.mean())}), plot.html())

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove temporary files; the columns stay, but ``export`` no longer works if the input was a pipe."""
        self._spool.close()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        del requested_schema  # the protocol allows another schema than the requested one
        return self.core.arrow_stream(**self._columns())

    def __arrow_c_schema__(self) -> object:
        return self.core.arrow_schema(**self._columns())

    def _columns(self) -> dict[str, Any]:
        partition = self.settings.partition_field is not None
        return {
            "components": list(self.settings.reward or ()),
            "weights": self.settings.weights,
            "partition": partition,
        }

    def to_parquet(self, path: str | Path, *, force: bool = False) -> None:
        """Write the columns as one Parquet file, whole or not at all; needs the extra ``arrow``.

        Args:
            path: the file.
            force: replace an existing file.

        Raises:
            MissingExtraError: pyarrow is not installed.
            OutputExistsError: the file exists, or the log is read from it.
            FileError: it cannot be written; nothing is left behind.
        """
        save(self, Path(path), force=force, read=[file["path"] for file in self.inputs])

    def with_columns(
        self,
        frame: ArrowStream | ArrowArray | str | Path,
        *,
        reward: str | None = None,
        group: str | None = None,
        domain: str | None = None,
        log_weight: str | None = None,
    ) -> Log:
        """Return a log with columns computed elsewhere, for ``sample``, ``inspect`` and ``export``.

        Rows are matched by the frame's column ``row``, if it has one: they may be filtered, sorted and joined, and a
        record that is not in the frame has no reward, and so is not drawn. Without it, the frame's rows are the log's
        rows, one by one. Rewards, groups and domains mean the same as if they had been read; all columns are copied.

        Args:
            frame: a table of polars, pandas, pyarrow, DuckDB or any library with Arrow's PyCapsule protocol; or the
                path of a Parquet file, which needs the extra ``arrow``.
            reward: the name of a column of numbers, of any type (true is 1); null and NaN are missing. It replaces all
                components.
            group: the name of a column of strings, integers, decimals or booleans, plain or dictionary-encoded; null is
                no group.
            domain: the same for the domain.
            log_weight: the name of a column of numbers, the logarithm of a weight up to any constant. The draw uses it
                instead of score, temperature and partition; null, NaN and minus infinity are never drawn.

        Raises:
            DTypeError: a column of another type; text is not a number.
            LayoutError: a number of rows other than that of the log, or a failed exchange.
            ArgumentError: no such column, a row that is not in the log or occurs twice, or a number that is not a valid
                reward or log-weight.
            MissingExtraError, FileError: a path without pyarrow, or one that cannot be read.
        """
        names = {"reward": reward, "group": group, "domain": domain, "log_weight": log_weight}
        columns = {role: name for role, name in names.items() if name is not None}
        table = load(Path(frame), {"row", *columns.values()}) if isinstance(frame, str | Path) else frame
        core, rows, by_row = self.core.with_columns(table, **columns)
        record = {"columns": columns, "matched_by": "row" if by_row else "position", "rows": rows}
        replaced: dict[str, Any] = {role: None for role in columns if role != "log_weight"}
        settings = self.settings.replace(**replaced)
        functions, unrewarded = (self.functions, self.unrewarded) if reward is None else (None, ())
        replaced_columns = (*self.replaced_columns, record)
        more = (self.passed, unrewarded, self.left_out, self.skipped, self.summed, self.objects)
        return Log(core, settings, self._spool, replaced_columns, functions, *more)

    def under(self, settings: Settings) -> Log:
        """Return the same columns under other settings.

        Raises:
            UsageError: a setting that only reading could have followed.
        """
        for name in READ_SETTINGS:
            if getattr(settings, name) != getattr(self.settings, name):
                value, value_read = getattr(settings, name), getattr(self.settings, name)
                raise UsageError(f"{name} is {value!r}, but the log was read with {value_read!r}: read it again")
        field = settings.partition_field
        if field is not None and field != self.settings.partition_field:
            raise UsageError(f"partition_by is {field}, but the log was read without that field: read it again")
        if settings.dedup and self.core.compared is None:
            raise UsageError("dedup wants hashes of trajectories, but the log was read without: read it with dedup")
        if settings.dedup and (self.settings.shape == "raw") != (settings.shape == "raw"):
            value_read, now = self.settings.shape, settings.shape
            raise UsageError(
                f"dedup compares other things for {now} rows than for {value_read} rows: read the log again"
            )
        if settings.shape == "raw" and self.left_out:
            path, (column, _) = self.left_out[0]
            raise UsageError(f"shape is raw, but the log was read without the column {column} of {path}: read it so")
        return self._changed(self.core, settings)

    def of(
        self,
        core: _core.Log,
        excluded: dict[str, Any] | None,
        trees: dict[str, Any] | None = None,
        log_factors: NDArray[np.float64] | None = None,
        tree_roots: NDArray[np.int64] | None = None,
    ) -> Log:
        """Return the same log with other columns; ``excluded`` and ``trees`` are what a manifest has of them."""
        log = self._changed(core, self.settings, excluded)
        if trees is not None:
            log.trees, log.log_factors, log.tree_roots = trees, log_factors, tree_roots
        return log

    def _changed(self, core: _core.Log, settings: Settings, excluded: dict[str, Any] | None = None) -> Log:
        facts = (self.functions, self.passed, self.unrewarded, self.left_out, self.skipped, self.summed, self.objects)
        trees = (self.trees, self.log_factors, self.tree_roots)
        return Log(core, settings, self._spool, self.replaced_columns, *facts, excluded, *trees)

    @property
    def rewards(self) -> NDArray[np.float64]:
        """The reward: the weighted sum of its components; NaN where one is missing, but for those that functions make
        and those of an outcome, as `karl_fast.reward.Composite` says. [B]
        """
        return _core.rewards_of(self.core, self.settings.weights)

    @property
    def components(self) -> dict[str, NDArray[np.float64]]:
        """The reward's components by path. [B] each"""
        names = self.settings.reward or {"reward": 1.0}
        return {name: self.core.component(index) for index, name in enumerate(names)}

    @property
    def groups(self) -> NDArray[np.int64]:
        """The number of each record's group; -1 where it has none. [B]"""
        return self.core.codes("group")

    @property
    def group_names(self) -> list[str]:
        """The name of each group, by number."""
        return self.core.names("group")

    @property
    def domains(self) -> NDArray[np.int64]:
        """The number of each record's domain; -1 where it has none. [B]"""
        return self.core.codes("domain")

    @property
    def domain_names(self) -> list[str]:
        """The name of each domain, by number."""
        return self.core.names("domain")

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Keys of each record's randomness: low and high half of its 128-bit id, and its ordinal. [B, 3]"""
        return self.core.keys()

    @property
    def inputs(self) -> list[_core.InputFacts]:
        """Counts of each file, with the places of its first bad rows."""
        return self.core.inputs()
