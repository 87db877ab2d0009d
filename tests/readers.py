"""Both clients' RoomViews behind one face, for tests."""

from __future__ import annotations

import base64
import importlib.util
import json
import shutil
import subprocess
import sys
from typing import Any, Callable, NamedTuple

from harness.server import PROJECT

LANGUAGES = ("python", "js")
DRIVER = PROJECT / "tests/harness/roomview.mjs"
# Sends a command: its reply, or it raises.
Call = Callable[..., Any]


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("roomview", PROJECT / "clients/python/roomview.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["roomview"] = module
    spec.loader.exec_module(module)
    return module


roomview = _load()


class Shown(NamedTuple):
    """What a reader shows; `list`: status and data by member, ids that are text as str."""

    needs: str | None
    epoch: str
    seq: int
    count: int | None
    list: dict[Any, tuple[Any, Any]] | None


class PythonReader:
    def __init__(self, room: str):
        self.view = roomview.RoomView(room)
        self.hear, self.catch_up, self.read = self.view.hear, self.view.catch_up, self.view.read

    def shown(self) -> Shown:
        view = self.view
        return Shown(view.needs, view.epoch, view.seq, view.count, view.list)

    def close(self) -> None:
        pass


class JsReader:
    """A RoomView in a process of its own."""

    def __init__(self, room: str):
        node = shutil.which("node") or "node"
        self.process = subprocess.Popen([node, DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._tell(begin=room)

    def hear(self, message: Any) -> None:
        self._tell(hear=message.decode() if isinstance(message, bytes) else message)

    def catch_up(self) -> None:
        self._tell(catchUp=True)

    def read(self, call: Call) -> None:
        self._tell(read=True)
        while "call" in (word := self._heard()):
            try:
                reply = call(*word["call"])
            except Exception as error:
                self._tell(error=str(error))
            else:
                self._tell(reply=reply)
        if "failed" in word:
            raise RuntimeError(word["failed"])

    def shown(self) -> Shown:
        self._tell()
        told = self._heard()
        if told["list"] is not None:
            told["list"] = {entry["member"]: (entry["status"], entry["data"]) for entry in told["list"]}
        return Shown(**told)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()

    def _tell(self, **todo: Any) -> None:
        self.process.stdin.write(json.dumps(_wrapped(todo)) + "\n")
        self.process.stdin.flush()

    def _heard(self) -> Any:
        line = self.process.stdout.readline()
        assert line, "the driver ended"
        return json.loads(line, object_hook=lambda o: base64.b64decode(o["bytes"]) if "bytes" in o else o)


def _wrapped(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {key.decode() if isinstance(key, bytes) else key: _wrapped(entry) for key, entry in value.items()}
    return [_wrapped(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def reader(language: str, room: str) -> PythonReader | JsReader:
    """A RoomView of this language."""
    return {"python": PythonReader, "js": JsReader}[language](room)
