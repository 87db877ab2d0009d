"""Forged values: RESTORE and PRESENCE.APPLY of altered bytes whose checksums are right are an error or a sound room."""

import random

import pytest

import forge
from harness import Err
from support import check_sums, digest, fields, names, room_info, wait_until

# The module says in the log why it gives a value up.
pytestmark = [pytest.mark.warnings_ok, pytest.mark.config(rdbcompression="no")]


@pytest.fixture(autouse=True)
def unharmed(server):
    yield
    info = server.info()
    assert info["presence_panics"] == "0" and "panic" not in server.log().lower()
    check_sums(server)


def a_room(client, room="r"):
    """A small room with one of everything."""
    client("PRESENCE.CREATE", room, "TIMEOUT", 50000, "RECENT", 60000, "SHARE", "friends", "UNIQUES", 5)
    client("PRESENCE.BEAT", room, "asha", "STATUS", "away", "DATA", "x" * 200)
    client("PRESENCE.BEAT", room, "asha", "SESSION", "phone", "TIMEOUT", 40000, "GRACE", 0, "STATUS", "typing")
    client("PRESENCE.BEAT", room, "bela", "SESSION", "s"), client("PRESENCE.BYE", room, "bela", "SOFT")
    client("PRESENCE.BEAT", room, "chen", "SESSION", "s"), client("PRESENCE.BYE", room, "chen")
    client("PRESENCE.BEAT", room, "dana")


def at_once(client, *commands):
    """The replies to these commands, with nothing in between."""
    client("MULTI")
    for command in commands:
        client(*command)
    return client("EXEC")


def is_sound(client, room):
    """What was taken can be read, saved, copied, changed and removed like any other room."""
    # Each at one moment: among what is forged are times so short that somebody leaves between two commands.
    everybody = names(client, room)
    page, present, sessions, *views = at_once(
        client,
        ("PRESENCE.MEMBERS", room, "ALL", "COUNT", 1000),
        ("PRESENCE.COUNT", room),
        ("PRESENCE.COUNT", room, "SESSIONS"),
        *(("PRESENCE.GET", room, id) for id in everybody),
    )
    ids = [fields(entry)["member"] for entry in page[3]]
    assert page[0] == b"0" and len(ids) == len(set(ids)) == present and set(ids) <= set(everybody)
    held = {id: fields(view)["sessions"] for id, view in zip(everybody, views) if view is not None}
    assert sum(len(held[id]) for id in ids) == sessions
    room_info(client, room), client.call("PRESENCE.UNIQUE", room)
    copied, *digests = at_once(
        client, ("COPY", room, "copy", "REPLACE"), *(("DEBUG", "DIGEST-VALUE", key) for key in ("copy", room))
    )
    assert copied == 1 and digests[0] == digests[1]
    dump, before = at_once(client, ("DUMP", room), ("DEBUG", "DIGEST-VALUE", room))
    restored, after = at_once(client, ("RESTORE", "again", 0, dump, "REPLACE"), ("DEBUG", "DIGEST-VALUE", "again"))
    # What lapses by the calendar's clock may lapse on the way.
    assert restored == "OK" and (after == before or after == digest(client, room))
    client("PRESENCE.BEAT", room, "new"), client("PRESENCE.BYE", room, "asha"), client("PRESENCE.ALTER", room, "GRACE", 1)
    client("DEL", room, "copy", "again")


def test_the_forgery_is_faithful(client):
    a_room(client)
    dump = client("DUMP", "r")
    assert forge.sealed_dump(dump[: -forge.CRC]) == dump
    payloads, version = forge.payloads_in(dump)
    assert payloads and all(forge.sealed_payload(payload[:-8]) == payload for payload in payloads)
    again = forge.dump_of(dump[: forge.HEAD], payloads, version)
    assert client("RESTORE", "q", 0, again) == "OK" and digest(client, "q") == digest(client, "r")


