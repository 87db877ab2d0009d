"""Real servers, raw connections and recorded events for the integration tests."""

from .events import Event, Watcher
from .resp import Connection, Err, Push, ReplyError, Verbatim
from .server import KINDS, MODULE, Server

__all__ = ["KINDS", "MODULE", "Connection", "Err", "Event", "Push", "ReplyError", "Server", "Verbatim", "Watcher"]
