"""Versions, chip and memory of this machine, and the device of MLX with its limits."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karl_fast._core import VERSION, build_facts

if TYPE_CHECKING:
    from karl_fast.doctor import Job, Save

PACKAGES = ("numpy", "mlx", "mlx-metal", "mlx-lm", "transformers", "tokenizers")

DEVICE_FACTS = (
    "device_name",
    "architecture",
    "memory_size",
    "max_recommended_working_set_size",
    "max_buffer_length",
)


def describe_machine(job: Job, save: Save) -> dict[str, Any]:
    """Return versions, chip, cores and memory."""
    built = build_facts()
    mac = platform.mac_ver()[0]
    return {
        "karl_fast": VERSION,
        "build": {name: built[name] for name in ("target", "profile", "rustc", "simd")},
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _installed_version(name))},
        "system": f"macOS {mac}" if mac else f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "translated": _sysctl("sysctl.proc_translated") == "1",  # Rosetta: Python of another architecture than the chip
        "chip": _chip(),
        "cores": os.cpu_count(),
        "performance_cores": _number(_sysctl("hw.perflevel0.physicalcpu")),
        "efficiency_cores": _number(_sysctl("hw.perflevel1.physicalcpu")),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "free_disk_bytes": shutil.disk_usage(job.folder).free,
    }


def describe_device(job: Job, save: Save) -> dict[str, Any]:
    """Return the device of MLX, its limits, and the memory that plans of karl-fast stay within."""
    from karl_fast._extras import require_mlx

    require_mlx()
    import mlx.core as mx

    from karl_fast.modeling.memory import limit_bytes
    from karl_fast.train.settings import Training

    info = mx.device_info()
    metal, variables = mx.metal.is_available(), sorted(os.environ.items())
    return {
        "device": str(mx.default_device().type).rpartition(".")[2],
        "metal": metal,
        **{name: info[name] for name in DEVICE_FACTS if name in info},
        "plan_limit_bytes": limit_bytes(Training()),
        "wired_limit_bytes": _wired_limit() if metal else None,
        "environment": ", ".join(f"{name}={value}" for name, value in variables if name.startswith("MLX_")),
        "system_wired_limit_mb": _number(_sysctl("iogpu.wired_limit_mb")),
    }


def _wired_limit() -> int:
    """Return the bytes that MLX keeps wired: only setting the limit tells the old one."""
    import mlx.core as mx

    limit = mx.set_wired_limit(0)
    mx.set_wired_limit(limit)
    return limit


def _chip() -> str:
    """Return the name of the processor."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text("utf-8", "replace").splitlines() if file.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else _sysctl("machdep.cpu.brand_string") or platform.machine()


def _sysctl(name: str) -> str | None:
    """Return a number or a name of the system of a Mac; None elsewhere, and where it has none."""
    if platform.system() != "Darwin":
        return None
    command = ["/usr/sbin/sysctl", "-n", name]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
