"""The playground over HTTP: page, parts and stories. The figures in full: gateway/tests/playground.rs."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest


@pytest.fixture
def gateway(server, make_gateway):
    return make_gateway(server)


def request(gateway, path, body=None, kind="application/json"):
    """Status, type and text of the answer."""
    data = None if body is None else body.encode()
    asked = urllib.request.Request(f"{gateway.url}{path}", data, {"content-type": kind} if data else {})
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return answer.status, answer.headers["content-type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["content-type"], error.read().decode()


def test_the_page_and_its_parts(gateway):
    for path, kind in ("/playground", "text/html"), ("/pages/playground.css", "text/css"), ("/pages/playground.js", "text/javascript"):
        status, found, text = request(gateway, path)
        assert (status, found) == (200, f"{kind}; charset=utf-8") and text
    assert "/pages/playground.js" in request(gateway, "/playground")[2]


@pytest.mark.parametrize(
    "settings, false_departures, hidden, delay, beats",
    [
        ({}, 5, 0, 9_000, 2e6),
        ({"grace": 30_000}, 1, 4, 39_000, 2e6),
        ({"heartbeat": 60_000}, 0, 0, 104_000, 1e7 / 60),
        ({"grace": 30_000, "goodbye": True}, 1, 4, 0, 2e6),
    ],
)
def test_the_reference_stories(gateway, settings, false_departures, hidden, delay, beats):
    status, _, text = request(gateway, "/playground/story", json.dumps(settings))
    figures = json.loads(text)["figures"]
    assert status == 200
    assert (figures["false_departures"], figures["flickers_hidden"], figures["delay"]) == (false_departures, hidden, delay)
    assert figures["mistaken_broadcasts"] == 2 * false_departures and figures["broadcasts"] == 2 + 2 * false_departures
    assert figures["beats_per_second"] == pytest.approx(beats) and figures["messages_per_change"] == 200


@pytest.mark.parametrize(
    "body, status, reason",
    [
        ('{"heartbeat": 999}', 422, "heartbeat must be 1000 to 60000 ms"),
        ('{"users": 0}', 422, "users must be 1 to 1000000000"),
        ('{"hartbeat": 5000}', 422, "unknown field `hartbeat`"),
        ('{"grace": "long"}', 422, "grace"),
        ("{", 400, ""),
        ('{"grace": 0' + " " * 2000 + "}", 413, ""),
    ],
)
def test_settings_that_are_refused(gateway, body, status, reason):
    found, _, text = request(gateway, "/playground/story", body)
    assert found == status and reason in text
    assert request(gateway, "/playground/story", "{}")[0] == 200
