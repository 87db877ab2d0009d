"""A short turn of the soak (scripts/soak.py): that it runs, and that its sums agree. How quick and steady is for `make soak`."""

import sys

import pytest

from harness.server import PROJECT

sys.path.insert(0, str(PROJECT / "scripts"))

import soak  # noqa: E402

pytestmark = pytest.mark.alone


def test_comings_less_goings_are_those_present(kind):
    soaked = soak.soak(kind, seconds=12, size=3_000, interval=1, said=False)
    print(soaked.line, *soaked.unsteady, sep="\n")
    if soaked.overtaxed:
        pytest.skip("the machine stood still, or was too busy for the beats to come in time")
    assert soaked.wrong == []
    # Something must have happened, or the sums prove little.
    assert soaked.comings > 4_000 and soaked.messages > 500
