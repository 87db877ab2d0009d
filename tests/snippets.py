"""Examples in the documentation, marked `<!-- test: name -->`: found, and run as they stand."""

from __future__ import annotations

import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

from harness import Server
from harness.server import PROJECT

BLOCK = re.compile(r"<!-- test: ([\w.-]+) -->\n```(?:python|js|bash)\n(.*?)```", re.DOTALL)
PROGRAM = re.compile(r"```(?:python|js)\n")
# Beside each example, as whoever copies it has them.
BESIDE = (PROJECT / "node_modules", PROJECT / "clients/js/roomview.mjs", PROJECT / "clients/python/roomview.py")


def blocks(page: str) -> dict[str, str]:
    """The marked examples of a page, by name. They are short, and no other example of a program goes untested."""
    found = BLOCK.findall(page)
    named = dict(found)
    assert len(named) == len(found)
    assert len(PROGRAM.findall(page)) == len([name for name in named if not name.endswith(".sh")])
    return named


class Program:
    """A running example; `line` is the next line that it prints."""

    def __init__(self, name: str, text: str, folder: Path, url: str):
        file = folder / name
        file.write_text(text)
        for needed in BESIDE:
            if not (folder / needed.name).is_symlink():
                (folder / needed.name).symlink_to(needed)
        interpreter = (shutil.which("node") or "node") if name.endswith(".mjs") else sys.executable
        self.lines: queue.Queue[str] = queue.Queue()
        self.process = subprocess.Popen(
            [interpreter, file], env=os.environ | {"REDIS_URL": url}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))

    def line(self) -> str:
        return self.lines.get(timeout=30)

    def wait_for(self, wanted: str) -> None:
        """Until it prints this line; others before it are passed over."""
        while self.line() != wanted:
            pass

    def terminate(self) -> int:
        """Asks it to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def shell(server: Server, text: str) -> list[str]:
    """Runs shell commands; the lines that they print."""
    functions = "".join(f'{tool}() {{ command {tool} -p {server.port} "$@"; }}\n' for tool in ("redis-cli", "redis-benchmark"))
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", functions + text], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()
