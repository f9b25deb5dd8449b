"""Ray behind the interface of ``concurrent.futures``; needs the extra ``ray``."""

from __future__ import annotations

import logging
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

from karl_fast._extras import missing_extra

if TYPE_CHECKING:
    from collections.abc import Callable

RETRIES = 3
"""Times that Ray runs a task again whose worker process died."""


class RayExecutor(Executor):
    """Runs each function as a task of Ray, on one CPU.

    It joins the cluster that the program is connected to, or that ``RAY_ADDRESS`` names, or else starts Ray on this
    machine; what it started is stopped at the end of a ``with`` block.

    Raises:
        MissingExtraError: Ray is not installed.
    """

    def __init__(self) -> None:
        try:
            import ray
        except ModuleNotFoundError as error:
            raise missing_extra("--engine ray needs Ray, which is not installed", "ray") from error
        self._ray: Any = ray  # with types or without, as Ray is installed or not
        self._started = not ray.is_initialized()
        if self._started:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
        self._functions: dict[Callable[..., Any], Any] = {}

    @property
    def max_workers(self) -> int:
        """CPUs of the cluster."""
        resources: dict[str, float] = self._ray.cluster_resources()
        return max(1, int(resources.get("CPU", 1)))

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function on a worker of the cluster."""
        remote = self._functions.get(function)
        if remote is None:
            # A worker process that is killed costs a retry, and not the run.
            remote = self._functions[function] = self._ray.remote(num_cpus=1, max_retries=RETRIES)(function)
        future: Future[Any] = remote.remote(*args, **kwargs).future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop what was started here."""
        del wait, cancel_futures  # tasks that are not done end with the cluster, or in it
        if self._started and self._ray.is_initialized():
            self._ray.shutdown()
