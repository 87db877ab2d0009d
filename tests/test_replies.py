"""Every command's replies, byte for byte, in RESP2 and RESP3, against golden/replies.txt.

PRESENCE_GOLDEN=write writes the file anew, from the first server; the others are compared with it.
"""

import datetime
import difflib
import os
import re
from pathlib import Path

GOLDEN = Path(__file__).with_name("golden") / "replies.txt"
# `# heading`, `- command` run silently, anything else is run and its reply recorded. {…} see `word`.
SCRIPT = """
# BEAT
PRESENCE.BEAT r asha
PRESENCE.BEAT r asha
presence.beat r asha session phone share EVERYONE status away data {bytes} timeout 60000 grace 20000
PRESENCE.GET r asha
PRESENCE.BYE r asha SESSION phone
PRESENCE.BEAT r asha SESSION phone
PRESENCE.BEAT r
PRESENCE.BEAT r {empty}
PRESENCE.BEAT r {257}
PRESENCE.BEAT r asha SESSION {129}
PRESENCE.BEAT r asha SESSION
PRESENCE.BEAT r asha SESSION a SESSION b
PRESENCE.BEAT r asha COLOUR red
PRESENCE.BEAT r asha SHARE all
PRESENCE.BEAT r asha STATUS {65}
PRESENCE.BEAT r asha STATUS {latin1}
PRESENCE.BEAT r asha DATA {1025}
PRESENCE.BEAT r asha TIMEOUT 99
PRESENCE.BEAT r asha TIMEOUT 86400001
PRESENCE.BEAT r asha TIMEOUT 9223372036854775808
PRESENCE.BEAT r asha TIMEOUT 1e3
PRESENCE.BEAT r asha GRACE -1
PRESENCE.BEAT r asha GRACE
PRESENCE.BEAT string asha

# BEAT, limits of the node
- CONFIG SET presence.max-sessions 1
PRESENCE.BEAT r asha SESSION second
- CONFIG SET presence.max-sessions 64
- CONFIG SET presence.max-members 1
PRESENCE.BEAT r bela
- CONFIG SET presence.max-members 0
- CONFIG SET presence.max-data 3
PRESENCE.BEAT r asha DATA four
- CONFIG SET presence.max-data 1024
- CONFIG SET presence.auto-create no
PRESENCE.BEAT missing asha
PRESENCE.MBEAT missing MEMBERS asha
- CONFIG SET presence.auto-create yes
- CONFIG SET maxmemory 1
PRESENCE.BEAT r asha
PRESENCE.BEAT r bela
PRESENCE.BEAT r asha DATA more
PRESENCE.MBEAT r EACH MEMBERS asha bela
PRESENCE.CREATE oom
- CONFIG SET maxmemory 0

# MBEAT
PRESENCE.MBEAT r MEMBERS asha chen dana
PRESENCE.MBEAT r EACH MEMBERS asha emil
PRESENCE.MBEAT r each sessions asha phone asha tablet
PRESENCE.MBEAT r
PRESENCE.MBEAT r MEMBERS
PRESENCE.MBEAT r EACH
PRESENCE.MBEAT r asha
PRESENCE.MBEAT r SESSIONS asha
PRESENCE.MBEAT r MEMBERS asha {empty}
PRESENCE.MBEAT r SESSIONS asha {129}
PRESENCE.MBEAT string MEMBERS asha

# BYE
PRESENCE.BYE r emil SOFT
PRESENCE.BYE r emil
PRESENCE.BYE r emil
PRESENCE.BYE r nobody SESSION x
PRESENCE.BYE missing asha
PRESENCE.BYE r
PRESENCE.BYE r asha SOFT SOFT
PRESENCE.BYE r asha HARD
PRESENCE.BYE r asha SESSION
PRESENCE.BYE string asha

# SHARE
PRESENCE.SHARE r chen friends
PRESENCE.SHARE r chen FRIENDS
PRESENCE.SHARE r nobody friends
PRESENCE.SHARE missing asha friends
PRESENCE.SHARE r chen
PRESENCE.SHARE r chen all
PRESENCE.SHARE r chen friends now
PRESENCE.SHARE string asha friends

# COUNT, MCOUNT
PRESENCE.COUNT r
PRESENCE.COUNT r BADGE
PRESENCE.COUNT r SESSIONS
PRESENCE.COUNT missing
PRESENCE.COUNT missing BADGE
PRESENCE.COUNT
PRESENCE.COUNT r EVERYTHING
PRESENCE.COUNT r BADGE SESSIONS
PRESENCE.COUNT string
PRESENCE.MCOUNT r missing r
PRESENCE.MCOUNT
PRESENCE.MCOUNT r string

# CHANGES, CHANNELS
PRESENCE.CHANGES missing 0000000000000000 0
PRESENCE.CHANGES missing 0000000000000000 1
PRESENCE.CHANGES r 0000000000000000 0
PRESENCE.CHANGES r short 0 COUNT 10 ALL
PRESENCE.CHANGES r 0000000000000000
PRESENCE.CHANGES r 0000000000000000 one
PRESENCE.CHANGES r 0000000000000000 -1
PRESENCE.CHANGES r 0000000000000000 0 COUNT 0
PRESENCE.CHANGES r 0000000000000000 0 COUNT 10001
PRESENCE.CHANGES r 0000000000000000 0 COUNT
PRESENCE.CHANGES r 0000000000000000 0 ALL ALL
PRESENCE.CHANGES r 0000000000000000 0 SINCE
PRESENCE.CHANGES string 0000000000000000 0
PRESENCE.CHANNELS r
PRESENCE.CHANNELS r asha
PRESENCE.CHANNELS {a}b asha
PRESENCE.CHANNELS r {257}
PRESENCE.CHANNELS r asha bo
PRESENCE.CHANNELS

# UNIQUE
PRESENCE.UNIQUE r
PRESENCE.UNIQUE r DAY {today}
PRESENCE.UNIQUE r DAYS 2
PRESENCE.UNIQUE r DAYS 2 WITH missing r
PRESENCE.UNIQUE missing
PRESENCE.UNIQUE r DAY 20200101
PRESENCE.UNIQUE r DAYS 3
PRESENCE.UNIQUE r DAYS 0
PRESENCE.UNIQUE r DAYS 401
PRESENCE.UNIQUE r DAYS two
PRESENCE.UNIQUE r DAY 2020-01-01
PRESENCE.UNIQUE r DAY 20210229
PRESENCE.UNIQUE r DAY
PRESENCE.UNIQUE r WITH
PRESENCE.UNIQUE r DAY {today} DAY {today}
PRESENCE.UNIQUE r SINCE 1
PRESENCE.UNIQUE
PRESENCE.UNIQUE string
PRESENCE.UNIQUE r WITH string
- PRESENCE.CREATE ephemeral UNIQUES 0
PRESENCE.UNIQUE ephemeral

# FRIENDS, FRIENDSFROM
PRESENCE.FRIENDS r dana asha chen dana unknown
PRESENCE.FRIENDS missing dana asha
PRESENCE.FRIENDS r dana
PRESENCE.FRIENDS r {empty} asha
PRESENCE.FRIENDS r dana asha {257}
PRESENCE.FRIENDS string dana asha
- SADD friends asha
- SADD numbers 1 2 3
- PRESENCE.BEAT r 2 SHARE friends
- PRESENCE.BEAT r 3 SHARE everyone
PRESENCE.FRIENDSFROM r dana friends
PRESENCE.FRIENDSFROM r dana numbers
PRESENCE.FRIENDSFROM r dana missing
PRESENCE.FRIENDSFROM missing dana friends
PRESENCE.FRIENDSFROM r dana
PRESENCE.FRIENDSFROM r {empty} friends
PRESENCE.FRIENDSFROM r dana string
PRESENCE.FRIENDSFROM r dana r
PRESENCE.FRIENDSFROM string dana friends

# GET
PRESENCE.GET r asha
PRESENCE.GET r chen
PRESENCE.GET r unknown
PRESENCE.GET missing asha
PRESENCE.GET r
PRESENCE.GET r asha bela
PRESENCE.GET r {empty}
PRESENCE.GET string asha

# MEMBERS
PRESENCE.MEMBERS r
PRESENCE.MEMBERS r ALL
PRESENCE.MEMBERS r ALL COUNT 5
PRESENCE.MEMBERS missing
PRESENCE.MEMBERS r CURSOR abc
PRESENCE.MEMBERS r CURSOR -1
PRESENCE.MEMBERS r CURSOR
PRESENCE.MEMBERS r COUNT 0
PRESENCE.MEMBERS r COUNT many
PRESENCE.MEMBERS r ALL ALL
PRESENCE.MEMBERS r WHO
PRESENCE.MEMBERS
PRESENCE.MEMBERS string

# CREATE, ALTER, INFO
PRESENCE.CREATE own TIMEOUT 20000 GRACE 0 RECENT 0 UNIQUES 7 SHARE friends FEED 100 COUNTEVERY 0 INTERVALOVER 50
PRESENCE.CREATE own
PRESENCE.CREATE string
PRESENCE.CREATE
PRESENCE.CREATE new TIMEOUT 99
PRESENCE.CREATE new GRACE 86400001
PRESENCE.CREATE new RECENT -1
PRESENCE.CREATE new UNIQUES 401
PRESENCE.CREATE new SHARE all
PRESENCE.CREATE new FEED 1000001
PRESENCE.CREATE new COUNTEVERY x
PRESENCE.CREATE new INTERVALOVER 1.5
PRESENCE.CREATE new TIMEOUT
PRESENCE.CREATE new TIMEOUT 200 TIMEOUT 200
PRESENCE.CREATE new COLOUR red
PRESENCE.INFO own
PRESENCE.ALTER own TIMEOUT DEFAULT SHARE default
PRESENCE.INFO own
PRESENCE.ALTER own
PRESENCE.ALTER own TIMEOUT 1
PRESENCE.ALTER own TIMEOUT
PRESENCE.ALTER missing TIMEOUT 200
PRESENCE.ALTER string TIMEOUT 200
PRESENCE.INFO r
PRESENCE.INFO missing
PRESENCE.INFO
PRESENCE.INFO string

# APPLY, PROBE
PRESENCE.APPLY r
PRESENCE.APPLY r {empty}
PRESENCE.APPLY r nonsense
PRESENCE.APPLY r {newer}
PRESENCE.APPLY string nonsense
PRESENCE.PROBE
PRESENCE.PROBE r
"""
MASKED_NUMBERS = {"since", "idle", "memory", "beat-interval"}
EPOCH = re.compile(r"\$16 (?!0{16})[0-9a-f]{16}")


