"""The playground in a real browser: the figures of the reference story, which the engine gives."""

import pytest

from chromium import Tab

FIGURES = ("false-departures", "broadcasts", "delay", "beats-per-second", "messages-per-change", "flickers-hidden")


@pytest.fixture
def playground(chromium, gateway):
    tab = chromium.open(f"{gateway.url}/playground", Tab)
    yield tab
    complaints = tab.complaints()
    chromium.close_tabs()
    assert not complaints


def figures(tab, heartbeat, grace, **others):
    """The figures on the page, as it shows them, once they are those of these settings."""
    settings = {"heartbeat": heartbeat, "grace": grace, "goodbye": "no", "audience": "friends", "users": 10_000_000} | others
    wanted = "&".join(f"{name}={value}" for name, value in settings.items())
    tab.until("return document.getElementById('results').dataset.settings === args[0]", wanted)
    return tab.run("return Object.fromEntries(args[0].map((id) => [id, document.getElementById(id).textContent]))", FIGURES)


def preset(tab, heartbeat, grace):
    tab.click(f"[data-heartbeat='{heartbeat}'][data-grace='{grace}']")
    return figures(tab, heartbeat, grace)


def named(false_departures, broadcasts, delay, beats, messages, hidden):
    values = (false_departures, broadcasts, delay, beats, messages, hidden)
    return dict(zip(FIGURES, map(str, values)))


def test_the_reference_figures(playground):
    # The story that it begins with; the phone's coming and its end are two of the broadcasts.
    assert figures(playground, 5, 0) == named(5, 2 + 2 * 5, "9 s", "2 M", 200, 0)
    assert preset(playground, 5, 30) == named(1, 2 + 2 * 1, "39 s", "2 M", 200, 4)
    assert preset(playground, 60, 0) == named(0, 2, "104 s", "167 K", 200, 0)
    assert preset(playground, 5, 0) == named(5, 2 + 2 * 5, "9 s", "2 M", 200, 0)


def test_a_goodbye_is_seen_at_once_and_a_screen_costs_little(playground):
    figures(playground, 5, 0)
    playground.click("#goodbye")
    assert figures(playground, 5, 0, goodbye="yes")["delay"] == "0 s"
    playground.click("[name=audience][value=screen]")
    seen = figures(playground, 5, 0, goodbye="yes", audience="screen")["messages-per-change"]
    assert 200 / int(seen) == 25


def test_a_slider_follows_the_keyboard_and_the_address_repeats_the_story(playground):
    figures(playground, 5, 0)
    playground.driver.find_element("id", "grace").send_keys("\ue014" * 12)  # arrow right
    shown = figures(playground, 5, 12)
    playground.until("return location.hash.includes('grace=12')")
    playground.driver.refresh()
    assert figures(playground, 5, 12) == shown
    assert int(shown["false-departures"]) < 5 and shown["delay"] == "21 s"
