"""Redis with a room whose times are short, a gateway before it, and people who look at its page in one Chromium."""

from __future__ import annotations

from typing import Any, Callable, Iterator
from urllib.parse import urlencode

import pytest

from chromium import Chromium, Show
from harness import Connection, Server, Watcher
from harness.gateway import Gateway
from line import Line
from room import ROOM, TIMES


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "browser":
            # One after another: they share a browser, which is a load.
            item.add_marker("alone")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    browser = Chromium()
    yield browser
    browser.quit()


@pytest.fixture
def redis_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Debian's Redis; marker `room(TIMEOUT=…)` changes the room's times."""
    with Server(port=0) as server:
        marker = request.node.get_closest_marker("room")
        times = TIMES | (marker.kwargs if marker else {})
        server.client()("PRESENCE.CREATE", ROOM, *(word for pair in times.items() for word in pair))
        yield server
        assert not server.warnings()


@pytest.fixture
def client(redis_server: Server) -> Connection:
    return redis_server.client()


@pytest.fixture
def watcher(redis_server: Server) -> Iterator[Watcher]:
    """Records the keyspace events, and what member channels tell of asha and bo."""
    channels = [_channel(redis_server, member) for member in ("asha", "bo")]
    with Watcher(redis_server, channels=channels) as watcher:
        yield watcher


@pytest.fixture
def gateway(redis_server: Server) -> Iterator[Gateway]:
    gateway = Gateway(redis_server)
    yield gateway
    alive = gateway.alive
    gateway.close()
    assert alive, gateway.log()


@pytest.fixture
def line(gateway: Gateway) -> Iterator[Line]:
    """A line to the gateway that can be cut."""
    line = Line(gateway.port)
    yield line
    line.close()


@pytest.fixture
def show(chromium: Chromium, gateway: Gateway) -> Iterator[Callable[..., Show]]:
    """Opens the event page: `show("asha", "bo", "carl")`, with asha's friends, waits until it is connected, and at the end
    asks the browser whether anything was wrong with it."""

    def open(user: str, *friends: str, via: Line | None = None, share: str = "friends", kind: str = "window") -> Show:
        query = urlencode({"user": user, "friends": ",".join(friends), "share": share})
        return chromium.open(f"{(via or gateway).url}/?{query}", Show, kind).arrive()

    yield open
    complaints = [complaint for tab in chromium.tabs for complaint in tab.complaints()]
    chromium.close_tabs()
    assert not complaints


def _channel(server: Server, member: str) -> Any:
    reply = server.client()("PRESENCE.CHANNELS", ROOM, member)
    return dict(zip(reply[::2], reply[1::2]))[b"member"]
