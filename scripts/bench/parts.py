"""What `make bench` consists of. A part is a function of a module beside this one; its docstring says what it measures."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from typing import Any, Callable, NamedTuple

from harness import Server
from measure import SETTINGS, noop_module


class Part(NamedTuple):
    """`started`: it takes a started server, with the module that does nothing loaded too; else it starts its own."""

    name: str
    module: str
    function: str
    started: bool = False

    def load(self) -> Callable[..., list[Any]]:
        # Only now, so that a fault in one part is no fault of the others.
        found: Callable[..., list[Any]] = getattr(importlib.import_module(self.module), self.function)
        return found

    def run(self, kind: str, scale: Any) -> list[Any]:
        measure = self.load()
        if not self.started:
            return measure(kind, scale)
        with tempfile.TemporaryDirectory() as folder, noop_module(Path(folder)) as noop:
            with Server(kind, config=SETTINGS) as server:
                with server.client() as client:
                    client("MODULE", "LOAD", noop)
                return measure(server, scale)


PARTS = {
    part.name: part
    for part in (
        Part("batches", "requests", "batches", started=True),
        Part("beats", "requests", "beats", started=True),
        Part("reads", "requests", "reads", started=True),
        Part("uniques", "uniques", "unique", started=True),
        Part("stops", "stops", "stops"),
        Part("lateness", "lateness", "lateness"),
        Part("idle", "lateness", "idle"),
        Part("persistence", "persistence", "persistence"),
        Part("memory", "memory", "memory"),
        Part("growth", "growth", "growth"),
        Part("rivals", "rivals", "beside"),
    )
}
