"""What a result was measured on, and of what."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Sequence

from harness import Server
from measure import PROJECT, info


def machine() -> dict[str, str]:
    """Processor, memory, kernel, and how busy it was before."""
    models = {line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")}
    total = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "processor": f"{len(os.sched_getaffinity(0))} cores of {', '.join(sorted(models)) or platform.machine()}",
        "memory": f"{total / 2**20:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "load before": f"{os.getloadavg()[0]:.2f}",
    }


def versions(kinds: Sequence[str]) -> dict[str, str]:
    """The full name of each kind of server. One that does not start has its own say later."""
    return {kind: _version(kind) for kind in kinds}


def commit() -> str:
    """Of what: the commit, and whether the tree differs from it."""
    try:
        git = ["git", "-C", str(PROJECT), "describe", "--always", "--exclude=*", "--dirty= with changes"]
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _version(kind: str) -> str:
    try:
        with Server(kind, module=False) as server, server.client() as client:
            fields = info(client, "server")
    except (OSError, RuntimeError):
        return kind
    name = fields.get("server_name", "redis")
    return f"{name.capitalize()} {fields.get(f'{name}_version') or fields['redis_version']}"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
