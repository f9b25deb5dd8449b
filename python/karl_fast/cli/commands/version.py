"""`karl-fast version`."""

from __future__ import annotations

import platform
from typing import Any

from karl_fast._core import VERSION, build_facts
from karl_fast.cli import options
from karl_fast.cli.app import add_command
from karl_fast.export.manifest import dumps

PACKAGES = ("numpy", "mlx", "mlx-lm", "transformers", "typer")
"""Optional companions of karl-fast: their versions are shown if installed, without an import."""


def version_facts() -> dict[str, Any]:
    """Return facts about the build and its environment."""
    built = build_facts()
    return {
        "karl_fast": VERSION,
        "build": dict(built),
        "python": {"version": platform.python_version(), "implementation": platform.python_implementation()},
        "packages": {name: version for name in PACKAGES if (version := _installed_version(name))},
    }


def _installed_version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # 15 ms, which only this command is to wait for

    try:
        return version(package)
    except PackageNotFoundError:
        return None


@add_command("version")
def command(*, json: options.Json = False) -> None:
    """Print the version, how it was built, and the versions of the packages it uses."""
    facts = version_facts()
    if json:
        print(dumps(facts))
        return
    built, python = facts["build"], facts["python"]
    print(f"karl-fast  {VERSION}")
    print(f"build      {built['target']}, {built['profile']}, rustc {built['rustc']}, {built['abi']}")
    print(f"here       {python['implementation']} {python['version']}, SIMD {built['simd']}")
    packages = [f"{name} {version}" for name, version in facts["packages"].items()]
    print("packages   " + "\n           ".join(packages))
