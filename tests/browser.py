"""Headless Chromium over its own debugging pipe: no driver, no further package, no port.

`--remote-debugging-pipe` makes Chromium read commands from file descriptor 3 and answer on 4, JSON that ends in NUL
(the DevTools protocol).
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class Browser:
    """One page of a headless Chromium; everything it says is kept in `events`."""

    def __init__(self) -> None:
        assert CHROMIUM is not None, "these tests need Chromium (Debian: apt-get install chromium)"
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        def place() -> None:
            kept = os.dup(to_browser), os.dup(from_browser)  # 3 or 4 may be taken by one of them
            os.dup2(kept[0], 3)
            os.dup2(kept[1], 4)

        command = [CHROMIUM, *_FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, preexec_fn=place, close_fds=False, **quiet)  # noqa: PLW1509
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._last = b"", 0
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = self.call("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in target if one["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._session = None
        self.call("Browser.close")
        self._process.wait(30)
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> Any:
        """Send a command and wait for its answer; events that come before it are kept."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._read, 1 << 20)
            assert piece, "the browser has gone away"
            self._buffer += piece
        message, self._buffer = self._buffer.split(b"\0", 1)
        found: dict[str, Any] = json.loads(message)
        return found

    def open(self, path: Path, *, width: int = 1440, height: int = 900, scheme: str = "light", media: str = "") -> None:
        """Open a file at a width, in a colour scheme, on a medium, and wait until it has loaded."""
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not self.said("Page.loadEventFired"):
            self.events.append(self._next())

    def said(self, method: str) -> list[dict[str, Any]]:
        """What was said of one kind since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def ask(self, expression: str) -> Any:
        """Evaluate an expression in the page: the page's own policy does not bind the debugger."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        text = {"text": "\r"} if key == "Enter" else {}
        both = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **both, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **both)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Save what is seen, or the whole page, as PNG."""
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(picture))

    def pdf(self, path: Path) -> None:
        """Print the page."""
        path.write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"]))
