"""A headless Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tornado.ioloop import IOLoop
from tornado.websocket import WebSocketClientConnection, websocket_connect

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")

# Nothing but the page: no sandbox, which root cannot have, no updates, no sync.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)
PATIENCE = 60


class Browser:
    """One page of a browser, with what it logged and asked for."""

    def __init__(self, loop: IOLoop, socket: WebSocketClientConnection) -> None:
        self._loop, self._socket, self._last = loop, socket, 0
        self.events: list[dict[str, Any]] = []
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; its result."""
        self._last += 1
        call = {"id": self._last, "method": method, "params": parameters}
        return self._loop.run_sync(lambda: self._answer(call), timeout=PATIENCE)

    async def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        await self._socket.write_message(json.dumps(call))
        while True:
            message = await self._socket.read_message()
            assert message is not None, "the browser has gone"
            found = json.loads(message)
            if found.get("id") == call["id"]:
                assert "error" not in found, f"{call['method']}: {found['error']}"
                result: dict[str, Any] = found["result"]
                return result
            self.events.append(found)

    def named(self, *methods: str) -> list[dict[str, Any]]:
        """Parameters of the events of these names so far."""
        return [event["params"] for event in self.events if event.get("method") in methods]

    def evaluate(self, expression: str) -> Any:
        """Value of an expression in the page."""
        found = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def look(self, width: int, *, dark: bool = False, mobile: bool = False) -> None:
        """Take on a screen of some width."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=2 if mobile else 1,
            mobile=mobile,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media="screen", features=[scheme])

    def open(self, url: str) -> None:
        """Go to a page, and wait for its pictures."""
        self.events.clear()
        self.send("Page.navigate", url=url)
        ended = time.monotonic() + PATIENCE
        while not self.evaluate("document.readyState === 'complete'"):
            assert time.monotonic() < ended, f"{url} does not load"
            time.sleep(0.05)
        self.evaluate("Promise.all([...document.images].map(image => image.decode()))")

    def press(self, key: str, code: int) -> None:
        """Press a key and let it go."""
        for kind in ("rawKeyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )

    def screenshot(self, path: Path) -> None:
        """Write a picture of the whole page."""
        found = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def pdf(self) -> bytes:
        """Print the page, as on paper."""
        self.send("Emulation.setEmulatedMedia", media="", features=[])
        found = self.send("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(found["data"])


@contextmanager
def browsing() -> Iterator[Browser]:
    """Start a browser with a profile of its own; it is ended with all its processes."""
    assert PROGRAM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [PROGRAM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        loop = IOLoop(make_current=False)
        try:
            socket = loop.run_sync(lambda: _connect(Path(profile), process), timeout=PATIENCE)
            try:
                yield Browser(loop, socket)
            finally:
                loop.run_sync(lambda: _close(socket))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            loop.close(all_fds=True)


async def _close(socket: WebSocketClientConnection) -> None:
    """Close a socket while a loop runs, which it asks for."""
    socket.close()


async def _connect(profile: Path, process: subprocess.Popen[bytes]) -> WebSocketClientConnection:
    """Connect to the page of a browser, which writes its port into its profile."""
    import asyncio

    from tornado.httpclient import AsyncHTTPClient

    file = profile / "DevToolsActivePort"
    while not (file.is_file() and len(file.read_text().splitlines()) > 1):
        assert process.poll() is None, f"{PROGRAM} ended with {process.returncode}"
        await asyncio.sleep(0.05)
    port = file.read_text().splitlines()[0]
    found = await AsyncHTTPClient().fetch(f"http://127.0.0.1:{port}/json/list")
    page = next(each for each in json.loads(found.body) if each["type"] == "page")
    return await websocket_connect(page["webSocketDebuggerUrl"], max_message_size=1 << 28)
