"""A short tour of presence on a fresh server: `tour.py PORT`. Tells what it does, checks that it came true, else exits 1.

It listens to the keyspace events (notify-keyspace-events KEd) and waits for nothing but the silences it is about.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, NamedTuple

import redis

EVENT = "event42"
GIG = "gig:42"
FANS = 2341
BATCH = 1000
# What a busy machine may add to a due moment before the tour calls it late.
SLACK_MS = 500


class Heard(NamedTuple):
    """A keyspace event: its kind, its name without the room, and when it was heard (time.monotonic())."""

    kind: str
    member: str
    at: float


class Failed(Exception):
    """A step that did not come true."""


def say(text: str) -> None:
    print(text, flush=True)


def check(holds: bool, text: str, seen: Any = "") -> None:
    if not holds:
        raise Failed(f"{text} (seen: {seen})" if seen != "" else text)
    say(f"   ok  {text}")


class Tour:
    """The state of the tour: a connection, and all events of the event's room heard so far."""

    def __init__(self, port: int):
        self.redis = redis.Redis(port=port, decode_responses=True, protocol=2)
        self.heard: list[Heard] = []
        self.pubsub = self.redis.pubsub()
        self.connected = ["asha", "phone", "bo", "phone", "carl", "laptop"]  # member and session, as MBEAT wants them

    def do(self, *words: Any, quiet: bool = False) -> Any:
        """One command, shown as one would type it."""
        if not quiet:
            say("   >   " + " ".join(map(str, words)))
        return self.redis.execute_command(*words)

    def subscribe(self) -> None:
        self.pubsub.psubscribe("__keyevent@0__:presence.*")
        confirmation = self.pubsub.get_message(timeout=5)
        if not confirmation or confirmation["type"] != "psubscribe":
            raise Failed("the server does not confirm the subscription")

    def listen(self, timeout: float) -> None:
        """Takes in what is published until `timeout` seconds pass or one event of the room was heard."""
        deadline = time.monotonic() + timeout
        while True:
            message = self.pubsub.get_message(timeout=max(0.0, deadline - time.monotonic()))
            if message and message["type"] == "pmessage" and message["data"].startswith(EVENT + ":"):
                kind = message["channel"].rsplit("presence.", 1)[-1]
                self.heard.append(Heard(kind, message["data"].split(":", 1)[1], time.monotonic()))
                return
            if message is None and time.monotonic() >= deadline:
                return

    def of(self, member: str) -> list[Heard]:
        return [h for h in self.heard if h.member == member]

    def kinds(self, member: str) -> list[str]:
        return [h.kind for h in self.of(member)]

    def wait(self, kind: str, member: str, timeout: float, others: Callable[[], None] = lambda: None) -> Heard:
        """Waits for an event; meanwhile calls `others` every second."""
        deadline = time.monotonic() + timeout
        while True:
            for heard in self.of(member):
                if heard.kind == kind:
                    return heard
            left = deadline - time.monotonic()
            if left <= 0:
                raise Failed(f"no {kind} of {member} within {timeout:g} s (heard: {self.kinds(member)})")
            others()
            self.listen(min(1.0, left))

    def silence(self, until: float) -> None:
        """Lets time pass, listening."""
        while (left := until - time.monotonic()) > 0:
            self.listen(left)

    def others_beat(self) -> None:
        """The gateway's batch for those who stay: one command, and nobody is told anything."""
        self.do("PRESENCE.MBEAT", EVENT, "SESSIONS", *self.connected, quiet=True)


def heartbeats(t: Tour) -> None:
    say("\n1. Heartbeats. Phones say they are alive; the first beat brings somebody online.")
    first = [
        t.do("PRESENCE.BEAT", EVENT, "asha", "SESSION", "phone", "SHARE", "friends"),
        t.do("PRESENCE.BEAT", EVENT, "bo", "SESSION", "phone", "SHARE", "everyone"),
        t.do("PRESENCE.BEAT", EVENT, "carl", "SESSION", "laptop"),
    ]
    check(first == [1, 1, 1], "three came online", first)
    for member in ("asha", "bo", "carl"):
        t.wait("online", member, 2)
    say("   ok  each was announced: keyspace event presence.online")
    again = t.do("PRESENCE.MBEAT", EVENT, "SESSIONS", *t.connected)
    check(again == 0, "a gateway's batch renews them; nobody new", again)


