"""Data that ends too early, at every byte of a room: in a file, and in a full sync."""

import queue
import socket
import threading

import pytest

from support import check_sums, digest, wait_until

# Each is told in the log.
pytestmark = [pytest.mark.warnings_ok, pytest.mark.timeout(300)]
PLAIN = {"rdbcompression": "no"}
# What servers say of a file that ends too early, on its own or in the room.
TOLD = ("Short read", "Unexpected EOF", "Internal error")


def a_room(client):
    """A small room with one of everything, and the bytes of a file in which it is all alone."""
    client("PRESENCE.CREATE", "r", "TIMEOUT", 3600000, "RECENT", 3600000, "SHARE", "friends", "UNIQUES", 5)
    client("PRESENCE.BEAT", "r", "asha", "STATUS", "away", "DATA", "xyz")
    client("PRESENCE.BEAT", "r", "asha", "SESSION", "p", "TIMEOUT", 3600000, "GRACE", 0, "STATUS", "typing")
    client("PRESENCE.BEAT", "r", "bela", "SESSION", "s"), client("PRESENCE.BYE", "r", "bela", "SOFT")
    client("PRESENCE.BEAT", "r", "chen", "SESSION", "s"), client("PRESENCE.BYE", "r", "chen")
    client("SAVE")


def room_in(whole):
    """Where the room begins and ends in the file: its key, and the end of the file with its checksum."""
    return whole.index(b"\x01r"), len(whole) - 9


def refused(server):
    """What a server logs that does not start, up to where it gives up: it then examines the file, and all four servers go
    round in circles there, without end, if a room ends between two of its payloads."""
    logged = len(server.log())
    server._spawn()
    wait_until(lambda: "Internal error in RDB reading" in server.log()[logged:] or not server.alive)
    server.kill()
    return server.log()[logged:]


def test_a_file_that_ends_anywhere_in_a_room(make_server):
    server = make_server(config=PLAIN)
    client = server.client()
    a_room(client)
    before = digest(client, "r")
    server.kill()
    file = server.dir / "dump.rdb"
    whole = file.read_bytes()
    begin, end = room_in(whole)
    ours = 0
    for length in range(begin, end):
        file.write_bytes(whole[:length])
        lines = refused(server)
        assert any(words in lines for words in TOLD) and "crashed by signal" not in lines, (length, lines)
        ours += "a room could not be loaded: the data ends too early" in lines
    assert ours > 100
    file.write_bytes(whole)
    server.start()
    assert digest(server.client(), "r") == before


class Primary:
    """Answers a replica as a primary would, and sends it as much of a file as `length` says; the rest when it is None."""

    def __init__(self, data):
        self.data, self.length, self.sent = data, 0, None
        self.refused = queue.Queue()  # how much it was that a replica gave up on
        self._mark = b"e" * 40
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.sent = None
            with connection:
                try:
                    self._serve(connection)
                except (OSError, ValueError):
                    pass
            self.refused.put(self.sent)

    def _serve(self, connection):
        lines = connection.makefile("rb")
        while line := lines.readline():
            if not line.startswith(b"*"):
                continue
            words = []
            for _ in range(int(line[1:])):
                words.append(lines.read(int(lines.readline()[1:]) + 2)[:-2])
            command = words[0].upper()
            if command == b"PING":
                connection.sendall(b"+PONG\r\n")
            elif command == b"PSYNC":
                connection.sendall(b"+FULLRESYNC " + b"a" * 40 + b" 0\r\n$EOF:" + self._mark + b"\r\n")
                self.sent = self.length
                if self.sent is not None:
                    connection.sendall(self.data[: self.sent])
                    connection.shutdown(socket.SHUT_WR)
                else:
                    connection.sendall(self.data + self._mark)
            elif command == b"REPLCONF" and words[1].upper() != b"ACK":
                connection.sendall(b"+OK\r\n")

    def close(self):
        self._listener.close()


def test_a_full_sync_that_ends_anywhere_in_a_room(make_server):
    """Straight into memory: what the replica had before is still there, and it can go on."""
    source = make_server(config=PLAIN)
    a_room(source.client())
    whole = (source.dir / "dump.rdb").read_bytes()
    wanted = digest(source.client(), "r")
    replica = make_server(port=0, config={"repl-diskless-load": "swapdb", "repl-ping-replica-period": "3600"})
    client = replica.client()
    client("PRESENCE.CREATE", "r", "TIMEOUT", 3600000), client("PRESENCE.MBEAT", "r", "MEMBERS", *range(20))
    before = digest(client, "r")
    primary = Primary(whole)
    try:
        for primary.length in range(*room_in(whole)):
            client("REPLICAOF", "127.0.0.1", primary.port)
            while primary.refused.get(timeout=20) != primary.length:
                pass  # a connection that did not come to it
            client("REPLICAOF", "NO", "ONE")
            assert client("PRESENCE.COUNT", "r") == 20 and digest(client, "r") == before, primary.length
        check_sums(replica)
        assert replica.log().count("a room could not be loaded: the data ends too early") > 100
        primary.length = None
        client("REPLICAOF", "127.0.0.1", primary.port)
        wait_until(lambda: replica.info("replication")["master_link_status"] == "up", timeout=30)
        assert digest(client, "r") == wanted
        client("REPLICAOF", "NO", "ONE")
    finally:
        primary.close()
    check_sums(replica)