@pytest.mark.parametrize("seed", range(2))
def test_altered_dumps(client, seed):
    chance = random.Random(seed)
    a_room(client)
    dump = client("DUMP", "r")
    end = -forge.VERSION - forge.CRC
    head, body, version = dump[: forge.HEAD], dump[forge.HEAD : end], dump[end : -forge.CRC]
    taken = 0
    for forged in forge.alterations(body, chance, 700):
        reply = client.call("RESTORE", "forged", 0, forge.sealed_dump(head + forged + version), "REPLACE")
        if reply == "OK":
            taken += 1
            is_sound(client, "forged")
        else:
            assert isinstance(reply, Err)
    # The module's own checksum guards almost all of it.
    assert taken <= 100 and client("PING") == "PONG"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("by", ["RESTORE", "APPLY"])
def test_altered_payloads_with_a_right_checksum(client, by, seed):
    chance = random.Random(seed)
    a_room(client)
    dump = client("DUMP", "r")
    payloads, version = forge.payloads_in(dump)
    assert len(payloads) >= 2, "settings and uniques, members"
    taken = refused = 0
    for which, payload in enumerate(payloads):
        for forged in forge.alterations(payload[:-8], chance, 500):
            if by == "RESTORE":
                series = [*payloads[:which], forge.sealed_payload(forged), *payloads[which + 1 :]]
                reply = client.call("RESTORE", "forged", 0, forge.dump_of(dump[: forge.HEAD], series, version), "REPLACE")
            else:
                reply = client.call("PRESENCE.APPLY", "forged", forge.sealed_payload(forged))
            if reply == "OK":
                taken += 1
                if client("EXISTS", "forged"):
                    is_sound(client, "forged")
            else:
                refused += 1
                assert isinstance(reply, Err)
    assert taken > 10 and refused > 100, (taken, refused)


def test_random_payloads(client):
    chance = random.Random(7)
    for _ in range(1000):
        covered = chance.choice([b"", b"\x01", b"\x01" + chance.randbytes(9)]) + chance.randbytes(chance.randrange(64))
        for payload in (covered, forge.sealed_payload(covered)):
            reply = client.call("PRESENCE.APPLY", "forged", payload)
            assert reply == "OK" or isinstance(reply, Err)
    if client("EXISTS", "forged"):
        is_sound(client, "forged")


def test_a_refused_payload_changes_nothing(client):
    a_room(client)
    before = digest(client, "r")
    payloads, _ = forge.payloads_in(client("DUMP", "r"))
    for payload in payloads:
        for broken in (payload[:-1], payload + b"\0", b"\x00" + payload[1:], forge.sealed_payload(payload[:-8] + b"\xff")):
            assert isinstance(client.call("PRESENCE.APPLY", "r", broken), Err)
            assert isinstance(client.call("PRESENCE.APPLY", "none", broken), Err)
    assert digest(client, "r") == before and client("EXISTS", "none") == 0


def test_a_payload_applied_twice_is_applied_once(client):
    a_room(client)
    payloads, _ = forge.payloads_in(client("DUMP", "r"))
    for _ in range(2):
        for payload in payloads:
            assert client("PRESENCE.APPLY", "q", payload) == "OK"
    assert digest(client, "q") == digest(client, "r")
    assert client("PRESENCE.COUNT", "q", "SESSIONS") == client("PRESENCE.COUNT", "r", "SESSIONS")


def test_a_newer_encoding_is_refused_with_a_clear_line(server, client):
    a_room(client)
    dump = client("DUMP", "r")
    # The type id ends with the encoding version, ten bits.
    newer = bytearray(dump[: -forge.CRC])
    newer[forge.HEAD - 1] += 1
    assert isinstance(client.call("RESTORE", "q", 0, forge.sealed_dump(bytes(newer))), Err)
    assert "update the module" in server.log()
    payloads, version = forge.payloads_in(dump)
    later = forge.sealed_payload(b"\x02" + payloads[0][1:-8])
    assert isinstance(client.call("RESTORE", "q", 0, forge.dump_of(dump[: forge.HEAD], [later], version)), Err)
    assert "reads up to 1" in client.call("PRESENCE.APPLY", "q", later)
    assert client("EXISTS", "q") == 0


def test_an_empty_room_from_outside_does_not_stay(client):
    a_room(client)
    dump = client("DUMP", "r")
    _, version = forge.payloads_in(dump)
    empty = forge.dump_of(dump[: forge.HEAD], [], version)
    reply = client.call("RESTORE", "q", 0, empty)
    assert isinstance(reply, Err) or wait_until(lambda: not client("EXISTS", "q"))
