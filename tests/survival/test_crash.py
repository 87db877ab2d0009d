"""Crashes and bad files: what was acknowledged is there afterwards, and a file that is not whole is refused with a clear line."""

import random
import subprocess
import threading
import time
from pathlib import Path

import pytest

from crowds import moment
from harness import Connection, Err
from support import check_sums, digest, fields, member, names, wait_until

ALWAYS = {"appendonly": "yes", "appendfsync": "always"}


class Writer:
    """Comes, goes and sets in a room of its own, and remembers what was acknowledged and what was asked last."""

    def __init__(self, server, number):
        self.room, self._chance, self._server = f"w{number}", random.Random(number), server
        self.known: dict[str, str | None] = {}  # member to status, None for those who said goodbye
        self.asked: str | None = None  # whose last command got no answer
        self.acknowledged = 0
        self.settings = 0
        self._asked_setting = False

    def run(self):
        try:
            with Connection(self._server.socket) as connection:
                while True:
                    self._once(connection)
        except OSError:
            pass  # the crash

    def _once(self, connection):
        id = f"m{self._chance.randrange(200)}"
        roll = self._chance.random()
        if roll < 0.05:
            self._asked_setting = True
            connection("PRESENCE.ALTER", self.room, "FEED", self.settings + 1)
            self._asked_setting = False
            self.settings += 1
        elif roll < 0.4:
            self.asked = id
            connection("PRESENCE.BYE", self.room, id)
            self.known[id] = None
        else:
            status = f"{self._chance.randrange(1000)}"
            self.asked = id
            assert connection("PRESENCE.BEAT", self.room, id, "STATUS", status) in (0, 1)
            self.known[id] = status
        self.asked = None
        self.acknowledged += 1

    def check(self, client):
        feed = fields(client("PRESENCE.INFO", self.room))["feed"]
        assert feed == self.settings or self._asked_setting and feed == self.settings + 1
        self.settings, self._asked_setting = feed, False
        present = {name.decode() for name in names(client, self.room)}
        for id in {*self.known, *present}:
            view = member(client, self.room, id) if id in present else None
            if id != self.asked:
                want = self.known.get(id)
                assert (view is not None) == (want is not None), (self.room, id, want, view)
                assert view is None or view["status"] == want.encode(), (self.room, id, want, view)
            self.known[id] = view["status"].decode() if view else None
        self.asked = None


@pytest.mark.timeout(300)
def test_what_was_acknowledged_survives_kills_at_random_moments(make_server, kind):
    chance = random.Random(kind)
    server = make_server(config=ALWAYS | {"aof-use-rdb-preamble": "yes", "presence.recent": "0"})
    client = server.client()
    writers = [Writer(server, n) for n in range(4)]
    for writer in writers:
        client("PRESENCE.CREATE", writer.room, "TIMEOUT", 3600000, "FEED", 0)
    for crash in range(12):
        before = sum(writer.acknowledged for writer in writers)
        threads = [threading.Thread(target=writer.run, daemon=True) for writer in writers]
        for thread in threads:
            thread.start()
        if crash % 3 == 2:  # also while the log is being rewritten
            server.client()("BGREWRITEAOF")
        moment(chance.uniform(0.02, 0.5))
        server.kill()
        for thread in threads:
            thread.join(30)
        assert sum(writer.acknowledged for writer in writers) > before
        server.start()
        client = server.client()
        for writer in writers:
            writer.check(client)
        check_sums(server)
    assert sum(writer.acknowledged for writer in writers) > 500


