"""Keeps the list of a room from what the server sends: who is present of those that share with everyone.

Subscribe to the room's feed, then `catch_up` and `read`; pass each message to `hear`, and `read` when it needs something.
"""

import base64
import json

NO_ROOM = "0" * 16


class RoomView:
    """`list`: status and data by member, or None where the feed names nobody (it only counts). It is the server's list at
    (`epoch`, `seq`). `count`: members present, named or not, as the last message said. Values that are not UTF-8 are bytes.
    """

    def __init__(self, key):
        self.key = key
        self.epoch, self.seq, self.count, self.list = NO_ROOM, 0, None, None
        #: What has to be read before the list is right: "pages" (all of MEMBERS), "changes", or None.
        self.needs = "pages"
        self._held = []
        self._missed = False

    def catch_up(self):
        """When the subscription stands, when it stands again, and now and then: the last message before a silence may be
        lost, and nothing tells of it."""
        self._missed = True
        self.needs = self.needs or "changes"

    def hear(self, message):
        """Takes in a message of the feed, JSON or parsed. Answers what is needed now."""
        self._held.append(json.loads(message) if isinstance(message, (str, bytes)) else message)
        return self._settle()

    def take_pages(self, pages):
        """The replies of MEMBERS, from the first page to the last. Answers what is needed now."""
        epochs = {_text(page[1]) for page in pages}
        if len(epochs) > 1:
            return self.needs  # another room by now
        # Events after the first page may be in the later ones already: they say the same again.
        self.epoch, self.seq, self.count = epochs.pop(), int(pages[0][2]), None
        entries = (fields(entry) for page in pages for entry in page[3])
        self.list = {_text(entry["member"]): (_text(entry["status"]), _text(entry["data"])) for entry in entries}
        self.needs = None
        return self._settle()

    def take_changes(self, reply):
        """The reply of CHANGES; None if that was an error. Answers what is needed now."""
        if reply is None:
            return self._start_over()
        changes = fields(reply)
        moved = int(changes["seq"]) > self.seq
        if moved and self.list is None:
            return self._start_over()
        for event in changes["events"]:
            self._apply({name: _text(value) for name, value in fields(event).items()})
        # Told once more of what it knows, it has them all.
        self.needs = "changes" if moved else None
        self.seq = int(changes["seq"])
        return self._settle()

    def read(self, call):
        """Reads what is needed until nothing is. `call(*words)` sends a command to the primary (without a cluster, to the
        replica that is subscribed to) and returns the reply or raises. Better as bytes, for not every id is text."""
        while self.needs:
            self._missed = False
            if self.needs == "pages":
                pages, cursor = [], b"0"
                while not pages or _text(cursor) != "0":
                    pages.append(call("PRESENCE.MEMBERS", self.key, "CURSOR", cursor, "COUNT", 1000))
                    cursor = pages[-1][0]
                self.take_pages(pages)
            else:
                try:
                    self.take_changes(call("PRESENCE.CHANGES", self.key, self.epoch, self.seq))
                except Exception as error:
                    if not str(error).startswith("RESYNC"):
                        raise
                    self.take_changes(None)
            if self._missed:
                self.catch_up()  # that was called in the middle of the read

    def _settle(self):
        while self._held and not self.needs:
            self._hear(self._held.pop(0))
        return self.needs

    def _start_over(self):
        # What has arrived by now will be in what is read.
        self._held.clear()
        self.needs = "pages"
        return self.needs

    def _hear(self, message):
        epoch, seq, known = message["epoch"], message.get("seq", 0), message["epoch"] == self.epoch
        if message.get("gone"):
            if not known and self.epoch != NO_ROOM:
                self._start_over()  # the room of that name may be a new one already
            else:
                self.epoch, self.seq, self.count, self.list = NO_ROOM, 0, 0, {}
        elif known and seq <= self.seq and self.list is not None:
            self.count = message["count"] if seq == self.seq else self.count
        elif message.get("mode") == "interval":
            self.epoch, self.seq, self.count, self.list = epoch, seq, message["count"], None
        elif not known or message.get("resync") or self.list is None:
            self._start_over()
        elif message["from"] > self.seq + 1:
            self._held.insert(0, message)
            self.needs = "changes"
        else:
            for event in message["events"]:
                if event["seq"] > self.seq:
                    self._apply(_decoded(event))
            self.seq, self.count = seq, message["count"]

    def _apply(self, event):
        if event["event"] == "offline":
            self.list.pop(event["member"], None)
        else:
            self.list[event["member"]] = event.get("status", ""), event.get("data", "")


def fields(reply):
    """A map of a reply, RESP2 or RESP3, with text as names."""
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2])
    return {_text(name): value for name, value in pairs}


def subscribe(pubsub, reply, *kinds):
    """Subscribes (redis-py's PubSub or alike) to channels of these kinds ("count", "feed", "member") in a reply of CHANNELS,
    with the verb that it says. Returns the channels."""
    told = fields(reply)
    names = [told[kind] for kind in kinds]
    getattr(pubsub, _text(told["verb"]).lower())(*names)
    return names


def _decoded(event):
    """An event of a message, its base64 as bytes."""
    return {name.removesuffix("64"): base64.b64decode(v) if name.endswith("64") else v for name, v in event.items()}


def _text(value):
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value
