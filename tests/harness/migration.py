"""Slots that go to another node all at once: Valkey 9's CLUSTER MIGRATESLOTS, Redis 8.4's CLUSTER MIGRATION."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from .cluster import Cluster, Node

KINDS = ("valkey-9.1", "redis-8.10")
# How long Redis' child waits after each key that it has sent while a migration is to be held, µs.
KEY_DELAY_US = 400_000
ENDED = {"success": "success", "completed": "success", "cancelled": "cancelled", "canceled": "cancelled", "failed": "failed"}


class Migration:
    """A migration that was begun. With `hold`, it stays open when so many rooms have come to the target, until `release`.

    While held, Valkey hands on each change at once; Redis collects them at the target and applies them when released.
    """

    def __init__(self, cluster: Cluster, first: int, last: int, to: Node, hold: int = 0):
        self.cluster, self.to, self.source = cluster, to, cluster.owner(first)
        self.valkey = to.server.kind.startswith("valkey")
        self._child: int | None = None
        before = self._rooms()
        if hold:
            self._hold(True)
        if self.valkey:
            self.source.call("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", first, last, "NODE", to.id)
        else:
            to.call("CLUSTER", "MIGRATION", "IMPORT", first, last)
        if hold:
            cluster.wait(lambda: self._rooms() == before + hold, "the rooms to be at the target")
            if not self.valkey:
                self._stop_child()

    def _rooms(self) -> int:
        return int(self.to.server.info()["presence_rooms"])

    def _hold(self, hold: bool) -> None:
        if self.valkey:
            self.source.call("DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", int(hold))
        else:
            self.source.call("CONFIG", "SET", "rdb-key-save-delay", KEY_DELAY_US if hold else 0)

    def _stop_child(self) -> None:
        pid = self.source.server.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if len(children) != 1:
            raise AssertionError(f"one child was to send the rooms, there are {children}")
        self._child = int(children[0])
        os.kill(self._child, signal.SIGSTOP)

    def release(self) -> None:
        """The migration goes on."""
        if self.source.server.alive:
            self._hold(False)
        self._continue_child()

    def _continue_child(self) -> None:
        if self._child is not None:
            try:
                os.kill(self._child, signal.SIGCONT)
            except ProcessLookupError:
                pass
            self._child = None

    def cancel(self) -> None:
        """As operators do, at the node where the migration was begun."""
        if self.valkey:
            self.source.call("CLUSTER", "CANCELSLOTMIGRATIONS")
        else:
            self.to.call("CLUSTER", "MIGRATION", "CANCEL", "ALL")

    def job(self) -> dict[str, str]:
        """What the node where it was begun tells of it."""
        if self.valkey:
            jobs = self.source.call("CLUSTER", "GETSLOTMIGRATIONS")
        else:
            jobs = self.to.call("CLUSTER", "MIGRATION", "STATUS", "ALL")
        text = lambda value: value.decode() if isinstance(value, bytes) else str(value)
        return {text(jobs[0][n]): text(jobs[0][n + 1]) for n in range(0, len(jobs[0]), 2)}

    def wait(self, wanted: str = "success", timeout: float = 60.0) -> None:
        """Until it has ended, and in that way."""
        state = self.cluster.wait(lambda: ENDED.get(self.job()["state"]), "the migration to end", timeout)
        if state != wanted:
            raise AssertionError(f"the migration ended as {state}: {self.job()}")

    def __enter__(self) -> Migration:
        return self

    def __exit__(self, *_: Any) -> None:
        # Whatever happened, no child stays stopped: its parent could not end cleanly.
        self._continue_child()
