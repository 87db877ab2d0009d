"""Debian's Chromium without a window, and the event page in its tabs."""

from __future__ import annotations

import shutil
import tempfile
from typing import Any, TypeVar

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from support import wait_until

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)
# Notes each change of a friend's dot, with the time, in the page itself: asking now and then would miss a flicker.
RECORD = """
  window.dots = [];
  new MutationObserver((changes) => {
    for (const { target, oldValue } of changes)
      if (target.dataset.member && target.dataset.state !== oldValue)
        window.dots.push([performance.timeOrigin + performance.now(), target.dataset.member, target.dataset.state]);
  }).observe(document.getElementById("friends"), { subtree: true, attributeFilter: ["data-state"], attributeOldValue: true });
"""
Page = TypeVar("Page", bound="Tab")


class Chromium:
    """One browser; each tab that it opens is a window of its own."""

    def __init__(self, *arguments: str):
        self._profile = tempfile.mkdtemp(prefix="pr-chromium-")
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or "chromium"
        for argument in (*ARGUMENTS, *arguments, f"--user-data-dir={self._profile}"):
            options.add_argument(argument)
        # What is measured of a hidden tab should be what people's browsers do to it.
        options.add_experimental_option("excludeSwitches", ["disable-background-timer-throttling", "disable-renderer-backgrounding"])
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options, Service(shutil.which("chromedriver") or "chromedriver"))
        self.driver.set_script_timeout(20)
        self.driver.set_page_load_timeout(20)
        self._home = self.driver.current_window_handle
        self.tabs: list[Tab] = []

    def open(self, url: str, page: type[Page], kind: str = "window") -> Page:
        """A page in a new window; or, as `tab`, in the window of the tab that was opened last, which is hidden then."""
        self.driver.switch_to.window(self.tabs[-1].handle if kind == "tab" else self._home)
        self.driver.switch_to.new_window(kind)
        tab = page(self, self.driver.current_window_handle)
        self.tabs.append(tab)
        self.driver.get(url)
        return tab

    def go_home(self) -> None:
        """To the empty window that keeps the browser open."""
        self.driver.switch_to.window(self._home)

    def close_tabs(self) -> None:
        for tab in list(self.tabs):
            tab.close()

    def quit(self) -> None:
        self.driver.quit()
        shutil.rmtree(self._profile, ignore_errors=True)


class Tab:
    """A tab. Calls bring the driver to it; whether it is hidden they do not change."""

    def __init__(self, browser: Chromium, handle: str):
        self._browser = browser
        self.handle = handle

    @property
    def driver(self) -> webdriver.Chrome:
        driver = self._browser.driver
        driver.switch_to.window(self.handle)
        return driver

    def run(self, script: str, *args: Any) -> Any:
        """What this body of an async function returns; `args` are its `args`."""
        body = f"(async (...args) => {{ {script} }})(...arguments)"
        done = "const done = arguments[arguments.length - 1];"
        got = self.driver.execute_async_script(f"{done} {body}.then(done, (failure) => done({{ failure: `${{failure}}` }}));", *args)
        assert not (isinstance(got, dict) and "failure" in got), got
        return got

    def until(self, script: str, *args: Any, timeout: float = 15.0) -> Any:
        """Waits until what the body returns is true."""
        try:
            return wait_until(lambda: self.run(script, *args), timeout, every=0.03)
        except AssertionError as failure:
            raise AssertionError(f"{failure} of {script}; the page: {self.text}") from None

    def devtools(self, command: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, parameters)

    @property
    def text(self) -> str:
        return self.run("return document.body.innerText")

    def click(self, selector: str) -> None:
        self.driver.find_element("css selector", selector).click()

    def close(self) -> None:
        self.driver.close()
        self._browser.tabs.remove(self)
        self._browser.go_home()

    def complaints(self) -> list[str]:
        """What the browser has against the page since it was asked last. That a line is cut is none of it."""
        entries = [entry for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        messages = [entry["message"] for entry in entries if entry["source"] != "network"]
        return [message for message in messages if "WebSocket connection to" not in message]


class Show(Tab):
    """The event page, as one user sees it."""

    def arrive(self) -> Show:
        """Waits until it shows what the gateway told, and notes from then on what becomes of the dots."""
        self.until("return document.body.dataset.state === 'here' && /look/.test(document.getElementById('badge-text').textContent)")
        self.until("return !document.querySelector('#friends [data-state=unknown]')")
        self.run(RECORD)
        return self

    @property
    def state(self) -> str:
        return self.run("return document.body.dataset.state")

    @property
    def badge(self) -> str:
        return self.run("return document.getElementById('badge-text').textContent")

    def dot(self, member: str) -> str:
        return self.run("return document.querySelector(`[data-member=${args[0]}]`).dataset.state", member)

    def words(self, member: str) -> str:
        return self.run("return document.querySelector(`[data-member=${args[0]}] .state`).textContent", member)

    def until_state(self, state: str, timeout: float = 15.0) -> None:
        self.until("return document.body.dataset.state === args[0]", state, timeout=timeout)

    def until_badge(self, badge: str) -> None:
        self.until("return document.getElementById('badge-text').textContent.startsWith(args[0])", badge)

    def until_dot(self, member: str, state: str, timeout: float = 15.0) -> None:
        self.until("return document.querySelector(`[data-member=${args[0]}]`).dataset.state === args[1]", member, state, timeout=timeout)

    def changes(self) -> list[tuple[float, str, str]]:
        """Each change of a dot since `arrive`: Unix time in s, whose, and what it became."""
        return [(at / 1000, member, state) for at, member, state in self.run("return window.dots")]

    def network(self, up: bool) -> None:
        """Tells the page what a phone tells it when airplane mode is switched on or off."""
        conditions = {"offline": not up, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.devtools("Network.enable")
        self.devtools("Network.emulateNetworkConditions", **conditions)
