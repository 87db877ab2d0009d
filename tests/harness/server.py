"""Starts and ends the servers that the tests talk to."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Mapping, Sequence

from .resp import Connection, Err

PROJECT = Path(__file__).resolve().parents[2]
MODULE = Path(os.environ.get("PRESENCE_MODULE") or PROJECT / "target/release/libpresence.so")
# Kind to binary. `redis-7.0` is whatever redis-server the system has: Debian's.
KINDS = {
    "redis-7.0": Path(shutil.which("redis-server") or "redis-server"),
    "redis-8.2": PROJECT / "target/servers/redis-8.2/redis-server",
    # Optional: `scripts/servers.sh redis-8.10` builds it.
    "redis-8.10": PROJECT / "target/servers/redis-8.10/redis-server",
    "valkey-8.1": PROJECT / "target/servers/valkey-8.1/valkey-server",
    "valkey-9.1": PROJECT / "target/servers/valkey-9.1/valkey-server",
}
DEFAULTS = {
    "save": "",
    "enable-debug-command": "yes",
    "enable-module-command": "yes",
    "notify-keyspace-events": "KEAd",
    "repl-diskless-sync-delay": "0",
}
# Settings whose value is several words; all others are one word, quoted.
MANY_WORDS = {"user", "replicaof", "client-output-buffer-limit", "rename-command", "loadmodule"}
START_TIMEOUT = 30.0
STOP_TIMEOUT = 20.0
_running: set[Server] = set()


class Server:
    """One server process, reached over a unix socket; `port=0` gives it a free TCP port too (replication and cluster need one).

    `config` holds settings as in the configuration file, `_` or `-` alike; a list repeats the setting. `args` are the
    module's load arguments. `dir` is the data folder; without it a fresh one, removed at the end. `env` is added to the
    process's environment.
    """

    def __init__(
        self,
        kind: str = "redis-7.0",
        module: bool | Path = True,
        args: Sequence[Any] = (),
        config: Mapping[str, Any] | None = None,
        dir: str | os.PathLike[str] | None = None,
        port: int | None = None,
        env: Mapping[str, str] | None = None,
    ):
        self.kind = kind
        self.binary = KINDS[kind]
        self.module = MODULE if module is True else module
        self.args = [str(a) for a in args]
        self.config: dict[str, Any] = DEFAULTS | {k.replace("_", "-"): v for k, v in (config or {}).items()}
        # A unix socket's path is limited to 107 bytes, so it gets a short folder of its own.
        self._base = Path(tempfile.mkdtemp(prefix="pr-"))
        self.socket = str(self._base / "s")
        self.dir = Path(dir) if dir is not None else self._base / "data"
        self.dir.mkdir(parents=True, exist_ok=True)
        self.conf = self._base / "server.conf"
        self.logfile = self._base / "log"
        self._env = dict(env or {})
        self._wants_free_port = port == 0
        self.port = port or 0
        self.process: subprocess.Popen[bytes] | None = None
        self.open = True  # until `stop` or `close`
        self._clients: list[Connection] = []
        try:
            self._require_files()
            if not self._wants_free_port:
                self._write_conf()
            self.start()
        except BaseException:
            self.close()
            raise

    # -- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the process and waits until it has loaded its data and answers."""
        for attempt in range(5):
            if self._wants_free_port:
                self.port = free_port()
                self._write_conf()
            self._spawn()
            try:
                self._wait_ready()
                self._wants_free_port = False  # from now on the server keeps its port, through restarts too
                return
            except RuntimeError:
                clash = self._wants_free_port and "Address already in use" in self.log() and attempt < 4
                self.kill()
                if not clash:
                    raise

    def kill(self) -> None:
        """Ends the process with SIGKILL: a crash."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self._forget_clients()

    def shutdown(self, *options: str) -> int:
        """Ends the process by SHUTDOWN with these options (default NOSAVE NOW FORCE); its exit code."""
        process = self._process()
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            try:
                with self._connect() as c:
                    c.send("SHUTDOWN", *(options or ("NOSAVE", "NOW", "FORCE")))
                    if not c.at_end(STOP_TIMEOUT):
                        raise RuntimeError(f"SHUTDOWN was refused\n{self._tail()}")
                process.wait(STOP_TIMEOUT)
            except (OSError, subprocess.TimeoutExpired) as failure:
                raise RuntimeError(f"{self.kind} does not shut down: {failure!r}\n{self._tail()}") from failure
        self._forget_clients()
        return process.returncode

    def restart(self, *options: str, kill: bool = False) -> None:
        """Ends the process (SHUTDOWN with `options`, default NOSAVE NOW FORCE; or a crash) and starts it on the same folder."""
        if kill:
            self.kill()
        elif code := self.shutdown(*options):
            raise RuntimeError(f"{self.kind} ended with {code}\n{self._tail()}")
        self.start()

    def stop(self) -> int:
        """Ends the server for good; its exit code, 0 for a clean end. Its folder is removed."""
        try:
            return self.shutdown()
        finally:
            self.close()

    def close(self) -> None:
        """Makes sure that nothing is left of it, whatever happened."""
        self.open = False
        self.kill()
        _running.discard(self)
        shutil.rmtree(self._base, ignore_errors=True)

    def pause(self) -> None:
        """Makes the server deaf (SIGSTOP) until `resume`."""
        self._process().send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        self._process().send_signal(signal.SIGCONT)

    @property
    def pid(self) -> int:
        return self._process().pid

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is None and self.alive:
            if code := self.stop():
                raise RuntimeError(f"{self.kind} ended with {code}")
        else:
            self.close()

    # -- talking to it ----------------------------------------------------------------------------------------------

    def client(self, resp: int = 2, db: int = 0) -> Connection:
        """A new connection, closed with the server at the latest."""
        connection = self._connect(resp, db)
        self._clients.append(connection)
        return connection

    def redis(self, **options: Any) -> Any:
        """A redis-py client, for tests of what such clients see."""
        import redis

        return redis.Redis(unix_socket_path=self.socket, **options)

    def info(self, section: str = "presence") -> dict[str, str]:
        """INFO's fields of one section, values as text."""
        with self._connect() as c:
            lines = c("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))

    def log(self) -> str:
        """All that the server has logged, over restarts."""
        return self.logfile.read_text(errors="backslashreplace") if self.logfile.exists() else ""

    def warnings(self) -> list[str]:
        """The module's warnings in the log."""
        return [line for line in self.log().splitlines() if " # " in line and "<presence>" in line.lower()]

    # -- inside -----------------------------------------------------------------------------------------------------

    def _process(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            raise RuntimeError("the server was never started")
        return self.process

    def _require_files(self) -> None:
        if not self.binary.exists():
            raise RuntimeError(f"{self.kind}: {self.binary} is missing; `scripts/install.sh test` brings it")
        if self.module and not self.module.exists():
            raise RuntimeError(f"{self.module} is missing; `make build` makes it")

    def _write_conf(self) -> None:
        lines = [f"port {self.port}", f"unixsocket {self.socket}", "bind 127.0.0.1", f"dir {self.dir.resolve()}"]
        if self.module:
            lines.append(" ".join(["loadmodule", str(self.module.resolve()), *map(quote, self.args)]))
        if self.config.get("cluster-enabled") == "yes":
            lines.append(f"cluster-port {free_port()}")
        for name, value in self.config.items():
            for one in value if isinstance(value, (list, tuple)) else [value]:
                plain = name in MANY_WORDS or name == "save" and one
                lines.append(f"{name} {one if plain else quote(one)}")
        self.conf.write_text("\n".join(lines) + "\n")

    def _spawn(self) -> None:
        with self.logfile.open("ab") as log:
            self.process = subprocess.Popen(
                [self.binary, self.conf],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.dir,
                env=os.environ | self._env,
            )
        _running.add(self)

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            if (code := self._process().poll()) is not None:
                raise RuntimeError(f"{self.kind} ended with {code} while starting\n{self._tail()}")
            try:
                with self._connect() as c:
                    reply = c.call("PING")
                if not (isinstance(reply, Err) and reply.code == "LOADING"):
                    return
            except OSError:
                pass  # the socket is not there yet
            time.sleep(0.005)
        raise RuntimeError(f"{self.kind} does not answer after {START_TIMEOUT} s\n{self._tail()}")

    def _connect(self, resp: int = 2, db: int = 0) -> Connection:
        return Connection(self.socket, resp, db)

    def _forget_clients(self) -> None:
        for connection in self._clients:
            connection.close()
        self._clients.clear()

    def _tail(self) -> str:
        return "\n".join(["--- its log:", *self.log().splitlines()[-60:]])


def quote(value: Any) -> str:
    """One word of a configuration file."""
    text = str(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if not text or set(text) & set(" \t\"'#\\") else text


def free_port() -> int:
    """A TCP port that was free a moment ago."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@atexit.register
def _end_all() -> None:
    for server in list(_running):
        server.close()
