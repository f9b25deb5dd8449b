"""A cycle as a Prefect flow: each step is a task, so that Prefect shows, times and schedules them.

    pip install prefect
    python examples/cycle/prefect_flow.py examples/cycle/cycle.toml

`cycle.serve(name="nightly", cron="0 3 * * *", parameters={"file": "cycle.toml"})` gives it a schedule.
"""

import subprocess
import sys

from prefect import flow, task

from karl_fast.cycle.config import load


@task
def step(file: str, name: str) -> None:
    """Run the cycle up to a step; the steps before it are unchanged by then, and skipped."""
    command = [sys.executable, "-m", "karl_fast", "cycle", file, "--until", name]
    subprocess.run(command, check=True)


@flow(name="karl-fast cycle", log_prints=True)
def cycle(file: str) -> list[str]:
    """Run every step of a cycle."""
    names = list(load(file).steps)
    for name in names:
        step.with_options(name=name)(file, name)
    return names


if __name__ == "__main__":
    print(f"ran {', '.join(cycle(sys.argv[1]))}")
