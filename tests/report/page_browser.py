"""A headless Chromium that a test drives over a pipe, without further packages."""

import json
import os
import select
import shutil
import subprocess
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DEADLINE_S = 60.0
# To the browser's descriptors 3 and 4, whichever the test has given them.
WITH_PIPES = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@" --remote-debugging-pipe'


def browser_path() -> str | None:
    """An installed browser; None if there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One tab, what it logs and what it asks the network for."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._unread = b""
        self._number = 0
        self._session: dict[str, str] = {}
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        """Give a command of the DevTools protocol and return its result."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": values} | self._session
        os.write(self._writing, json.dumps(request).encode() + b"\0")
        while (message := self._next()).get("id") != self._number:
            self.events.append(message)
        assert "error" not in message, message["error"]
        result: dict[str, Any] = message["result"]
        return result

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + DEADLINE_S
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._reading], [], [], end - time.monotonic())
            assert ready, "the browser does not answer"
            received = os.read(self._reading, 1 << 20)
            assert received, "the browser has ended"
            self._unread += received
        message, _, self._unread = self._unread.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def show(self, address: str, width: int, is_dark: bool = False) -> None:
        """Open an address on a screen of that width, and wait until it is there."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete'")

    def tap(self, x: float, y: float) -> None:
        """Touch the screen shortly, as a finger does."""
        self.call("Input.synthesizeTapGesture", x=round(x), y=round(y), gestureSourceType="touch")

    def value(self, expression: str) -> Any:
        """The value of an expression on the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + DEADLINE_S
        while not self.value(expression):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.05)

    def screenshot(self, path: Path) -> None:
        """Write an image of the complete page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        taken = self.call(
            "Page.captureScreenshot", captureBeyondViewport=True, clip=size | {"scale": 1}
        )
        path.write_bytes(b64decode(taken["data"]))

    def faults(self) -> list[str]:
        """Errors of the console and of scripts so far."""
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        return [json.dumps(each["params"]) for each in self.events if each.get("method") in kinds]

    def requests(self) -> list[str]:
        """Addresses that pages asked for so far, without data in the page itself."""
        sent = (each for each in self.events if each.get("method") == "Network.requestWillBeSent")
        found = [each["params"]["request"]["url"] for each in sent]
        return [address for address in found if not address.startswith("data:")]


@contextmanager
def running_browser(profile: Path) -> Iterator[Browser]:
    """A browser with a profile of its own, ended with the block."""
    path = browser_path()
    assert path is not None
    (their_reading, writing), (reading, their_writing) = os.pipe(), os.pipe()
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    flags += ["--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={profile}"]
    command = ["bash", "-c", WITH_PIPES, "bash", str(their_reading), str(their_writing), path]
    process = subprocess.Popen(
        [*command, *flags], pass_fds=(their_reading, their_writing), stderr=subprocess.DEVNULL
    )
    os.close(their_reading)
    os.close(their_writing)
    try:
        yield Browser(reading, writing)
    finally:
        os.close(writing)
        os.close(reading)
        process.terminate()
        process.wait(timeout=DEADLINE_S)
