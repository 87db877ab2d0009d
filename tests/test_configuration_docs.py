"""docs/configuration.md and the table in the README against a real server: settings, INFO fields, events."""

import re

import pytest

from harness.server import PROJECT
from test_config import NUMBERS, WORDS, settings

PAGE = PROJECT / "docs/configuration.md"


def rows(text, heading):
    """The rows of the first table under a heading, cells without their backquotes."""
    section = text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def numbers(text):
    return [int(number) for number in re.findall(r"\d+", text)]


@pytest.mark.parametrize("page, heading", [(PAGE, "Settings"), (PROJECT / "README.md", "Settings")], ids=["page", "readme"])
def test_every_setting_with_its_default_and_range(client, page, heading):
    table = rows(page.read_text(), heading)
    told = {name.removeprefix("presence."): (default, allowed) for name, default, allowed, *_ in table}
    assert len(told) == len(table) and {name: default for name, (default, _) in told.items()} == settings(client)
    for name, (_, least, greatest) in NUMBERS.items():
        assert numbers(told[name][1]) == [least, greatest], name
    for name, values in WORDS.items():
        assert sorted(told[name][1].split(", ")) == sorted(values), name


def test_every_field_of_info(server):
    told = [row[0] for row in rows(PAGE.read_text(), "INFO presence")]
    assert told == list(server.info("presence"))


def test_every_event_comes_as_told(server, client, watcher):
    told = {row[0] for row in rows(PAGE.read_text(), "Keyspace events")}
    assert client("PRESENCE.BEAT", "event42", "asha", "SESSION", "s", "TIMEOUT", 100, "GRACE", 60_000) == 1
    watcher.wait("grace", "event42:asha")
    assert client("PRESENCE.BEAT", "event42", "asha", "SESSION", "s", "TIMEOUT", 60_000, "STATUS", "back") == 0
    assert client("PRESENCE.BYE", "event42", "asha") == 1
    watcher.sync()
    kinds = [e.kind for e in watcher.of(name="event42:asha")]
    assert kinds == [f"presence.{kind}" for kind in ("online", "grace", "back", "update", "offline")]
    assert set(kinds) | {"del"} == told
