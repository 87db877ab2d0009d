"""Starts and ends gateways."""

from __future__ import annotations

import atexit
import os
import re
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any, Sequence

from .server import PROJECT, Server

TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or PROJECT / "target")
# As `cargo test` leaves it.
GATEWAY = Path(os.environ.get("PRESENCE_GATEWAY") or TARGET / "debug/presence-gateway")
LISTENING = re.compile(r"gateway: listening on http://127\.0\.0\.1:(\d+)")
START_TIMEOUT = 30.0
STOP_TIMEOUT = 20.0
_running: set[Gateway] = set()


class Gateway:
    """One gateway process before a Redis that listens on TCP, or before several. It keeps its port through restarts."""

    def __init__(
        self,
        server: Server | Sequence[Server],
        args: Sequence[Any] = ("--demo",),
        secret: str = "a secret of the tests, long enough",
    ):
        if not GATEWAY.exists():
            raise RuntimeError(f"{GATEWAY} is missing; `cargo test -p presence-gateway` makes it")
        self.port = 0
        servers = [server] if isinstance(server, Server) else server
        urls = ",".join(f"redis://127.0.0.1:{server.port}" for server in servers)
        self._args = ["--redis", urls, "--secret", secret, *map(str, args)]
        self._log = tempfile.TemporaryFile()
        self.process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts the process and waits until it listens."""
        command = [GATEWAY, "--listen", f"127.0.0.1:{self.port}", *self._args]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, text=True)
        _running.add(self)
        # A gateway that says nothing is ended, so that reading its lines ends too.
        alarm = threading.Timer(START_TIMEOUT, self.process.kill)
        alarm.start()
        try:
            for line in self.process.stdout:
                if found := LISTENING.search(line):
                    self.port = int(found[1])
                    break
            else:
                raise RuntimeError(f"the gateway did not start\n{self.log()}")
        finally:
            alarm.cancel()
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def stop(self) -> int:
        """Asks it to end (SIGTERM); its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT)

    def close(self) -> None:
        """Makes sure that nothing is left of it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        _running.discard(self)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def log(self) -> str:
        """The end of what it has logged, over restarts."""
        self._log.seek(0)
        return self._log.read().decode(errors="backslashreplace")[-6000:]


@atexit.register
def _end_all() -> None:
    for gateway in list(_running):
        gateway.close()
