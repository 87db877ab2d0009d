"""A cluster for the survival tests."""

import pytest

from harness.cluster import Cluster
from scene import CONFIG


@pytest.fixture
def cluster(make_server):
    """Six nodes whose rooms have short times."""
    return Cluster(make_server, CONFIG)
