"""The clients' RoomViews, Python and JavaScript, through the same cases: what they need, and what they show."""

import base64
import json

import pytest

from readers import LANGUAGES, reader

NO_ROOM, A, B = "0" * 16, "a" * 16, "b" * 16
BINARY = b"\xff\0"


class Resync(Exception):
    def __init__(self):
        super().__init__("RESYNC the history does not reach back to that epoch and seq: read PRESENCE.MEMBERS again")


def flat(**values):
    """A map as RESP2 has it."""
    return [part for name, value in values.items() for part in (name.encode(), value)]


def members(epoch, seq, *ids, cursor=b"0", status=b"", data=b""):
    """A reply of MEMBERS."""
    entries = [flat(member=id if isinstance(id, bytes) else id.encode(), status=status, data=data) for id in ids]
    return [cursor, epoch.encode(), seq, entries]


def changes(epoch, seq, *events):
    """A reply of CHANGES; each event as (kind, member, seq)."""
    told = []
    for kind, id, number in events:
        rest = {"reason": b"goodbye"} if kind == "offline" else {"status": b"told", "data": b""}
        told.append(flat(event=kind.encode(), member=id.encode(), seq=number, **rest))
    return flat(epoch=epoch.encode(), seq=seq, events=told)


def feed(epoch, first, seq, *events, count=9, **more):
    """A message; each event as (kind, member, seq) and what it shows."""
    told = [{"event": kind, "member": id, "seq": number, **shown} for kind, id, number, shown in map(padded, events)]
    return {"epoch": epoch, "from": first, "seq": seq, "count": count, "events": told, **more}


def padded(event):
    return event if len(event) == 4 else (*event, {})


def interval(epoch, first, seq, count):
    return {"epoch": epoch, "from": first, "seq": seq, "count": count, "mode": "interval", "came": 3, "went": 1}


class Session:
    """A reader, and the commands that it is expected to send."""

    def __init__(self, language):
        self.reader = reader(language, "room")

    def hear(self, *messages):
        for message in messages:
            self.reader.hear(message)

    def reads(self, *expected):
        """It reads, by exactly these commands: (words, reply, messages that come while it is under way)."""
        left = list(expected)

        def call(*words):
            assert left, f"unexpected: {words}"
            wanted, reply, *meanwhile = left.pop(0)
            said = " ".join(word.decode() if isinstance(word, bytes) else str(word) for word in words)
            assert said.startswith(f"PRESENCE.{wanted}"), said
            self.hear(*meanwhile)
            if isinstance(reply, Exception):
                raise reply
            return reply

        self.reader.read(call)
        assert left == []

    def shows(self, epoch, seq, *ids, **more):
        """Nothing is needed, and these are there."""
        shown = self.reader.shown()
        assert (shown.needs, shown.epoch, shown.seq) == (None, epoch, seq)
        assert (None if shown.list is None else set(shown.list)) == (None if ids == (None,) else set(ids))
        for name, value in more.items():
            assert getattr(shown, name) == value

    def needs(self, what):
        assert self.reader.shown().needs == what


@pytest.fixture(params=LANGUAGES)
def session(request):
    session = Session(request.param)
    yield session
    session.reader.close()


@pytest.fixture
def level(session):
    """At (A, 10), with asha and bo."""
    session.reads(("MEMBERS room CURSOR 0", members(A, 10, "asha", "bo")))
    return session


def test_it_begins_with_all_pages(session):
    session.needs("pages")
    session.hear(feed(A, 10, 10, ("online", "asha", 10)))
    session.needs("pages")
    session.reads(
        ("MEMBERS room CURSOR 0", members(A, 10, "asha", cursor=b"77")),
        # A page may be empty. In the middle of it asha goes, who was on an earlier page, and dan comes, who is on a later one.
        ("MEMBERS room CURSOR 77", members(A, 11, cursor=b"78"), feed(A, 11, 11, ("offline", "asha", 11)), feed(A, 12, 12, ("online", "dan", 12))),
        ("MEMBERS room CURSOR 78", members(A, 12, "carl", "dan"), feed(A, 13, 13)),
    )
    session.shows(A, 13, "carl", "dan", count=9)


def test_pages_of_two_rooms_are_read_again(session):
    session.reads(
        ("MEMBERS room CURSOR 0", members(A, 10, "asha", cursor=b"1")),
        ("MEMBERS room CURSOR 1", members(B, 1, "bo")),
        ("MEMBERS room CURSOR 0", members(B, 2, "bo", "carl")),
    )
    session.shows(B, 2, "bo", "carl")


