"""What the server knows of the commands: documentation, keys, flags, categories; and what follows from it for ACLs."""

import pytest

from harness import Connection, Err
from support import fields

# Every form of every command, and its keys.
FORMS = {
    "BEAT k m": "k",
    "BEAT k m SESSION s SHARE nobody STATUS t DATA d TIMEOUT 1000 GRACE 0": "k",
    "MBEAT k MEMBERS m n": "k",
    "MBEAT k SESSIONS m s n t": "k",
    "MBEAT k EACH MEMBERS m": "k",
    "MBEAT k EACH SESSIONS m s": "k",
    "BYE k m": "k",
    "BYE k m SESSION s SOFT": "k",
    "SHARE k m friends": "k",
    "COUNT k": "k",
    "COUNT k BADGE": "k",
    "COUNT k SESSIONS": "k",
    "MCOUNT a": "a",
    "MCOUNT a b c": "a b c",
    "FRIENDS k v f": "k",
    "FRIENDS k v f g": "k",
    "FRIENDSFROM k v set": "k set",
    "UNIQUE k": "k",
    "UNIQUE k DAY 20260101": "k",
    "UNIQUE k DAYS 2": "k",
    "UNIQUE k WITH a": "k a",
    "UNIQUE k DAY 20260101 DAYS 2 WITH a b": "k a b",
    "UNIQUE WITH with WITH with": "WITH WITH with",
    "GET k m": "k",
    "MEMBERS k": "k",
    "MEMBERS k CURSOR 0 COUNT 10 ALL": "k",
    "CHANGES k 0123456789abcdef 7": "k",
    "CHANGES k 0123456789abcdef 7 COUNT 10 ALL": "k",
    "CREATE k": "k",
    "CREATE k TIMEOUT 1000 SHARE friends": "k",
    "ALTER k TIMEOUT DEFAULT": "k",
    "INFO k": "k",
    "CHANNELS k": "k",
    "CHANNELS k m": "k",
    "APPLY k payload": "k",
    "PROBE k": "k",
}
WRITES = {"BEAT", "MBEAT", "BYE", "SHARE", "CREATE", "ALTER", "APPLY", "PROBE"}
NUMBERS = ("+presence.count", "+presence.mcount", "+presence.unique")


def commands(client):
    """The module's commands, without the prefix."""
    names = client("COMMAND", "LIST", "FILTERBY", "MODULE", "presence")
    return sorted(name.decode().upper().removeprefix("PRESENCE.") for name in names)


def command_info(client, name):
    [info] = client("COMMAND", "INFO", f"PRESENCE.{name}")
    arity, flags, first, last, step, categories = info[1:7]
    return arity, set(flags), (first, last, step), {category.lower() for category in categories}


def test_every_command_is_documented(client):
    for name in commands(client):
        [(_, entry)] = fields(client("COMMAND", "DOCS", f"PRESENCE.{name}")).items()
        entry = fields(entry)
        for what in ("summary", "complexity", "since"):
            assert entry[what], f"{name} has no {what}"
        assert entry["module"] == b"presence" and entry["complexity"].startswith(b"O(")
        arguments = [fields(argument) for argument in entry["arguments"]]
        assert arguments[0]["name"] == b"key" and arguments[0]["type"] == b"key" and arguments[0]["key_spec_index"] == 0


def test_every_command_has_a_form_below(client):
    assert set(commands(client)) - {form.split()[0] for form in FORMS} == set()


def test_the_keys_are_exactly_these(client):
    known = commands(client)
    for form, keys in FORMS.items():
        name, *arguments = form.split()
        if name not in known:
            continue  # a command to come
        assert client("COMMAND", "GETKEYS", f"PRESENCE.{name}", *arguments) == keys.encode().split(), form
        for key, flags in client("COMMAND", "GETKEYSANDFLAGS", f"PRESENCE.{name}", *arguments):
            assert ("RW" if name in WRITES else "RO") in flags, f"{form}: {key}"