def word(text: str) -> bytes:
    """An argument; {…} stands for what cannot be written in a line."""
    if not (text.startswith("{") and text.endswith("}")):
        return text.encode()
    name = text[1:-1]
    if name.isdigit():
        return b"x" * int(name)
    today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d").encode()
    return {"empty": b"", "bytes": b"\0\r\n\xff", "latin1": b"\xe9", "today": today, "newer": b"\x02" + bytes(16)}[name]


def lines_of(raw: bytes) -> list[str]:
    """A reply, each array or map beginning a line, `$n` and its bytes together; what differs from run to run masked."""
    lines: list[str] = []
    at, masked = 0, False
    while at < len(raw):
        end = raw.index(b"\r\n", at)
        line = raw[at:end].decode("utf-8", "backslashreplace")
        at = end + 2
        if line[0] == "$" and line != "$-1":
            length = int(line[1:])
            text = raw[at : at + length].decode("utf-8", "backslashreplace")
            line += " " + "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
            at += length + 2
            line = EPOCH.sub("$16 <epoch>", line)
        elif masked:
            line = ":<number>"
        masked = line[0] == "$" and line.partition(" ")[2] in MASKED_NUMBERS
        if lines and line[0] not in "*%" and len(lines[-1]) + len(line) < 110:
            lines[-1] += "  " + line
        else:
            lines.append(line)
    return lines


