"""A headless Chromium over the DevTools protocol on a pipe: no driver, no package beside it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome")
BINARY = next((path for name in _NAMES if (path := shutil.which(name))), None)

#: Switches of the browser; the profile is the test's own folder.
_SWITCHES = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb", "--mute-audio",
    # A tab that the browser thinks is hidden gets neither timers nor time.
    "--disable-background-timer-throttling", "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows", "--remote-debugging-pipe",
)  # fmt: skip


class Page:
    """One tab. ``problems`` collects exceptions, console errors and breaches of the policy."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser = browser
        self._session = session
        self.problems: list[str] = []
        self.requested: list[str] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._browser.call(method, self._session, **params)

    async def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        answer = await self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def until(self, script: str, seconds: float = 90.0) -> Any:
        """Wait until an expression is true in the page; its value."""
        async with asyncio.timeout(seconds):
            while not (value := await self.run(script)):
                await asyncio.sleep(0.05)
            return value

    async def open(self, address: str) -> None:
        await self.call("Page.navigate", url=address)
        there = json.dumps(address)
        await self.until(f"location.href === {there} && document.readyState === 'complete'")

    async def look(self, width: int, height: int = 900, dark: bool = False) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme, still])

    async def press(self, key: str) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            code = {"Tab": 9, "Enter": 13, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38,
                    "ArrowRight": 39, "ArrowDown": 40, "Escape": 27}[key]  # fmt: skip
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )

    async def shoot(self, path: Path) -> None:
        """The whole page as a picture."""
        size = (await self.call("Page.getLayoutMetrics"))["cssContentSize"]
        shot = await self.call(
            "Page.captureScreenshot", captureBeyondViewport=True,
            clip={"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1},
        )  # fmt: skip
        path.write_bytes(base64.b64decode(shot["data"]))

    def heard(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])


class Chromium:
    """The browser behind its pipe: messages of JSON, each ended by a zero byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: Any) -> None:
        self._reader = reader
        self._writer = writer
        self._number = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}
        self._open: list[str] = []
        self._listening = asyncio.create_task(self._listen())

    async def page(self) -> Page:
        """A new tab, in place of the one before."""
        for _ in range(len(self._open)):
            await self.call("Target.closeTarget", targetId=self._open.pop())
        target = (await self.call("Target.createTarget", url="about:blank"))["targetId"]
        self._open.append(target)
        found = await self.call("Target.attachToTarget", targetId=target, flatten=True)
        page = self._pages[found["sessionId"]] = Page(self, found["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            await page.call(f"{domain}.enable")
        await page.call("Page.bringToFront")
        return page

    async def call(self, method: str, session: str = "", /, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        answer = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        self._writer.write(json.dumps(message).encode() + b"\0")
        async with asyncio.timeout(60):
            return await answer

    async def _listen(self) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                message = json.loads((await self._reader.readuntil(b"\0"))[:-1])
                if "id" in message:
                    waiting = self._waiting.pop(message["id"])
                    if waiting.done():  # nobody waits any more
                        continue
                    if "error" in message:
                        waiting.set_exception(AssertionError(message["error"]))
                    else:
                        waiting.set_result(message["result"])
                elif message.get("sessionId") in self._pages:
                    self._pages[message["sessionId"]].heard(message["method"], message["params"])
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(AssertionError("the browser is gone"))

    async def leave(self) -> None:
        with suppress(AssertionError, TimeoutError):
            await self.call("Browser.close")
        self._writer.close()
        await self._listening


@asynccontextmanager
async def chromium(profile: Path) -> AsyncIterator[Chromium]:
    """Started with its own ``profile``, closed at the end."""
    assert BINARY is not None
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    # The browser reads commands at 3 and answers at 4.
    command = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
    process = await asyncio.create_subprocess_exec(
        "/bin/bash", "-c", command, BINARY, *_SWITCHES, f"--user-data-dir={profile}", "about:blank",
        pass_fds=(theirs_in, theirs_out), stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "HOME": str(profile), "TZ": "UTC"},
    )  # fmt: skip
    os.close(theirs_in)
    os.close(theirs_out)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 27)
    incoming, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours_in, "rb")
    )
    outgoing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(ours_out, "wb"))
    browser = Chromium(reader, outgoing)
    try:
        yield browser
    finally:
        await browser.leave()
        try:
            async with asyncio.timeout(20):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        incoming.close()
