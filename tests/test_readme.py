"""The README: its examples run as they stand, its shell commands show what they claim, and its arithmetic is right."""

import re
import signal

import pytest

from harness import Err
from harness.server import MODULE, PROJECT
from snippets import blocks, shell
from test_configuration_docs import rows

README = (PROJECT / "README.md").read_text()
BLOCKS = blocks(README)
EXPECTED = {f"{what}.{language}" for what in ("beat", "badge", "dot") for language in ("py", "mjs")}
EXPECTED |= {"acl.sh", "steady.sh", "memory.sh"}


def test_the_examples_are_all_there_and_short():
    assert set(BLOCKS) == EXPECTED
    assert {name: lines for name, text in BLOCKS.items() if (lines := len(text.splitlines())) >= 20} == {}


@pytest.mark.parametrize("language", ["py", "mjs"])
def test_a_beat_loop_keeps_somebody_here_until_it_ends(tcp_server, run, language):
    client = tcp_server.client()
    program = run(f"beat.{language}", ("EVERY = 10", "EVERY = 0.05"))
    assert [program.line() for _ in range(3)] == ["came online", "still here", "still here"]
    assert client("PRESENCE.COUNT", "event42") == 1
    assert client("PRESENCE.FRIENDS", "event42", "bo", "asha") == [b"online"]

    # Somebody says goodbye for that session (another tab that logs out): it goes on under a new id.
    assert client("PRESENCE.BYE", "event42", "asha") == 1
    while (line := program.line()) == "still here":
        pass
    assert [line, program.line()] == ["said goodbye before", "came online"]

    assert program.terminate() in (0, -signal.SIGTERM)
    assert client("PRESENCE.COUNT", "event42") == 0


@pytest.mark.parametrize("language", ["py", "mjs"])
def test_a_badge(tcp_server, run, language):
    program = run(f"badge.{language}")
    assert program.line() == "2.3k are looking at this"
    assert program.process.wait(30) == 0
    assert tcp_server.client()("PRESENCE.COUNT", "gig:42") == 2341


@pytest.mark.parametrize("language", ["py", "mjs"])
def test_dots_follow_what_a_viewer_may_see(tcp_server, run, language):
    client = tcp_server.client()
    program = run(f"dot.{language}")
    assert program.line() == "bo is offline, carl is offline"
    client("PRESENCE.BEAT", "event42", "carl")  # shares with nobody: no line
    client("PRESENCE.BEAT", "event42", "bo", "SHARE", "friends")
    assert program.line() == "bo is online, carl is offline"
    client("PRESENCE.SHARE", "event42", "carl", "friends")
    assert program.line() == "bo is online, carl is online"
    client("PRESENCE.BYE", "event42", "bo")
    assert program.line() == "bo is recent, carl is online"


def test_acl_users_may_do_their_work_and_no_more(tcp_server):
    assert shell(tcp_server, BLOCKS["acl.sh"]) == ["OK"] * 3
    commands = {
        "counter": [("COUNT", "gig:1"), ("MCOUNT", "gig:1", "gig:2"), ("UNIQUE", "gig:1")],
        "gateway": [("BEAT", "gig:1", "a"), ("MBEAT", "gig:1", "MEMBERS", "a"), ("BYE", "gig:1", "a"), ("SHARE", "gig:1", "a", "nobody")],
        "dots": [("FRIENDS", "gig:1", "a", "b")],
    }
    others = [("GET", "gig:1", "a"), ("MEMBERS", "gig:1"), ("CREATE", "gig:9"), ("APPLY", "gig:1", "")]
    for place, (user, own) in enumerate(commands.items(), 1):
        client = tcp_server.client()
        assert client("AUTH", user, f"secret{place}") == "OK"
        for command, *words in own:
            assert not isinstance(client.call(f"PRESENCE.{command}", *words), Err), (user, command)
        refused = [c for name, calls in commands.items() if name != user for c in calls] + others
        refused += [(command, "elsewhere", *words[1:]) for command, *words in own]
        for command, *words in refused:
            reply = client.call(f"PRESENCE.{command}", *words)
            assert isinstance(reply, Err) and reply.code == "NOPERM", (user, command, reply)