def record(client, resp: int) -> list[tuple[str, list[str]]]:
    """Runs the script; each step and its reply (None: not recorded)."""
    client("FLUSHALL")
    client("SET", "string", "x")
    steps = []
    for line in SCRIPT.strip().splitlines():
        if not line or line.startswith("#"):
            steps.append((line, None))
        elif line.startswith("- "):
            client(*map(word, line[2:].split()))
            steps.append((line, None))
        else:
            reply = lines_of(client.raw(*map(word, line.split())))
            if line.startswith("PRESENCE.MEMBERS"):
                reply[2:] = sorted(reply[2:])  # an entry each, in no order
            steps.append((line, reply))
    return steps


def recording(server) -> str:
    """The whole file."""
    both = zip(record(server.client(), 2), record(server.client(resp=3), 3))
    out = ["Replies on the wire; `RESP3` only where it differs from RESP2. Written by test_replies.py.", ""]
    for (step, two), (_, three) in both:
        out.append(step if two is None else f"> {step}")
        out += [f"    {line}" for line in two or []]
        if three != two:
            out += ["  RESP3", *(f"    {line}" for line in three or [])]
    return "\n".join(out) + "\n"


def test_replies_are_the_golden_ones(server):
    now = recording(server)
    if os.environ.get("PRESENCE_GOLDEN") == "write":
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(now)
        os.environ["PRESENCE_GOLDEN"] = "written"  # one server writes
    golden = GOLDEN.read_text()
    difference = "\n".join(difflib.unified_diff(golden.splitlines(), now.splitlines(), "golden", server.kind, lineterm=""))
    assert not difference, difference


def test_every_command_has_golden_replies_and_errors(server):
    commands = {name.decode() for name in server.client()("COMMAND", "LIST", "FILTERBY", "MODULE", "presence")}
    blocks = re.findall(r"^> (\S+)[^\n]*\n((?:  [^\n]*\n)+)", GOLDEN.read_text(), re.MULTILINE)
    good = {name.upper() for name, block in blocks if not block.lstrip().startswith("-")}
    bad = {name.upper() for name, block in blocks if block.lstrip().startswith("-")}
    # APPLY takes what servers write, PROBE takes anything.
    assert commands - good == {"PRESENCE.APPLY"} and commands - bad == {"PRESENCE.PROBE"}
