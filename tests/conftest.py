"""Fixtures: each test gets a fresh server of each kind in PRESENCE_SERVERS, comma-separated. If that is not set, the
survival suite takes all four, everything else the oldest and the newest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from harness import KINDS, Connection, Server, Watcher
from snippets import Program
from support import registry_fault

ALL = "redis-7.0,redis-8.2,valkey-8.1,valkey-9.1"
CHOSEN = os.environ.get("PRESENCE_SERVERS")
SERVERS, SURVIVAL_SERVERS = ((CHOSEN or default).split(",") for default in ("redis-7.0,valkey-9.1", ALL))
if unknown := set(SERVERS) - set(KINDS):
    raise pytest.UsageError(f"PRESENCE_SERVERS: unknown {sorted(unknown)}; there are {sorted(KINDS)}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        # A gateway is the same before all of them: one will do.
        chosen = {"survival": SURVIVAL_SERVERS, "gateway": ["redis-7.0"]}
        metafunc.parametrize("kind", chosen.get(metafunc.definition.path.parent.name, SERVERS), indirect=True)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of server under test."""
    return request.param


@pytest.fixture
def make_server(kind: str, request: pytest.FixtureRequest) -> Iterator[Callable[..., Server]]:
    """Starts servers of this kind, `make_server(**as for Server)`; at the end of the test each must be alive, without
    warnings of the module (unless marked `warnings_ok`), know of its rooms and no others, and end cleanly. A test that ends
    one for good calls its `close`."""
    servers: list[Server] = []

    def make(**options: Any) -> Server:
        servers.append(Server(options.pop("kind", kind), **options))
        return servers[-1]

    yield make
    faults = []
    for server in reversed(servers):
        if not server.open:
            continue
        if not server.alive:
            faults.append(f"{server.kind} died\n{server.log()[-6000:]}")
        elif server.warnings() and request.node.get_closest_marker("warnings_ok") is None:
            faults.append("\n".join(["the module warned:", *server.warnings()]))
        if server.alive:
            if fault := registry_fault(server):
                faults.append(f"{server.kind}: {fault}")
            try:
                if code := server.shutdown():
                    faults.append(f"{server.kind} ended with {code}\n{server.log()[-6000:]}")
            except RuntimeError as failure:
                faults.append(str(failure))
        server.close()
    if faults:
        pytest.fail("\n".join(faults), pytrace=False)


@pytest.fixture
def server(make_server: Callable[..., Server], request: pytest.FixtureRequest) -> Server:
    """A server with the module; markers `config(...)` and `module_args(...)` set it up."""
    config = request.node.get_closest_marker("config")
    args = request.node.get_closest_marker("module_args")
    return make_server(config=config.kwargs if config else None, args=args.args if args else ())


@pytest.fixture
def tcp_server(make_server: Callable[..., Server]) -> Server:
    """A server that programs reach by its port."""
    return make_server(port=0)


@pytest.fixture
def run(tcp_server: Server, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Program]]:
    """Starts an example of the page whose BLOCKS the test's module has: `run(name, *replaced by other words, user=…)`."""
    programs: list[Program] = []

    def start(name: str, *replaced: tuple[str, str], user: str = "") -> Program:
        text = request.module.BLOCKS[name]
        for old, new in replaced:
            assert text.count(old) == 1
            text = text.replace(old, new)
        programs.append(Program(name, text, tmp_path, f"redis://{user}127.0.0.1:{tcp_server.port}"))
        return programs[-1]

    yield start
    for program in programs:
        program.process.kill()
        program.process.wait()


@pytest.fixture
def client(server: Server) -> Connection:
    """A RESP2 connection to `server`."""
    return server.client()


@pytest.fixture
def watcher(server: Server) -> Iterator[Watcher]:
    """Records the presence keyspace events of `server`."""
    with Watcher(server) as watcher:
        yield watcher