def test_the_category_grants_all_but_apply(client):
    if b"presence" not in client("ACL", "CAT"):
        pytest.skip("this server lets no module have a category")
    client("ACL", "SETUSER", "service", "on", ">secret", "~*", "+@presence", "-@admin")
    client("AUTH", "service", "secret")
    assert client("PRESENCE.BEAT", "r", "m") == 1
    assert client.call("PRESENCE.APPLY", "r", "").code == "NOPERM"


def test_a_steady_crowd_costs_the_aof_nothing(tcp_server):
    sizes = [line for line in shell(tcp_server, BLOCKS["steady.sh"]) if line.startswith("aof_current_size:")]
    assert len(sizes) == 2 and sizes[0] == sizes[1] != "aof_current_size:0"
    assert int(tcp_server.info()["presence_beats"]) >= 100_001


def test_memory_of_a_member_is_what_the_readme_says(tcp_server):
    claimed, of_id = map(int, re.search(r"(\d+) bytes a\s+member, of which (\d+) are its id", README).groups())
    count, memory = map(int, shell(tcp_server, BLOCKS["memory.sh"])[-2:])
    assert 60_000 < count < 66_000 and of_id == len("member:000000012345")
    assert abs(memory / count - claimed) <= 3


def test_unload_is_refused_as_the_readme_says(client):
    refused = client.call("MODULE", "UNLOAD", "presence")
    assert isinstance(refused, Err) and "data type" in refused
    assert MODULE.exists() and client("PRESENCE.COUNT", "r") == 0


def test_the_arithmetic_of_the_trade_off():
    section = README.split("## Heartbeat, timeout, grace\n", 1)[1].split("\n## ", 1)[0]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")]
    assert len(table) == 6
    for name, *cells, rate in table[2:]:
        heartbeat, timeout, grace, quiet, untold = map(int, cells[:5])
        # With k beats lost the next comes after k + 1 heartbeats, and must come before the deadline.
        assert quiet == max(k for k in range(100) if (k + 1) * heartbeat < timeout), name
        assert untold == max(k for k in range(100) if (k + 1) * heartbeat < timeout + grace), name
        assert cells[5] == f"{timeout + grace - heartbeat} to {timeout + grace}", name
        assert rate == f"{100_000 / heartbeat:,.0f}", name


def test_the_limits_hold(client):
    limits = {what: int(re.findall(r"[\d,]+", limit.replace("0 to", "").replace("1 to", ""))[0].replace(",", ""))
              for what, limit in (line.strip("| ").split(" | ") for line in README.split("## Limits\n")[1].splitlines()
                                  if line.startswith("| ") and re.search(r"\d", line))}
    day = 86_400_000

    def taken(*words):
        return not isinstance(client.call(*words), Err)

    def holds(what, command):
        limit = limits.pop(what)
        assert taken(*command(limit)), what
        assert not taken(*command(limit + 1)), what

    holds("member id", lambda n: ("PRESENCE.BEAT", "r", "m" * n))
    holds("session id", lambda n: ("PRESENCE.BEAT", "r", "m", "SESSION", "s" * n))
    holds("`STATUS`", lambda n: ("PRESENCE.BEAT", "r", "m", "STATUS", "x" * n))
    holds("`DATA`", lambda n: ("PRESENCE.BEAT", "r", "m", "DATA", "x" * n))
    holds("items of an `MBEAT`", lambda n: ("PRESENCE.MBEAT", "r", "MEMBERS", *range(n)))
    holds("friends of a `FRIENDS`", lambda n: ("PRESENCE.FRIENDS", "r", "v", *range(n)))
    holds("`COUNT` of `MEMBERS`, of which a page has at most 1,000", lambda n: ("PRESENCE.MEMBERS", "r", "COUNT", n))
    holds("days of uniques", lambda n: ("PRESENCE.ALTER", "r", "UNIQUES", n))
    sessions = limits.pop("sessions of a member")
    replies = [client.call("PRESENCE.BEAT", "r", "many", "SESSION", n, "TIMEOUT", day) for n in range(sessions + 1)]
    assert [isinstance(reply, Err) for reply in replies] == [False] * sessions + [True]
    ids = limits.pop("ids in the set of a `FRIENDSFROM`")
    client("SADD", "s", *range(ids))
    assert taken("PRESENCE.FRIENDSFROM", "r", "v", "s")
    client("SADD", "s", ids)
    assert not taken("PRESENCE.FRIENDSFROM", "r", "v", "s")
    assert limits == {}


def test_links_lead_somewhere():
    pages = [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), (page.name, target)
