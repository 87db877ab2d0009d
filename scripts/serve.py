"""Starts redis-server with the module given, and keeps it in the foreground until Ctrl-C: `serve.py MODULE` plays the tour
against it, `serve.py MODULE GATEWAY` puts the gateway and its page before it."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import redis

HERE = Path(__file__).resolve().parent
REDIS_PORT = 6379
GATEWAY_PORT = 8080
START_TIMEOUT = 30.0


def is_free(port: int) -> bool:
    """Whether nothing on this machine listens there, on any address."""
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, ""), (socket.AF_INET6, "::1")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind((address, port))
        except OSError as failure:
            # A machine without IPv6 fails with another error, and may all the same have the port free.
            if family == socket.AF_INET or failure.errno == errno.EADDRINUSE:
                return False
    return True


def choose_port(variable: str, default: int) -> int:
    """The variable's port if it is free, else an error; without the variable the first free one from the default on."""
    if wanted := os.environ.get(variable):
        if not wanted.isdecimal() or not 0 < int(wanted) < 65536:
            sys.exit(f"run: {variable}={wanted} is no port (1 to 65535)")
        if not is_free(int(wanted)):
            sys.exit(f"run: port {wanted} is taken; choose another: make run {variable}={min(int(wanted) + 1, 65535)}")
        return int(wanted)
    for port in range(default, default + 100):
        if is_free(port):
            if port != default:
                print(f"run: port {default} is taken, using {port}")
            return port
    sys.exit(f"run: no free port from {default} on; choose one: make run {variable}=…")


def own_terminal() -> tuple[int, int] | None:
    """Takes the terminal for this process and its server, so that Ctrl-C ends them and not `make`, which would call it an error.

    Returns what `give_back` needs. Does nothing without a terminal or in the background.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        return None
    before = os.getpgrp()
    if os.tcgetpgrp(terminal) != before or os.getpid() == before:
        os.close(terminal)
        return None
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # stopping this group would leave the shell waiting for `make`
    os.setpgid(0, 0)
    os.tcsetpgrp(terminal, os.getpgrp())
    return terminal, before


def give_back(owned: tuple[int, int] | None) -> None:
    if owned is not None:
        os.tcsetpgrp(*owned)


def wait_ready(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    client = redis.Redis(port=port, protocol=2, retry=None)
    while server.poll() is None and time.monotonic() < deadline:
        try:
            client.ping()
            return
        except redis.exceptions.ConnectionError:
            time.sleep(0.02)
    sys.exit(f"run: the server did not start; its log:\n{log.read_text(errors='replace')}")


def tour(port: int) -> int:
    """Plays it. The exit code says whether every step came true."""
    code = subprocess.call([sys.executable, str(HERE / "tour.py"), str(port)])
    if not code and not os.environ.get("TOUR_ONLY"):
        print(
            f"\nThe server stays on port {port}; Ctrl-C ends it. Try:\n"
            f"  redis-cli -p {port} PRESENCE.BEAT event42 you SHARE everyone TIMEOUT 5000 GRACE 3000\n"
            f"  redis-cli -p {port} PRESENCE.MEMBERS event42\n"
            f"  redis-cli -p {port} PSUBSCRIBE '__keyevent@0__:presence.*'",
            flush=True,
        )
    return code


def start_gateway(gateway: Path, port: int, log: Path) -> subprocess.Popen[str]:
    """The gateway, listening. It takes whoever asks for a token, so it listens to this machine only."""
    web = choose_port("WEB_PORT", GATEWAY_PORT)
    command = [str(gateway.resolve()), "--listen", f"127.0.0.1:{web}", "--redis", f"redis://127.0.0.1:{port}", "--demo"]
    secret = {"GATEWAY_SECRET": secrets.token_hex(16)}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=output, env=os.environ | secret, text=True
        )
    if not process.stdout.readline():
        process.wait()
        sys.exit(f"run: the gateway did not start; its log:\n{log.read_text(errors='replace')}")
    at = f"http://127.0.0.1:{web}"
    print(
        f"run: the page         {at}\n"
        f"     as two friends   {at}/?user=asha&friends=bo   and, in another window,   {at}/?user=bo&friends=asha\n"
        f"     the playground   {at}/playground\n"
        f"     metrics          {at}/metrics\n"
        f"Ctrl-C ends it all. Meanwhile:  redis-cli -p {port} PRESENCE.MEMBERS gig:42 ALL",
        flush=True,
    )
    return process


def end(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def serve(module: Path, gateway: Path | None, folder: Path) -> int:
    """The exit code: 0, or the tour's."""
    port = choose_port("PORT", REDIS_PORT)
    log = folder / "server.log"
    command = ["redis-server", "--loadmodule", str(module.resolve()), "--port", str(port), "--bind", "127.0.0.1"]
    command += ["--notify-keyspace-events", "KEd", "--save", "", "--dir", str(folder)]
    with log.open("wb") as output:
        running = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)]
    server = running[0]
    try:
        wait_ready(server, port, log)
        print(f"run: redis-server with presence on port {port}", flush=True)
        code = 0
        if gateway:
            running.append(start_gateway(gateway, port, folder / "gateway.log"))
        else:
            code = tour(port)
        if server.poll() is None and (os.environ.get("TOUR_ONLY") or code):
            return code
        while all(process.poll() is None for process in running):
            time.sleep(0.2)
        print(f"run: the server died; its log:\n{log.read_text(errors='replace')}", file=sys.stderr)
        if gateway:
            print((folder / "gateway.log").read_text(errors="replace"), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nrun: ending the server")
        return 130 if os.environ.get("TOUR_ONLY") else 0
    finally:
        for process in reversed(running):
            end(process)


def main() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    owned = own_terminal()
    try:
        with tempfile.TemporaryDirectory(prefix="presence-") as folder:
            gateway = Path(sys.argv[2]) if len(sys.argv) > 2 else None
            sys.exit(serve(Path(sys.argv[1]), gateway, Path(folder)))
    finally:
        give_back(owned)


if __name__ == "__main__":
    main()
