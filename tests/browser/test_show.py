"""The event page in a real browser: who comes, reloads, loses the network, leaves, hides."""

import time

import pytest
from selenium.webdriver import ActionChains, Keys

from chromium import Show
from room import ROOM, TIMES
from support import member, wait_until

T_AND_G = (TIMES["TIMEOUT"] + TIMES["GRACE"]) / 1000
# Nothing ends by silence within a test: what is seen is seen because somebody said so.
PATIENT = pytest.mark.room(TIMEOUT=20_000, GRACE=20_000)


def sessions(client, user):
    view = member(client, ROOM, user)
    return set(view["sessions"]) if view else set()


@PATIENT
def test_two_users_see_each_other_come(show):
    asha = show("asha", "bo", "carl")
    assert asha.badge == "1 person is looking at this show"
    assert (asha.dot("bo"), asha.words("bo")) == ("offline", "not here")
    bo = show("bo", "asha")
    assert (bo.dot("asha"), bo.words("asha")) == ("online", "online")
    asha.until_dot("bo", "online")
    assert asha.words("bo") == "online"
    for page in (asha, bo):
        page.until_badge("2 people are looking")
    assert asha.dot("carl") == "offline"


@pytest.mark.room(GRACE=2500)
def test_reloading_makes_no_flicker(show, client, watcher):
    asha, bo = show("asha", "bo"), show("bo", "asha")
    asha.until_dot("bo", "online")
    before = sessions(client, "bo")
    asha.run("window.dots.length = 0")
    watcher.sync()
    watcher.clear()
    for _ in range(3):
        bo.driver.refresh()
        bo.arrive()
    # The sessions of before the reloads end within the grace, and nobody is told.
    watcher.hold_until(time.monotonic() + 2.8)
    assert len(sessions(client, "bo") - before) == 1
    assert "grace" in watcher.kinds(f"{ROOM}:bo")
    assert set(watcher.kinds(f"{ROOM}:bo")) == {"grace", "back"}
    assert [event for event in watcher.of() if event.db < 0] == []  # member channels
    assert (asha.dot("bo"), asha.changes()) == ("online", [])


def test_closing_one_of_two_tabs_changes_nothing(show, client, watcher):
    asha, bo, again = show("asha", "bo"), show("bo", "asha"), show("bo", "asha")
    asha.until_dot("bo", "online")
    assert len(sessions(client, "bo")) == 2
    asha.until_badge("2 people")  # and not 3
    asha.run("window.dots.length = 0")
    again.close()
    watcher.hold_until(time.monotonic() + T_AND_G + 0.3)
    assert len(sessions(client, "bo")) == 1
    assert "offline" not in watcher.kinds(f"{ROOM}:bo")
    assert (asha.dot("bo"), asha.changes(), asha.badge[:8]) == ("online", [], "2 people")
    bo.close()
    asha.until_dot("bo", "recent")


def test_airplane_mode_hides_after_timeout_and_grace(show, watcher, line):
    asha, bo = show("asha", "bo"), show("bo", "asha", via=line)
    asha.until_dot("bo", "online")
    asha.run("window.dots.length = 0")
    line.cut()
    cut = time.monotonic()
    bo.network(False)
    bo.until_state("connecting")
    assert (bo.badge, bo.words("asha")) == ("connecting…", "…")
    gone = watcher.wait("offline", f"{ROOM}:bo").t - cut
    # The last beat was at most a beat, which fits twice into the timeout, before the cut; it may have lain in the batch since.
    assert T_AND_G - TIMES["TIMEOUT"] / 2000 - 0.1 < gone < T_AND_G + 1.5
    asha.until_dot("bo", "recent")
    asha.until_badge("1 person")
    line.heal()
    bo.network(True)
    bo.until_state("here")
    asha.until_dot("bo", "online")
    assert bo.dot("asha") == "online"
    assert [state for _, _, state in asha.changes()] == ["recent", "online"]


@pytest.mark.room(TIMEOUT=1500, GRACE=10_000)
def test_a_line_that_dies_without_a_word_is_noticed(show, watcher, line):
    asha, bo = show("asha", "bo"), show("bo", "asha", via=line)
    asha.until_dot("bo", "online")
    asha.run("window.dots.length = 0")
    line.cut()
    bo.until_state("connecting")
    line.heal()
    bo.until_state("here")
    watcher.sync()
    assert "back" in watcher.kinds(f"{ROOM}:bo")
    assert asha.changes() == []


@PATIENT
def test_a_goodbye_is_immediate(show):
    asha, bo = show("asha", "bo"), show("bo", "asha")
    asha.until_dot("bo", "online")
    bo.click("#leave")
    assert bo.state == "left"
    asha.until_dot("bo", "recent", timeout=5)
    asha.until_badge("1 person")
    assert asha.words("bo") == "was here just now"
    bo.click("#return")
    asha.until_dot("bo", "online", timeout=5)
    asha.until_badge("2 people")