def test_flags_say_what_a_command_does(client):
    for name in commands(client):
        arity, flags, keys, _ = command_info(client, name)
        assert ("write" in flags) == (name in WRITES) and ("readonly" in flags) == (name not in WRITES), name
        assert abs(arity) >= 2 or name == "PROBE"
        assert keys[0] == 1 and keys[2] == 1
        # Goodbyes, renewals and what a primary decided pass when memory is short; joins are refused one by one.
        assert ("denyoom" in flags) == (name == "CREATE"), name
        # What is rejected in a script or a transaction would be no ordinary write.
        assert not flags & {"noscript", "no_multi", "blocking", "pubsub", "random"}, name
    for name in ("BEAT", "MBEAT", "COUNT", "FRIENDS"):
        assert "fast" in command_info(client, name)[1]


def test_categories(client, kind):
    own = kind != "redis-7.0"
    if own:
        assert b"presence" in client("ACL", "CAT")
        assert {name.decode().upper() for name in client("ACL", "CAT", "presence")} == {
            f"PRESENCE.{name}" for name in commands(client)
        }
    for name in commands(client):
        *_, categories = command_info(client, name)
        if own:
            assert {"@presence", "@write" if name in WRITES else "@read"} <= categories, name
    if own:
        assert {"@admin", "@dangerous"} <= command_info(client, "APPLY")[3]


# -- what an operator may grant --------------------------------------------------------------------------------------


def as_user(server, *rules):
    """A connection of a user with these rights only."""
    server.client()("ACL", "SETUSER", "u", "reset", "on", "nopass", *rules)
    connection = Connection(server.socket)
    connection("AUTH", "u", "any")
    return connection


def denied(client, *command):
    reply = client.call(*command)
    return isinstance(reply, Err) and reply.code == "NOPERM"


def test_a_user_for_numbers_sees_no_names(server):
    admin = server.client()
    admin("PRESENCE.BEAT", "r", "asha", "SHARE", "everyone")
    with as_user(server, "~*", *NUMBERS) as user:
        assert user("PRESENCE.COUNT", "r") == 1 and user("PRESENCE.MCOUNT", "r", "s") == [1, 0]
        assert user("PRESENCE.UNIQUE", "r") == 1
        for command in ("GET r asha", "MEMBERS r", "FRIENDS r v asha", "BEAT r bela", "INFO r", "APPLY r x"):
            name, *arguments = command.split()
            assert denied(user, f"PRESENCE.{name}", *arguments), command
    assert admin("PRESENCE.COUNT", "r") == 1


def test_a_user_for_one_key_is_refused_for_the_second(server):
    server.client()("SADD", "set", "asha")
    with as_user(server, "~k", "+@all") as user:
        assert user("PRESENCE.BEAT", "k", "asha") == 1
        assert user("PRESENCE.MCOUNT", "k") == [1] and user("PRESENCE.UNIQUE", "k", "WITH", "k") == 1
        for command in (
            "BEAT other asha",
            "MCOUNT k other",
            "MCOUNT other k",
            "UNIQUE k WITH other",
            "UNIQUE k DAYS 1 with other",
            "UNIQUE k WITH k other",
            "FRIENDSFROM k asha set",
            "FRIENDSFROM set asha k",
            "CREATE other",
            "APPLY other x",
        ):
            name, *arguments = command.split()
            assert denied(user, f"PRESENCE.{name}", *arguments), command


def test_a_user_who_may_only_read_a_key_cannot_beat(server):
    server.client()("PRESENCE.BEAT", "k", "asha")
    with as_user(server, "%R~k", "+@all") as user:
        assert user("PRESENCE.COUNT", "k") == 1 and user("PRESENCE.GET", "k", "asha")
        for command in ("BEAT k bela", "BYE k asha", "SHARE k asha friends", "ALTER k TIMEOUT 1000", "MBEAT k MEMBERS b"):
            name, *arguments = command.split()
            assert denied(user, f"PRESENCE.{name}", *arguments), command


def test_the_category_grants_all_of_presence_and_nothing_else(server, kind):
    if kind == "redis-7.0":
        pytest.skip("a module cannot have a category there")
    with as_user(server, "~*", "+@presence", "-@dangerous") as user:
        assert user("PRESENCE.BEAT", "k", "asha") == 1 and user("PRESENCE.COUNT", "k") == 1
        assert denied(user, "GET", "k") and denied(user, "PRESENCE.APPLY", "k", "x")
