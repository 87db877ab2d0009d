#!/usr/bin/env python3
"""Pictures of the pages as a browser shows them, on a phone and on a desk, by day and by night: target/pictures/*.png.

With --readme also docs/page.png, the one in the README.
"""

from __future__ import annotations

import argparse
import base64
import sys
from contextlib import ExitStack, closing
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(PROJECT / "tests"), str(PROJECT / "tests/browser")]

from chromium import Chromium, Show, Tab  # noqa: E402
from harness import Server  # noqa: E402
from harness.gateway import Gateway  # noqa: E402
from room import ROOM  # noqa: E402

PHONE, DESK = (390, 844, True), (1280, 900, False)
HOUR = 3_600_000  # ms: nobody of the crowd goes while pictures are taken
PLAYGROUND_READY = "return /\\d/.test(document.getElementById('messages-per-change')?.textContent ?? '')"


def fill(server: Server) -> None:
    """2,337 people, and friends of asha's of whom two are here and one has just left."""
    c = server.client()
    c("PRESENCE.CREATE", ROOM, "TIMEOUT", HOUR, "GRACE", 0, "COUNTEVERY", 100)
    c("PRESENCE.MBEAT", ROOM, "MEMBERS", *(f"fan{i}" for i in range(2337)))
    for friend in ("bo", "carl", "emil"):
        c("PRESENCE.BEAT", ROOM, friend, "SHARE", "friends")
    c("PRESENCE.BYE", ROOM, "carl")


def picture(browser: Chromium, url: str, page: type[Tab], size: tuple[int, int, bool], scheme: str, ready: str) -> bytes:
    """The whole page as PNG."""
    width, height, mobile = size
    tab = browser.open("about:blank", page)
    scale = 2 if mobile else 1
    tab.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile)
    wishes = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
    tab.devtools("Emulation.setEmulatedMedia", features=[{"name": name, "value": value} for name, value in wishes.items()])
    tab.devtools("Emulation.setScrollbarsHidden", hidden=True)
    tab.driver.get(url)
    tab.until(ready)
    wide = tab.run("return document.documentElement.scrollWidth")
    if wide > width:
        print(f"{url} is {wide} wide on a screen of {width}", file=sys.stderr)
    # Twice around, so that what was just told is painted.
    tab.run("for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame)")
    shot = tab.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=True, optimizeForSpeed=False)
    tab.close()
    return base64.b64decode(shot["data"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readme", action="store_true", help="write docs/page.png too")
    parser.add_argument("--to", type=Path, default=PROJECT / "target/pictures", help="folder (default target/pictures)")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        server = stack.enter_context(Server(port=0))
        fill(server)
        gateway = stack.enter_context(closing(Gateway(server)))
        browser = Chromium()
        stack.callback(browser.quit)
        asha = "/?user=asha&friends=bo,carl,dana,emil"
        pages = {
            "show": (asha, Show, "return document.getElementById('badge-text').textContent.startsWith('2.3k')"
                     " && !document.querySelector('#friends [data-state=unknown]')"),
            "door": ("/", Tab, "return !document.getElementById('door').hidden"),
            "playground": ("/playground", Tab, PLAYGROUND_READY),
        }  # fmt: skip
        for name, (path, page, ready) in pages.items():
            for screen, size in (("desk", DESK), ("phone", PHONE)):
                for scheme in ("light", "dark"):
                    file = options.to / f"{name}-{screen}-{scheme}.png"
                    file.write_bytes(picture(browser, gateway.url + path, page, size, scheme, ready))
                    print(file)
        if options.readme:
            (PROJECT / "docs/page.png").write_bytes((options.to / "show-desk-light.png").read_bytes())


if __name__ == "__main__":
    main()
