"""Tasks on any executor: a bounded number at a time, in any order, again where a worker is lost or late."""

from __future__ import annotations

import queue
import statistics
import time
from concurrent.futures import BrokenExecutor, CancelledError
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from karl_fast.errors import KarlError, WorkersLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class Future(Protocol):
    """Handle that ``submit`` returns."""

    def result(self) -> Any:
        """Return the result, or raise the error of the task."""

    def add_done_callback(self, function: Callable[[Any], object], /) -> object:
        """Have a function called with the future when it is done."""


class Submits(Protocol):
    """Anything that runs functions elsewhere."""

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future:
        """Run a function of a module with arguments that can be pickled."""


ATTEMPTS = 3
"""Times that a task is given to a worker, where workers are lost."""

LATE_SECONDS, LATE_FACTOR = 30.0, 4.0
"""A task is late after so many seconds, and so many times the median of those that are done."""

UNKNOWN_WORKERS = 64
"""Workers assumed of an executor that does not tell their number."""

ENGINES = ("ray.", "distributed.", "dask.")
"""Modules of errors by which engines say that a worker is lost, as opposed to the errors of tasks."""


@dataclass
class Task:
    """A task that is submitted and not done."""

    submitted: float
    attempts: int = 1
    futures: list[Future] = field(default_factory=list)

    def count_lost(self, error: BaseException, what: str) -> None:
        """Count an attempt whose worker was lost.

        Raises:
            WorkersLostError: it was the last, or no worker is left.
            KarlError: the error is that of the task.
        """
        _check_lost(error, what)
        if self.attempts >= ATTEMPTS:
            raise WorkersLostError(f"a worker was lost {self.attempts} times, {what}: {_first_line(error)}") from error
        self.attempts += 1


def run_tasks(
    executor: Submits,
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    describe: Callable[[int], str],
) -> Iterator[tuple[int, Any]]:
    """Yield the number and the result of each task once, as they are done.

    At most twice as many tasks as there are workers are submitted at a time, which bounds the results that wait here.
    A task whose worker is lost is submitted again; so is one that is late when nothing else is left to submit: the
    first result counts. A task gives the same result however often it runs.

    Args:
        executor: what runs them.
        function: of a module, so that it can be pickled.
        tasks: its arguments, task by task.
        describe: returns what a task does, for errors.

    Raises:
        WorkersLostError: the executor takes no tasks any more, or lost the workers of one task several times.
        KarlError: that of a task.
    """
    done: queue.SimpleQueue[tuple[int, Future]] = queue.SimpleQueue()
    open_tasks: dict[int, Task] = {}
    durations: list[float] = []

    def submit(number: int) -> Future:
        try:
            future = executor.submit(function, *tasks[number])
        except (BrokenExecutor, RuntimeError) as error:
            raise WorkersLostError(f"the executor takes no task, {describe(number)}: {error}") from error
        future.add_done_callback(lambda future: done.put((number, future)))
        return future

    todo, most = iter(range(len(tasks))), 2 * _count_workers(executor)
    try:
        while True:
            while len(open_tasks) < most and (number := next(todo, None)) is not None:
                open_tasks[number] = Task(time.monotonic(), futures=[submit(number)])
            if not open_tasks:
                return
            try:
                number, future = done.get(timeout=1.0)
            except queue.Empty:
                if len(open_tasks) < most:
                    _repeat_late(open_tasks, durations, submit)
                continue
            if (task := open_tasks.get(number)) is None:
                continue  # done already, by another worker
            try:
                result = future.result()
            except BaseException as error:
                task.count_lost(error, describe(number))
                task.futures.append(submit(number))
                continue
            durations.append(time.monotonic() - task.submitted)
            del open_tasks[number]
            yield number, result
    finally:
        for task in open_tasks.values():
            for future in task.futures:
                getattr(future, "cancel", lambda: None)()


def _count_workers(executor: Submits) -> int:
    for name in ("max_workers", "_max_workers"):
        if isinstance(workers := getattr(executor, name, None), int):
            return max(1, workers)
    return UNKNOWN_WORKERS


def _repeat_late(open_tasks: dict[int, Task], durations: list[float], submit: Callable[[int], Future]) -> None:
    """Submit tasks again that take much longer than others took."""
    limit = max(LATE_SECONDS, LATE_FACTOR * statistics.median(durations or [0.0]))
    now = time.monotonic()
    for number, task in open_tasks.items():
        # Each attempt has as much time again.
        if task.attempts < ATTEMPTS and now - task.submitted > limit * task.attempts:
            task.attempts += 1
            task.futures.append(submit(number))


def _check_lost(error: BaseException, what: str) -> None:
    """Raise the error of a task, unless it says that its worker is lost and another may do it."""
    cause = getattr(error, "cause", None)  # Ray wraps what a task raises
    if isinstance(cause, KarlError):
        raise cause from None
    if isinstance(error, BrokenExecutor):
        raise WorkersLostError(f"the workers ended, {what}: {_first_line(error)}") from error
    is_lost = type(error).__module__.startswith(ENGINES) and cause is None
    if not is_lost and not isinstance(error, CancelledError):
        raise error


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