@pytest.fixture
def tiny(tmp_path):
    """A file system of 1 MB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no file system of its own can be mounted here: {done.stderr.strip()}")
    yield folder
    # Lazily: the server is ended after this.
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_while_saving(make_server, tiny):
    server = make_server(config={"save": "3600 1", "rdbcompression": "no", "dbfilename": "d.rdb", "dir": str(tiny)})
    client = server.client()
    client("PRESENCE.CREATE", "r", "TIMEOUT", 400, "GRACE", 300, "RECENT", 0)
    client("PRESENCE.MBEAT", "r", "MEMBERS", "asha", "bela"), client("SAVE")
    client("PRESENCE.CREATE", "big", "TIMEOUT", 3600000)
    for n in range(3000):
        client.send("PRESENCE.BEAT", "big", f"m{n}", "DATA", "x" * 1000)
    assert {client.read() for _ in range(3000)} == {1}
    before = digest(client, "big")
    saved = (tiny / "d.rdb").read_bytes()
    client("BGSAVE")
    beat = lambda: client.call("PRESENCE.MBEAT", "r", "MEMBERS", "asha", "bela")
    wait_until(lambda: isinstance(beat(), Err))  # until then they are there
    refused = time.monotonic()
    assert beat().code == "MISCONF" and server.info("persistence")["rdb_last_bgsave_status"] == "err"
    assert isinstance(client.call("SAVE"), Err) and server.alive
    moment(1.5)
    assert client("PRESENCE.COUNT", "r") == 2, "beats are refused, so nobody is silent"
    assert digest(client, "big") == before and (tiny / "d.rdb").read_bytes() == saved, "what was saved before is whole"
    subprocess.run(["mount", "-o", "remount,size=32m", tiny], check=True)
    assert client("SAVE") == "OK"
    mended = time.monotonic()
    assert client("PRESENCE.BEAT", "r", "asha") == 0
    wait_until(lambda: client("PRESENCE.BEAT", "r", "asha") == 0 and client("PRESENCE.COUNT", "r") == 1, timeout=3)
    assert mended - refused > 1.5 and time.monotonic() - mended > 0.6
    server.restart(kill=True)
    assert digest(server.client(), "big") == before


def full(client):
    client("PRESENCE.CREATE", "r", "TIMEOUT", 3600000, "UNIQUES", 3)
    for n in range(300):
        client("PRESENCE.BEAT", "r", f"m{n}", "SESSION", "s", "DATA", "d" * 50)


def refused_at_start(server):
    """The reason in the log why the server did not start."""
    logged = len(server.log())
    with pytest.raises(RuntimeError, match="while starting"):
        server.start()
    lines = server.log()[logged:]
    assert "crashed by signal" not in lines and "ASSERTION" not in lines, lines
    return lines


@pytest.mark.warnings_ok
def test_a_truncated_file_is_refused_clearly(make_server):
    server = make_server(config={"rdbcompression": "no"})
    client = server.client()
    full(client), client("SAVE")
    before = digest(client, "r")
    server.kill()
    file = server.dir / "dump.rdb"
    whole = file.read_bytes()
    # In the room, its first and its last bytes, and before the checksum.
    middle = whole.index(b"d" * 50)
    for length in (middle, middle + 20, len(whole) // 2, len(whole) - 200, len(whole) - 9):
        file.write_bytes(whole[:length])
        lines = refused_at_start(server)
        assert any(word in lines for word in ("Short read", "Unexpected EOF", "unexpected end", "Internal error")), lines
    file.write_bytes(whole)
    server.start()
    assert digest(server.client(), "r") == before


@pytest.mark.warnings_ok
def test_a_flipped_byte_is_refused_clearly(make_server):
    server = make_server(config={"rdbcompression": "no", "rdbchecksum": "no"})
    client = server.client()
    full(client), client("SAVE")
    server.kill()
    file = server.dir / "dump.rdb"
    whole = file.read_bytes()
    middle = whole.index(b"d" * 50)
    for at in (middle + 10, middle - 3, middle + 200, middle + 5000):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        lines = refused_at_start(server)
        assert "<presence>" in lines and "could not be loaded" in lines, lines
    file.write_bytes(whole)
    server.start()
    assert server.client()("PRESENCE.COUNT", "r") == 300


def tail_of_log(folder: Path) -> Path:
    files = sorted((path for path in folder.rglob("*.incr.aof")), key=lambda path: path.stat().st_mtime)
    return files[-1]


@pytest.mark.warnings_ok
def test_a_truncated_log_is_refused_or_read_to_its_last_whole_command(make_server):
    server = make_server(config=ALWAYS | {"aof-load-truncated": "no"})
    client = server.client()
    full(client)
    client("PRESENCE.BEAT", "r", "last")
    server.kill()
    file = tail_of_log(server.dir)
    whole = file.read_bytes()
    file.write_bytes(whole[:-7])
    lines = refused_at_start(server)
    assert "nexpected end of file" in lines, lines
    server.conf.write_text(server.conf.read_text().replace("aof-load-truncated no", "aof-load-truncated yes"))
    server.start()
    client = server.client()
    assert client("PRESENCE.COUNT", "r") == 300 and client("PRESENCE.GET", "r", "last") is None
    server.kill()
    # An altered byte inside a command that is whole: the log has no checksum of its own, the payload has. What it said is
    # left out, told as the server tells errors while loading, and all the rest is there.
    broken = whole.replace(b"d" * 50, b"d" * 20 + b"e" + b"d" * 29, 1)
    assert broken != whole
    tail_of_log(server.dir).write_bytes(broken)
    logged = len(server.log())
    server.start()
    client = server.client()
    assert client("PRESENCE.GET", "r", "m0") is None and client("PRESENCE.COUNT", "r") == 300
    assert client("PRESENCE.GET", "r", "m1") is not None and client("PRESENCE.GET", "r", "last") is not None
    assert "the payload is damaged" in server.log()[logged:]
    check_sums(server)
