"""docs/realtime.md: its examples run as they stand, its ACL shows badges and no name, its tables have every field."""

import json
import re

import pytest

from harness import Err, Watcher
from harness.server import PROJECT
from snippets import blocks, shell
from support import fields, wait_until

PAGE = (PROJECT / "docs/realtime.md").read_text()
BLOCKS = blocks(PAGE)
ROOM = "gig:42"
LANGUAGES = ["py", "mjs"]


def tables():
    """By kind of message and form: the fields that are always there, and those that may be."""
    found = {}
    for kind, section in re.findall(r"\n### (\w+)\n(.*?)(?=\n##)", PAGE, re.DOTALL):
        forms = re.findall(r"`(\w+)`", re.search(r"^Forms: (.*)$", section, re.MULTILINE)[1])
        found[kind.lower()] = {form: (set(), set()) for form in forms}
        for name, where, _ in re.findall(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", section, re.MULTILINE):
            for form in forms if where.startswith("all") else re.findall(r"`(\w+)`", where):
                found[kind.lower()][form]["if" in where].add(name)
    return found


TABLES = tables()


def form(kind, message):
    """Which of the page's forms it is."""
    if message.get("gone"):
        return "gone"
    if kind == "feed":
        return message.get("mode") or ("resync" if "resync" in message else "changes")
    return message["event"] if kind == "member" else "count"


@pytest.fixture
def service(tcp_server):
    client = tcp_server.client()
    client("CONFIG", "SET", "presence.count-every", 100)
    client("CONFIG", "SET", "presence.feed", 100)
    return client


def test_the_examples_are_all_there_and_short():
    assert set(BLOCKS) == {f"{what}.{language}" for what in ("badges", "dots", "list") for language in LANGUAGES} | {"badge-acl.sh"}
    assert {name: lines for name, text in BLOCKS.items() if (lines := len(text.splitlines())) >= 25} == {}


def test_messages_have_the_fields_in_the_tables_and_no_others(tcp_server, service):
    with Watcher(tcp_server, ["presence.*"]) as watcher:

        def heard(kind):
            return [json.loads(event.name) for event in watcher.events if event.kind.startswith(f"presence.{kind}:")]

        service("PRESENCE.CREATE", ROOM, "INTERVALOVER", 3, "SHARE", "everyone")
        service("PRESENCE.BEAT", ROOM, "asha", "STATUS", "here", "DATA", "d")
        service("PRESENCE.BEAT", ROOM, "asha", "DATA", b"\xff")
        service("PRESENCE.BEAT", ROOM, b"\xff", "TIMEOUT", 100, "GRACE", 0)
        watcher.wait_for(lambda event: b'"timeout"' in event.name)
        service("PRESENCE.MBEAT", ROOM, "MEMBERS", "a", "b", "c", "d")
        for id in "abcd":
            service("PRESENCE.BYE", ROOM, id)
        wait_until(lambda: any("resync" in message for message in heard("feed")))
        service("DEL", ROOM)
        wait_until(lambda: any("gone" in message for message in heard("feed")))
        watcher.sync()
        messages = {kind: heard(kind) for kind in TABLES}
    assert set(TABLES) == {"count", "member", "feed"}
    for kind, forms in TABLES.items():
        seen = {name: set() for name in forms}
        for message in messages[kind]:
            always, perhaps = forms[form(kind, message)]
            assert always <= set(message) <= always | perhaps, (kind, message)
            seen[form(kind, message)] |= set(message)
        assert all(seen.values()), kind
        assert set().union(*seen.values()) == {name for pair in forms.values() for names in pair for name in names}
    # An event is a member's message without its epoch.
    members = {name: (always - {"epoch"}, perhaps) for name, (always, perhaps) in TABLES["member"].items()}
    events = [event for message in messages["feed"] for event in message.get("events", [])]
    assert events
    for event in events + messages["member"]:
        always, perhaps = members[event["event"]]
        assert always <= set(event) <= always | perhaps | {"epoch"} and ("member" in event) != ("member64" in event)


def test_who_may_see_badges_learns_no_name(tcp_server, service, run):
    shell(tcp_server, BLOCKS["badge-acl.sh"])
    user = tcp_server.client()
    assert user("AUTH", "badges", "secret1") == "OK"
    names = fields(user("PRESENCE.CHANNELS", ROOM, "asha"))
    assert user("PRESENCE.COUNT", ROOM, "BADGE") == b"0"
    refused = [("SUBSCRIBE", names["member"]), ("SUBSCRIBE", names["feed"]), ("SUBSCRIBE", f"__keyspace@0__:{ROOM}:asha")]
    refused += [("PSUBSCRIBE", "*"), ("PSUBSCRIBE", "presence.*"), ("PUBLISH", names["count"], "0")]
    refused += [(f"PRESENCE.{name}", ROOM) for name in ("MEMBERS", "INFO")]
    refused += [("PRESENCE.GET", ROOM, "asha"), ("PRESENCE.CHANGES", ROOM, "0" * 16, 0), ("PRESENCE.FRIENDS", ROOM, "asha", "bo")]
    refused += [("PRESENCE.BEAT", ROOM, "asha"), ("PRESENCE.COUNT", "elsewhere"), ("DUMP", ROOM), ("MONITOR",)]
    for command in refused:
        reply = user.call(*command)
        assert isinstance(reply, Err) and reply.code == "NOPERM", (command, reply)
    program = run("badges.py", user="badges:secret1@")
    program.wait_for("gig:43 0")
    service("PRESENCE.BEAT", ROOM, "asha", "SHARE", "everyone")
    program.wait_for("gig:42 1")


def cut(client):
    """Ends all subscriptions, as a network would."""
    assert client("CLIENT", "KILL", "TYPE", "pubsub") > 0


@pytest.mark.parametrize("language", LANGUAGES)
def test_badges(service, run, language):
    service("PRESENCE.BEAT", ROOM, "asha")
    program = run(f"badges.{language}")
    assert sorted([program.line(), program.line()]) == ["gig:42 1", "gig:43 0"]
    service("PRESENCE.MBEAT", "gig:43", "MEMBERS", *range(1234))
    program.wait_for("gig:43 1.2k")
    cut(service)
    service("PRESENCE.BEAT", ROOM, "bo")
    program.wait_for("gig:42 2")


@pytest.mark.parametrize("language", LANGUAGES)
def test_dots_of_who_is_on_screen(service, run, language):
    service("PRESENCE.BEAT", ROOM, "bo", "SHARE", "friends")
    program = run(f"dots.{language}")
    assert sorted([program.line(), program.line()]) == ["bo is online", "carl is offline"]
    service("PRESENCE.BEAT", ROOM, "dan", "SHARE", "everyone")  # on nobody's screen
    service("PRESENCE.BEAT", ROOM, "carl", "SHARE", "friends", "STATUS", "row 4")
    assert program.line() == "carl online row 4"
    service("PRESENCE.BEAT", ROOM, "carl", "STATUS", "bar")
    assert program.line() == "carl update bar"
    service("PRESENCE.BYE", ROOM, "bo")
    assert program.line().rstrip() == "bo offline"
    cut(service)
    service("PRESENCE.BYE", ROOM, "carl")
    program.wait_for("carl is recent")


@pytest.mark.parametrize("pubsub", ["classic", "sharded"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_list_that_keeps_itself(service, run, language, pubsub):
    service("CONFIG", "SET", "presence.pubsub", pubsub)

    def shows(*ids):
        program.wait_for(str(list(ids)) if language == "py" else f"[ {', '.join(map(repr, ids))} ]" if ids else "[]")

    service("PRESENCE.CREATE", ROOM, "INTERVALOVER", 5)
    service("PRESENCE.BEAT", ROOM, "asha", "SHARE", "everyone")
    program = run(f"list.{language}")
    shows("asha")
    service("PRESENCE.BEAT", ROOM, "bo", "SHARE", "everyone")
    shows("asha", "bo")
    cut(service)
    service("PRESENCE.BYE", ROOM, "asha")
    shows("bo")
    service("PRESENCE.MBEAT", ROOM, "MEMBERS", *range(6))
    program.wait_for("too many to name")
    for id in range(6):
        service("PRESENCE.BYE", ROOM, id)
    shows("bo")
    service("DEL", ROOM)
    shows()
