"""Gateways before servers, and phones before gateways."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import pytest

from harness import Server
from harness.gateway import Gateway
from phones import SECRET, Phone, token


@pytest.fixture
def make_gateway() -> Iterator[Callable[..., Gateway]]:
    """Starts gateways: `make_gateway(server, *options)`; at the end each must be alive and end cleanly."""
    gateways: list[Gateway] = []

    def make(server: Any, *options: str) -> Gateway:
        gateways.append(Gateway(server, options, secret=SECRET))
        return gateways[-1]

    yield make
    faults = []
    for gateway in gateways:
        if gateway.alive and (code := gateway.stop()):
            faults.append(f"a gateway ended with {code}\n{gateway.log()}")
        if "panicked" in gateway.log():
            faults.append(gateway.log())
        gateway.close()
    if faults:
        pytest.fail("\n".join(faults), pytrace=False)


@pytest.fixture
def server(make_server: Callable[..., Server], request: pytest.FixtureRequest) -> Server:
    """A server that gateways reach by its port."""
    config = request.node.get_closest_marker("config")
    return make_server(port=0, config=config.kwargs if config else None)


@pytest.fixture
def dial() -> Iterator[Callable[..., Phone]]:
    """Connects phones: `dial(gateway, user, room, share=…)` says hello; `dial(gateway)` says nothing."""
    phones: list[Phone] = []

    def connect(gateway: Gateway, user: str | None = None, room: str | None = None, **hello: Any) -> Phone:
        phones.append(Phone(gateway))
        if user is not None:
            phones[-1].say("hello", token=token(user), room=room, **hello)
        return phones[-1]

    yield connect
    for phone in phones:
        phone.cut()