def test_events_follow_one_another(level):
    level.hear(feed(A, 11, 13, ("online", "carl", 11, {"status": "row 4", "data": "x"}), ("offline", "bo", 13), count=2))
    level.shows(A, 13, "asha", "carl", count=2)
    level.hear(feed(A, 14, 14, ("update", "carl", 14, {"status": "away"})))
    level.shows(A, 14, "asha", "carl", list={"asha": ("", ""), "carl": ("away", "")})
    # Changes of hidden members have numbers and no events.
    level.hear(feed(A, 15, 20))
    level.shows(A, 20, "asha", "carl")


def test_what_is_known_already_changes_nothing(level):
    message = feed(A, 9, 11, ("online", "carl", 9), ("offline", "bo", 11))
    level.hear(message, message, feed(A, 3, 4, ("online", "old", 4)), feed(A, 11, 10, resync=True))
    level.shows(A, 11, "asha")


def test_the_count_is_the_last_messages(level):
    level.hear(feed(A, 9, 9, count=5))
    level.shows(A, 10, "asha", "bo", count=None)
    level.hear(feed(A, 10, 10, count=6))
    level.shows(A, 10, "asha", "bo", count=6)


def test_one_lost_change_is_a_gap(level):
    level.hear(feed(A, 12, 12, ("online", "carl", 12), count=4))
    level.needs("changes")
    level.reads(
        (f"CHANGES room {A} 10", changes(A, 12, ("offline", "bo", 11), ("online", "carl", 12))),
        (f"CHANGES room {A} 12", changes(A, 12)),
    )
    level.shows(A, 12, "asha", "carl", count=4)


def test_a_gap_is_filled_by_changes(level):
    level.hear(feed(A, 13, 14, ("offline", "asha", 14)))
    level.needs("changes")
    level.reads(
        (f"CHANGES room {A} 10", changes(A, 12, ("online", "carl", 11), ("offline", "bo", 12))),
        (f"CHANGES room {A} 12", changes(A, 15, ("offline", "asha", 14), ("online", "dan", 15)), feed(A, 15, 15, ("online", "dan", 15))),
        (f"CHANGES room {A} 15", changes(A, 15), feed(A, 16, 16, ("online", "eve", 16), count=5)),
    )
    level.shows(A, 16, "carl", "dan", "eve", count=5)


def test_a_second_gap_while_one_is_filled(level):
    level.hear(feed(A, 13, 13))
    level.reads(
        (f"CHANGES room {A} 10", changes(A, 13, ("online", "carl", 11))),
        (f"CHANGES room {A} 13", changes(A, 13), feed(A, 16, 16, ("offline", "carl", 16))),
        (f"CHANGES room {A} 13", changes(A, 16, ("online", "dan", 15), ("offline", "carl", 16))),
        (f"CHANGES room {A} 16", changes(A, 16)),
    )
    level.shows(A, 16, "asha", "bo", "dan")


def test_where_the_history_does_not_reach_it_starts_over(level):
    level.hear(feed(A, 900, 900, ("online", "carl", 900)))
    level.reads((f"CHANGES room {A} 10", Resync()), ("MEMBERS room CURSOR 0", members(A, 901, "dan")))
    level.shows(A, 901, "dan")


def test_another_failure_is_the_callers(level):
    level.hear(feed(A, 13, 13))
    with pytest.raises(Exception, match="the line is cut"):
        level.reads((f"CHANGES room {A} 10", ConnectionError("the line is cut")))
    level.needs("changes")
    level.reads((f"CHANGES room {A} 10", changes(A, 13)), (f"CHANGES room {A} 13", changes(A, 13)))
    level.shows(A, 13, "asha", "bo")


def test_another_epoch_starts_over(level):
    level.hear(feed(B, 1, 1, ("online", "carl", 1)), feed(B, 2, 2, ("online", "dan", 2)))
    level.needs("pages")
    level.reads(("MEMBERS room CURSOR 0", members(B, 2, "carl", "dan")))
    level.shows(B, 2, "carl", "dan")


def test_late_messages_of_an_epoch_that_ended_cost_one_more_read(level):
    level.hear(feed(B, 11, 10, resync=True))
    late = [feed(A, n, n, ("online", f"m{n}", n)) for n in range(11, 16)]
    level.reads(
        ("MEMBERS room CURSOR 0", members(B, 10, "asha"), *late),
        ("MEMBERS room CURSOR 0", members(B, 11, "asha", "carl"), feed(B, 11, 11, ("online", "carl", 11))),
    )
    level.shows(B, 11, "asha", "carl")


