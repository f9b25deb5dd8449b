"""Exceptions of karl-fast.

Each class is also the class of the standard library that it is a case of, so that code which knows nothing of
karl-fast can catch it. ``exit_code`` is what the command line ends with, ``hint`` what it says after the error. To add
one, derive it here and raise it from Python, or import it in ``rust/karl-py/src/boundary/error.rs``.
"""

from __future__ import annotations

from errno import EDQUOT, ENOSPC

FULL = (ENOSPC, EDQUOT)
"""The numbers of errors by which the system says that no room is left."""


def _redacted(text: str) -> str:
    from karl_fast import _core  # which takes the classes of errors from here

    return _core.redacted(text.encode("utf-8", "backslashreplace").decode())


class KarlError(Exception):
    """The root of the tree.

    Args:
        args: the message, and what the class of the standard library takes.
        hint: what a user can do about it, in place of the hint of the class.
    """

    exit_code = 1
    hint: str | None = None

    def __init__(self, *args: object, hint: str | None = None) -> None:
        super().__init__(*args)
        if hint is not None:
            self.hint = hint

    def __str__(self) -> str:
        """Return the message without secrets: a path may hold one."""
        return _redacted(super().__str__())


class UsageError(KarlError, ValueError):
    """Invalid or conflicting settings.

    ``settings`` are the arguments named in the message; the command line replaces them by its options.
    """

    exit_code = 2

    def __init__(self, message: str, *settings: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.settings = settings


class IncoherentObjectiveError(UsageError):
    """Points of an objective that do not go together."""


class ArgumentError(KarlError, ValueError):
    """A value inside an array or a number that a formula cannot take; the message names its place."""


class DTypeError(KarlError, TypeError):
    """An array of another element type than wanted; nothing is cast in silence."""


class LayoutError(KarlError, ValueError):
    """An array of another shape than wanted, or not contiguous; nothing is copied in silence."""


class LogError(KarlError, ValueError):
    """A file that holds no records."""

    hint: str | None = "name what its records hold (--reward, --messages, ...), or give a glob that leaves the file out"


class ColumnError(LogError):
    """A column of Parquet that cannot be a key of records: JSON has no form for its type, or two have one name."""

    hint = "write the file without the column, or cast it to strings; a column of ids (--id) may do without it"


class AlreadyConvertedError(LogError):
    """An input of a conversion that is already the output of one."""

    hint = "karl-fast sample reads it as it is"


class TranscriptError(LogError):
    """A transcript of an agent, where a log of records is wanted."""

    hint = "karl-fast convert makes a log of it; --rate result, karl-v1 or karl-v2 gives rewards where it has none"


class BadRewardError(LogError):
    """A log without any convertible record, in which the first damage is a reward that is not a finite number."""

    hint = "a reward is a finite number, or null for none; sample --reward FIELD takes that of another field"


PACKED_HINTS = {
    "tar": "tar -xOf FILE | karl-fast sample - reads what is in it",
    "Parquet": "give it a name that ends in .parquet",
}
"""Hint for a packed file, by its format."""


class PackedError(LogError):
    """A file in a compression that is not supported, with the name of that compression."""

    def __init__(self, message: str, packer: str) -> None:
        super().__init__(message)
        self.packer = packer
        self.hint = PACKED_HINTS.get(packer, "unpack it, or pack it with gzip or zstd")

    def __reduce__(self) -> tuple[type[PackedError], tuple[str, str]]:
        return type(self), (str(self), self.packer)


class EncodingError(LogError):
    """A file in an encoding other than UTF-8, with the name of that encoding."""

    def __init__(self, message: str, encoding: str) -> None:
        super().__init__(message)
        self.encoding = encoding
        self.hint = f"convert it: iconv -f {encoding} -t UTF-8"

    def __reduce__(self) -> tuple[type[EncodingError], tuple[str, str]]:
        return type(self), (str(self), self.encoding)


class ByNameError(LogError):
    """An object with records as values, each under its name; the hint is the command that turns them into lines."""

    def __init__(self, message: str, path: str = "", holder: str = ".") -> None:
        import shlex  # which loads `re`, and most runs need neither

        super().__init__(message)
        entries = "to_entries" if holder == "." else f"{holder} | to_entries"
        program = f"{entries}[] | {{id: .key}} + .value"
        unpacked = next((f"{tool} -dc" for end, tool in UNPACKERS.items() if path.endswith(end)), None)
        text = f"{unpacked} {shlex.quote(path)} | " if unpacked else ""
        named = "" if unpacked or path == "-" else f" {shlex.quote(path)}"
        self.hint = f"{text}jq -c {shlex.quote(program)}{named} > records.jsonl"
        self.arguments = (message, path, holder)

    def __reduce__(self) -> tuple[type[ByNameError], tuple[str, str, str]]:
        return type(self), self.arguments


UNPACKERS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
"""Program that unpacks files with each suffix."""


class LogChangedError(LogError):
    """A file that changed after it was scanned."""

    hint = "copy the log before it is sampled, or wait until nothing writes to it but at its end"


class WorkersLostError(KarlError, RuntimeError):
    """Workers that ended before their tasks did."""

    hint = "run it again: nothing was written; a worker may have lacked memory, and smaller splits need less of it"


class FileError(KarlError, OSError):
    """The operating system refused a file; ``errno`` and ``filename`` are set."""

    def __init__(
        self, message: str, errno: int | None = None, filename: str | None = None, *, hint: str | None = None
    ) -> None:
        self.message = message.removesuffix(f" (os error {errno})")  # what Rust adds: the number is an attribute here
        super().__init__(errno, self.message, filename, hint=hint)

    def __str__(self) -> str:
        return _redacted(self.message)

    def __reduce__(self) -> tuple[type[FileError], tuple[str, int | None, str | None]]:
        return type(self), (self.message, self.errno, self.filename)


class DataSetError(KarlError, ValueError):
    """A folder or a file that is not a data set of karl-fast, or a damaged one; the message names the line."""


class RewardError(KarlError, ValueError):
    """A reward function that raises, or returns an invalid reward; the message names it, and the row."""


class BadRowError(KarlError, ValueError):
    """A row that is not a record, where every row has to be one."""

    exit_code = 3
    hint = "without --strict the run goes on, and counts such rows by reason"


class NothingToSampleError(KarlError, ValueError):
    """Error if no row is left to draw."""

    exit_code = 4


class OutputExistsError(KarlError, FileExistsError):
    """An output that already exists."""

    exit_code = 5
    hint = "--force replaces it"


class OutputForeignError(OutputExistsError):
    """Something that karl-fast did not write is in the place of the output: it is never replaced."""

    hint = "give the output another name: what karl-fast did not write is never replaced"


class OutputTakenError(OutputExistsError):
    """An output path that changed during the run; its content is not touched."""

    hint = "give the output another name: the same run gives the same result"


class MissingExtraError(KarlError, ImportError):
    """A package that an extra installs is not there."""


class ModelError(KarlError, ValueError):
    """A model that is not there, or that cannot be trained as asked."""

    hint = "--model takes a folder that mlx_lm convert wrote, or the name of a model on the Hugging Face hub"


class TemplateError(KarlError, ValueError):
    """A chat template that fails on a row, or that changes the text of earlier turns."""


class NothingToTrainError(KarlError, ValueError):
    """Error if no row is left to train or evaluate on."""

    exit_code = 4


class CheckpointError(KarlError, ValueError):
    """A checkpoint that is damaged, or of another run."""


class OverlapError(KarlError, ValueError):
    """Held-out data that an adapter learned from or was chosen on, or an adapter without a record of what it saw."""


class DivergedError(KarlError, ArithmeticError):
    """A run with gradients that are no longer finite."""

    hint = "a lower --learning-rate, a longer --warmup or a smaller --max-grad-norm may hold it"


class AlarmError(KarlError, ArithmeticError):
    """A run that an alarm stopped; the hint says what to change."""


class RunFailedError(KarlError, ChildProcessError):
    """A run of an experiment whose process ended with an error."""
