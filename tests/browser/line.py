"""A line between browser and gateway that can die as in a tunnel: no bytes any more, and no goodbye."""

from __future__ import annotations

import socket
import threading


class Line:
    """Listens on a port of its own and passes on what comes, until it is cut."""

    def __init__(self, to: int):
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._up = True
        self._passing: set[socket.socket] = set()
        self._dead: set[socket.socket] = set()
        threading.Thread(target=self._accept, name="line", daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Connections fall silent for good, with neither end told, and no new ones are had."""
        with self._lock:
            self._up = False
            self._dead |= self._passing
            self._passing.clear()

    def heal(self) -> None:
        """New connections work again. The old ones end, as nobody on the way knows them any more."""
        with self._lock:
            self._up = True
            dead, self._dead = self._dead, set()
        for end in dead:
            _shut(end, socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        with self._lock:
            ends = [*self._passing, *self._dead]
        for end in ends:
            _shut(end, socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # closed
            try:
                far = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                near.close()
                continue
            with self._lock:
                if not self._up:
                    near.close()
                    far.close()
                    continue
                self._passing |= {near, far}
            for source, sink in ((near, far), (far, near)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        while True:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            with self._lock:
                if source in self._dead:
                    return  # both ends stay open and hear nothing
            if not data:
                _shut(sink, socket.SHUT_WR)
                return
            try:
                sink.sendall(data)
            except OSError:
                _shut(source, socket.SHUT_RD)
                return


def _shut(end: socket.socket, how: int) -> None:
    try:
        end.shutdown(how)
    except OSError:
        pass  # it was already
