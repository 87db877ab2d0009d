"""docs/commands/ against a real server: COMMAND DOCS says the same, and every example session is true."""

import os
import re
import subprocess

import pytest

from harness.server import PROJECT
from support import fields

FOLDER = PROJECT / "docs/commands"
INTERNAL = "internal.md"
# What differs from run to run: wall clock times, epochs, and the values of these fields.
TIME = re.compile(r"\(integer\) 1\d{12}\b")
EPOCH = re.compile(r'"[0-9a-f]{16}"')
VARYING = re.compile(r'("(?:idle|memory|beat-interval)" => \(integer\)) \d+')
SESSION = re.compile(r"```redis-cli( -3)?\n(.*?)```", re.DOTALL)


def documented(client):
    """COMMAND DOCS of the module's commands, by name in capitals."""
    names = client("COMMAND", "LIST", "FILTERBY", "MODULE", "presence")
    docs = fields(client("COMMAND", "DOCS", *names))
    return {name.upper(): fields(entry) for name, entry in docs.items()}


def syntax(name, arguments):
    """The syntax line that follows from COMMAND DOCS."""
    return " ".join([name, *(render(fields(argument)) for argument in arguments)])


def render(arg):
    flags = {flag if isinstance(flag, str) else flag.decode() for flag in arg.get("flags", ())}
    kind, token = arg["type"].decode(), arg.get("token", b"").decode()
    parts = [render(fields(part)) for part in arg.get("arguments", ())]
    if kind == "pure-token":
        text, token = token, ""
    elif kind == "oneof":
        bare = "optional" in flags and not token
        text = " | ".join(parts) if bare else f"<{' | '.join(parts)}>"
    elif kind == "block":
        text = " ".join(parts)
    else:
        text = arg.get("display_text", arg["name"]).decode()
    if "multiple" in flags:
        text = f"{text} [{text} ...]"
    if token:
        text = f"{token} {text}"
    return f"[{text}]" if "optional" in flags else text


def is_internal(entry):
    return entry["summary"].decode().endswith("not for clients")


def pages():
    return sorted(page.name for page in FOLDER.glob("*.md"))


def test_every_command_has_a_page_and_every_page_a_command(client):
    commands = documented(client)
    assert len(commands) >= 16
    expected = {f"{name.lower()}.md" for name, entry in commands.items() if not is_internal(entry)}
    assert set(pages()) == expected | {INTERNAL}


def test_every_page_says_what_command_docs_says(client):
    for name, entry in documented(client).items():
        text = (FOLDER / (INTERNAL if is_internal(entry) else f"{name.lower()}.md")).read_text()
        line = syntax(name, entry["arguments"])
        assert f"```text\n{line}\n```\n" in text, f"{name}: the syntax is\n{line}"
        for what in ("summary", "complexity", "since"):
            said = entry[what].decode()
            assert said in text, f"{name}: {what} is\n{said}"


def test_the_readme_lists_every_command_with_its_summary(client):
    text = (PROJECT / "README.md").read_text()
    for name, entry in documented(client).items():
        page = INTERNAL if is_internal(entry) else f"{name.lower()}.md"
        row = f"| [`{name}`](docs/commands/{page}) | {entry['summary'].decode()} |"
        assert row in text, f"the README lacks\n{row}"


def steps(text):
    """What is typed and what is expected, one after the other."""
    found = []
    for line in text.splitlines():
        if line.startswith("> "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return [(typed, "\n".join(reply)) for typed, reply in found]


def typed_into_cli(server, typed, *options):
    """What redis-cli prints on a terminal."""
    done = subprocess.run(
        ["redis-cli", "-s", server.socket, *options],
        input=typed + "\n",
        env=os.environ | {"FAKETTY": "1"},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return "\n".join(line.rstrip() for line in done.stdout.rstrip().splitlines())


def stable(text):
    return VARYING.sub(r"\1 n", EPOCH.sub('"epoch"', TIME.sub("(integer) time", text)))


@pytest.mark.parametrize("page", pages())
def test_the_example_sessions_are_true(server, page):
    sessions = SESSION.findall((FOLDER / page).read_text())
    assert sessions or page == INTERNAL, "a page without an example"
    for option, text in sessions:
        for typed, expected in steps(text):
            printed = typed_into_cli(server, typed, *option.split())
            assert stable(printed) == stable(expected), typed
