"""docs/survival.md names a test or a script for everything that it says, and each of them exists."""

import ast
import functools
import re

import pytest

from harness.server import PROJECT

PAGE = PROJECT / "docs/survival.md"
RULES = 31


def tables():
    """The rows of the page's tables, as lists of cells."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if not set(row[0]) <= set("- ") and row[0] not in ("fault", "rule")]


def places(cell):
    """What a cell names: files with a test each, or with None. `::test` alone is of the file named before it."""
    file = None
    for name in re.findall(r"`([^`]+)`", cell):
        if found := re.fullmatch(r"((?:[\w/]+/)?\w+\.py)?(?:::(\w+))?", name):
            file = found[1] or file
            if file and (found[1] or found[2]):
                yield file, found[2]


def path_of(file):
    found = [path for path in (PROJECT / file, PROJECT / "tests" / file, PROJECT / "tests/survival" / file) if path.exists()]
    return found[0] if found else None


@functools.cache
def functions(path):
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", tables(), ids=lambda row: re.sub(r"\W+", " ", row[0])[:40].strip())
def test_what_proves_it_exists(row):
    named = [place for cell in row for place in places(cell)]
    assert named, "nothing proves it"
    for file, test in named:
        path = path_of(file)
        assert path, f"there is no {file}"
        assert test is None or test in functions(path), f"{file} has no {test}"


def test_every_rule_has_its_row():
    numbers = [int(row[0].split(".")[0]) for row in tables() if re.match(r"\d+\. ", row[0])]
    assert numbers == list(range(1, RULES + 1))