def test_interval_mode_counts_and_names_nobody(level):
    level.hear(interval(A, 11, 1500, 1400))
    level.shows(A, 1500, None, count=1400)
    level.hear(interval(A, 1900, 2000, 1200))  # one was lost: nothing is to be read
    level.shows(A, 2000, None, count=1200)
    level.hear(feed(A, 2001, 2100, count=800, resync=True))
    level.needs("pages")
    level.reads(("MEMBERS room CURSOR 0", members(A, 2100, "asha")))
    level.shows(A, 2100, "asha")


def test_told_to_start_over_it_does(level):
    level.hear(feed(A, 11, 12, resync=True))
    level.needs("pages")


def test_the_message_that_ends_interval_mode_may_be_lost(level):
    level.hear(interval(A, 11, 1500, 1400), feed(A, 1601, 1601, ("online", "carl", 1601)))
    level.needs("pages")


def test_interval_mode_of_a_new_epoch(level):
    level.hear(interval(B, 1, 10, 1001))
    level.shows(B, 10, None, count=1001)


@pytest.mark.parametrize("reply, needs", [(changes(A, 1500), None), (changes(A, 1501, ("online", "carl", 1501)), "pages"), (Resync(), "pages")])
def test_a_reader_without_a_list_that_reconnects(level, reply, needs):
    level.hear(interval(A, 11, 1500, 1400))
    level.reader.catch_up()
    more = [("MEMBERS room CURSOR 0", members(A, 1501, "carl"))] if needs else []
    level.reads((f"CHANGES room {A} 1500", reply), *more)
    level.shows(A, 1501, "carl") if needs else level.shows(A, 1500, None)


def test_gone_empties_the_list(level):
    level.hear({"epoch": A, "gone": True})
    level.shows(NO_ROOM, 0, count=0)
    level.reader.catch_up()
    level.reads((f"CHANGES room {NO_ROOM} 0", changes(NO_ROOM, 0)))
    level.hear(feed(B, 1, 1, ("online", "carl", 1)))
    level.reads(("MEMBERS room CURSOR 0", members(B, 1, "carl")))
    level.shows(B, 1, "carl")


def test_a_room_that_returns_under_its_epoch(level):
    """RENAME, and back."""
    level.hear({"epoch": A, "gone": True}, feed(A, 11, 10, resync=True))
    level.reads(("MEMBERS room CURSOR 0", members(A, 10, "asha", "bo")))
    level.shows(A, 10, "asha", "bo")


def test_gone_of_an_epoch_that_it_never_heard_of(level):
    level.hear({"epoch": B, "gone": True})
    level.reads(("MEMBERS room CURSOR 0", members(NO_ROOM, 0)))
    level.shows(NO_ROOM, 0)


def test_after_a_reconnect_it_asks_for_changes(level):
    level.reader.catch_up()
    level.hear(feed(A, 13, 13, ("online", "dan", 13)))
    level.reads(
        (f"CHANGES room {A} 10", changes(A, 13, ("online", "carl", 12), ("online", "dan", 13))),
        (f"CHANGES room {A} 13", changes(A, 13)),
    )
    level.shows(A, 13, "asha", "bo", "carl", "dan")


def test_a_reconnect_in_the_middle_of_a_read_reads_once_more(session):
    asked = []

    def call(*words):
        asked.append(words[0])
        if len(asked) in (1, 2):
            session.reader.catch_up()
        return members(A, 10, "asha") if len(asked) == 1 else changes(A, 10)

    session.reader.read(call)
    assert asked == ["PRESENCE.MEMBERS"] + ["PRESENCE.CHANGES"] * 2
    session.shows(A, 10, "asha")


def test_bytes_that_are_no_text(session):
    encoded = base64.b64encode(BINARY).decode()
    session.reads(("MEMBERS", members(A, 10, BINARY, "zoë", data=BINARY)))
    session.shows(A, 10, BINARY, "zoë", list={BINARY: ("", BINARY), "zoë": ("", BINARY)})
    message = feed(A, 11, 12, ("update", "zoë", 11, {"data64": encoded}))
    message["events"].append({"event": "offline", "member64": encoded, "seq": 12, "reason": "timeout"})
    session.hear(json.dumps(message))
    session.shows(A, 12, "zoë", list={"zoë": ("", BINARY)})


def test_maps_of_resp3(session):
    entry = {b"member": b"asha", b"status": b"here", b"data": b""}
    session.reads(("MEMBERS", [b"0", A.encode(), 10, [entry]]))
    session.reader.catch_up()
    event = {b"event": b"offline", b"member": b"asha", b"seq": 11, b"reason": b"timeout"}
    last = {b"epoch": A.encode(), b"seq": 11, b"events": []}
    session.reads(("CHANGES", last | {b"events": [event]}), ("CHANGES", last))
    session.shows(A, 11)