@PATIENT
def test_a_stranger_sees_nothing(show):
    show("asha", "bo")
    show("bo", "asha")
    eve = show("eve")
    eve.until_badge("3 people")
    # Eve's browser asks, though her page does not.
    states = """
      const { Presence } = await import("/pages/client.js");
      const token = async () => {
        const body = JSON.stringify({ user: args[0], friends: [] });
        const reply = await fetch("/demo/token", { method: "POST", headers: { "content-type": "application/json" }, body });
        return (await reply.json()).token;
      };
      const told = new Map();
      const end = new AbortController();
      const presence = new Presence({ token, room: args[1], share: "friends", signal: end.signal });
      presence.watch(["asha", "bo"]);
      await new Promise((resolve) => {
        presence.addEventListener("member", ({ detail }) => {
          told.set(detail.member, detail.state);
          if (told.size === 2) resolve();
        });
        presence.open();
      });
      end.abort();
      return Object.fromEntries(told);
    """
    assert eve.run(states, "eve", ROOM) == {"asha": "offline", "bo": "offline"}
    # The same question from a friend, so that it is seen to be one that can be answered.
    assert eve.run(states, "asha", ROOM) == {"asha": "online", "bo": "online"}


@PATIENT
def test_who_shares_with_nobody_counts_and_has_no_dot(show):
    asha = show("asha", "bo")
    bo = show("bo", "asha", share="nobody")
    asha.until_badge("2 people")
    assert asha.dot("bo") == "offline" and asha.changes() == []
    bo.click("[value=friends]")
    asha.until_dot("bo", "online")
    bo.click("[value=nobody]")
    asha.until_dot("bo", "recent")
    # The choice outlives a reload.
    bo.driver.refresh()
    bo.arrive()
    assert bo.run("return document.querySelector('[name=share]:checked').value") == "nobody"
    asha.until_badge("2 people")
    assert [state for _, _, state in asha.changes()] == ["online", "recent"]


@pytest.mark.room(TIMEOUT=3000, GRACE=10_000)
def test_a_gateway_that_restarts_makes_no_flicker(show, gateway, watcher, client):
    asha, bo = show("asha", "bo"), show("bo", "asha")
    asha.until_dot("bo", "online")
    before = {user: sessions(client, user) for user in ("asha", "bo")}
    for page in (asha, bo):
        page.run("window.dots.length = 0")
    watcher.sync()
    watcher.clear()
    assert gateway.stop() == 0
    for page in (asha, bo):
        page.until_state("connecting")
    gateway.start()
    for page, user in ((asha, "asha"), (bo, "bo")):
        page.until_state("here")
        page.until_badge("2 people")
        wait_until(lambda: sessions(client, user) - before[user])
    watcher.sync()
    assert not {"offline", "online"} & set(watcher.kinds())
    assert [event for event in watcher.of() if event.db < 0] == []
    for page, friend in ((asha, "bo"), (bo, "asha")):
        assert (page.dot(friend), page.words(friend), page.changes()) == ("online", "online", [])


@PATIENT
def test_back_from_the_browsers_cache_of_pages(show, gateway, client):
    bo = show("bo", "asha")
    before = sessions(client, "bo")
    bo.run("addEventListener('pageshow', ({ persisted }) => (window.persisted = persisted))")
    bo.driver.get(f"{gateway.url}/health")
    bo.driver.back()
    bo.until("return window.persisted === true")  # the same page, with all that it knew
    bo.until_state("here")
    assert sessions(client, "bo") - before


@pytest.mark.room(TIMEOUT=1500, GRACE=10_000)
def test_a_hidden_tab_beats_as_often(show, watcher):
    asha = show("asha")
    asha.driver.minimize_window()
    asha.until("return document.hidden")
    asha.run("""
      window.beats = window.ticks = 0;
      const send = WebSocket.prototype.send;
      WebSocket.prototype.send = function (text) {
        if (JSON.parse(text).type === "beat") window.beats++;
        return send.call(this, text);
      };
      setInterval(() => window.ticks++, 500);
    """)
    # The browser slows the page's own timers to one a second; a beat is due twice a second, and is no page's timer.
    asha.until("return window.ticks >= 4")
    assert asha.run("return window.beats") >= 6
    watcher.sync()
    assert "grace" not in watcher.kinds()


@PATIENT
@PATIENT
def test_it_is_usable_by_ear_and_keyboard(show):
    asha = show("asha", "bo")
    show("bo", "asha")
    spoken = "const spoken = document.getElementById('spoken'); return"
    asha.until(f"{spoken} spoken.textContent === 'bo: online'")
    assert asha.run(f"{spoken} [spoken.role, spoken.ariaLive]") == ["status", "polite"]
    reached = []
    while "leave" not in reached:
        assert len(reached) < 10, reached
        ActionChains(asha.driver).send_keys(Keys.TAB).perform()
        reached.append(asha.run("return document.activeElement.id || document.activeElement.value"))
    assert "friends" in reached
    ActionChains(asha.driver).send_keys(Keys.ENTER).perform()
    asha.until_state("left")
    assert asha.run("return document.activeElement.id") == "return"


def test_the_door_asks_who_comes(chromium, gateway, show):
    page = chromium.open(gateway.url, Show)  # closed with those that `show` opened
    page.until("return !document.getElementById('door').hidden")
    page.driver.find_element("name", "user").send_keys("asha")
    page.driver.find_element("name", "friends").send_keys("bo, carl,asha\n")
    page.arrive()
    assert page.run("return [...document.querySelectorAll('#friends li')].map((item) => item.dataset.member)") == ["bo", "carl"]