def count(t: Tour) -> None:
    say(f"\n2. A count and its badge. {FANS:,} fans open the concert's page.")
    before = time.monotonic()
    came = 0
    for start in range(0, FANS, BATCH):
        fans = [f"fan{i}" for i in range(start, min(start + BATCH, FANS))]
        came += t.do("PRESENCE.MBEAT", GIG, "MEMBERS", *fans, quiet=True)
    took = (time.monotonic() - before) * 1000
    check(came == FANS, f"{came:,} came online in {took:.0f} ms, in batches of {BATCH:,}", came)
    exact = t.do("PRESENCE.COUNT", GIG)
    check(exact == FANS, f"exactly {exact:,} are here", exact)
    badge = t.do("PRESENCE.COUNT", GIG, "BADGE")
    check(badge == "2.3k", f"the badge says {badge}", badge)


def dots(t: Tour) -> None:
    say("\n3. A friend's dot. asha shares with friends; carl shares with nobody, the default.")
    seen = t.do("PRESENCE.FRIENDS", EVENT, "bo", "asha", "carl")
    check(seen == ["online", "offline"], "bo sees asha's dot and none for carl, who is here", seen)


def tunnel(t: Tour) -> None:
    say("\n4. A tunnel. tara's train goes dark for 5 s; lost after 3 s, waited for 4 s more.")
    words = ("PRESENCE.BEAT", EVENT, "tara", "SESSION", "phone")
    start = time.monotonic()
    t.do(*words, "TIMEOUT", 3000, "GRACE", 4000)
    grace = t.wait("grace", "tara", 5, t.others_beat)
    say(f"   ..  {(grace.at - start) * 1000:,.0f} ms: presence.grace, for the service only")
    present = t.do("PRESENCE.COUNT", EVENT)
    check(present == 4, f"she still counts: {present} here", present)
    t.silence(start + 5)
    reply = t.do(*words)
    check(reply == 0, "out of the tunnel: renewed, not new", reply)
    t.wait("back", "tara", 2)
    t.connected += ["tara", "phone"]
    check(t.kinds("tara") == ["online", "grace", "back"], "nobody saw her leave: no presence.offline", t.kinds("tara"))


def battery(t: Tour) -> None:
    say("\n5. A battery dies. dana's phone sends nothing more; timeout 5 s, grace 3 s.")
    start = time.monotonic()
    t.do("PRESENCE.BEAT", EVENT, "dana", "SESSION", "phone", "TIMEOUT", 5000, "GRACE", 3000)
    offline = t.wait("offline", "dana", 10, t.others_beat)
    after = (offline.at - start) * 1000
    check(8000 <= after <= 8000 + SLACK_MS, f"presence.offline {after:,.0f} ms after her last beat, due at 8,000", after)
    check(t.kinds("dana") == ["online", "grace", "offline"], "announced once, by the server itself", t.kinds("dana"))


def goodbye(t: Tour) -> None:
    say("\n6. A goodbye. bo closes the app: no grace for somebody who said so.")
    start = time.monotonic()
    reply = t.do("PRESENCE.BYE", EVENT, "bo", "SESSION", "phone")
    offline = t.wait("offline", "bo", 2)
    check(reply == 1, f"presence.offline {(offline.at - start) * 1000:.1f} ms later", reply)
    present = t.do("PRESENCE.COUNT", EVENT)
    check(present == 3, f"{present} are left: asha, carl, tara", present)


def uniques(t: Tour) -> None:
    say("\n7. Today's uniques: all who were here, also those who left.")
    event = t.do("PRESENCE.UNIQUE", EVENT)
    check(event == 5, f"{event} people at {EVENT} today", event)
    gig = t.do("PRESENCE.UNIQUE", GIG)
    check(abs(gig - FANS) <= FANS * 0.03, f"about {gig:,} at {GIG} (an estimate, 0.81 % standard error)", gig)


def main() -> int:
    if len(sys.argv) != 2 or not sys.argv[1].isdecimal():
        print("usage: tour.py PORT", file=sys.stderr)
        return 2
    t = Tour(int(sys.argv[1]))
    start = time.monotonic()
    try:
        if t.redis.exists(EVENT, GIG):
            raise Failed(f"{EVENT} or {GIG} exists already: the tour wants a fresh server")
        t.subscribe()
        for step in (heartbeats, count, dots, tunnel, battery, goodbye, uniques):
            step(t)
    except (Failed, redis.exceptions.RedisError) as failure:
        say(f"   FAILED  {failure}")
        return 1
    except KeyboardInterrupt:
        return 130
    say(f"\nAll of it came true, in {time.monotonic() - start:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
