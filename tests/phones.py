"""Phones, as gateways see them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

if TYPE_CHECKING:
    from harness.gateway import Gateway

SECRET = "the tests' secret, which nobody else has"


def token(user: str, secret: str = SECRET, expires: float = 3600.0, **claims: Any) -> str:
    """A JWT as a service would sign it."""
    part = lambda of: base64.urlsafe_b64encode(json.dumps(of).encode()).rstrip(b"=")
    head = part({"alg": "HS256", "typ": "JWT"})
    body = part({"sub": user, "exp": int(time.time() + expires), **claims})
    signed = hmac.new(secret.encode(), head + b"." + body, hashlib.sha256).digest()
    return b".".join([head, body, base64.urlsafe_b64encode(signed).rstrip(b"=")]).decode()


class Phone:
    """One WebSocket, and all that it was told."""

    def __init__(self, gateway: Gateway, reads: bool = True):
        line = socket.socket()
        if not reads:
            # What comes is left to the kernel, whose buffer is to be full soon.
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect(("127.0.0.1", gateway.port))
        options = {"compression": None, "close_timeout": 5, "ping_interval": None, "legacy": True}
        self.socket = connect("ws://gateway/ws", sock=line, max_queue=None if reads else 1, **options)
        self.told: list[dict[str, Any]] = []
        self.ended = False
        self._changed = threading.Condition()
        self._beating: threading.Event | None = None
        if reads:
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for message in self.socket:
                with self._changed:
                    self.told.append(json.loads(message))
                    self._changed.notify_all()
        except (ConnectionClosed, OSError):
            pass
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def say(self, type: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"type": type, **{name: value for name, value in fields.items() if value is not None}}))

    def hears(self, type: str, timeout: float = 10.0, count: int = 1, **fields: Any) -> dict[str, Any]:
        """The `count`th message of this type with these fields, already here or still to come."""
        deadline, looked, left = time.monotonic() + timeout, 0, count
        with self._changed:
            while True:
                for message in self.told[looked:]:
                    looked += 1
                    if message["type"] == type and all(message.get(name) == value for name, value in fields.items()):
                        left -= 1
                        if not left:
                            return message
                if not self._changed.wait(deadline - time.monotonic()):
                    raise AssertionError(f"no {type} {fields} in {timeout} s; told: {self.told[-20:]}, ended: {self.ended}")

    def dots(self, member: str) -> list[str]:
        """The states of a member that were told, in order."""
        with self._changed:
            return [m["state"] for m in self.told if m["type"] == "member" and m["member"] == member]

    def ends(self, timeout: float = 10.0) -> int | None:
        """Waits for the end; the status of the close, if there was one."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.ended, timeout):
                raise AssertionError(f"the connection does not end; told: {self.told[-20:]}")
        return self.socket.close_code

    def beats(self, every: float) -> Phone:
        """Beats from now on, until the end."""
        self._beating = threading.Event()

        def run(done: threading.Event) -> None:
            try:
                while not done.wait(every):
                    self.say("beat")
            except (ConnectionClosed, OSError):
                pass

        threading.Thread(target=run, args=(self._beating,), daemon=True).start()
        return self

    def _silence(self) -> None:
        if self._beating is not None:
            self._beating.set()

    def close(self, status: int = 1000) -> None:
        """Closes with a close frame, as a browser does."""
        self._silence()
        self.socket.close(status)

    def cut(self) -> None:
        """The line is gone, without a close frame."""
        self._silence()
        self.socket.socket.close()
