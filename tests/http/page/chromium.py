"""Chromium without a window, steered over a pipe by the DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.broker.waiting import wait_until

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_ANSWER_S = 60.0
_PHONE = 390


class Chromium:
    """One browser with one page.

    Args:
        place: A directory for its profile.
    """

    def __init__(self, place: Path) -> None:
        program = next(filter(None, map(shutil.which, _NAMES)), None)
        if program is None:
            pytest.skip(f"no Chromium is installed: none of {', '.join(_NAMES)} is on the PATH")
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        command = [
            program,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
            f"--user-data-dir={place / 'profile'}",
            "about:blank",
        ]
        # It takes what it is told from file 3, and answers in file 4.
        redirected = f'exec "$@" 3<&{commands} 4>&{answers}'
        self._process = subprocess.Popen(
            ["bash", "-c", redirected, "bash", *command],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._read, self._number, self._session = b"", 0, ""
        self.complaints: list[str] = []
        (page,) = (
            target
            for target in self._call("Target.getTargets")["targetInfos"]
            if target["type"] == "page"
        )
        attached = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        self._call("Page.enable")
        self._call("Runtime.enable")
        self._call("Log.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._commands)
        os.close(self._answers)
        self._process.kill()
        self._process.wait()

    def open(self, url: str) -> None:
        self._call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, script: str) -> Any:
        """Return what an expression, or a promise, comes to."""
        told = self._call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def text(self, selector: str) -> str:
        """Return what is to be seen of an element, as text."""
        return str(
            self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
        )

    def wait_for(self, script: str) -> None:
        shown = "document.body ? document.body.innerText : ''"
        wait_until(lambda: self.evaluate(script), script, told=lambda: str(self.evaluate(shown)))

    def wait_for_text(self, selector: str, text: str) -> None:
        wait_until(
            lambda: text in self.text(selector),
            f"{text!r} in {selector}",
            told=lambda: self.text("body"),
        )

    def without_scripts(self) -> None:
        """Run no script of pages that are opened from now on."""
        self._call("Emulation.setScriptExecutionDisabled", value=True)

    def look(self, *, scheme: str = "light", width: int = 1200, height: int = 900) -> None:
        """Look with another scheme of colours, or a screen of another width."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", features=features)
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 700,
        )

    def fits_a_phone(self) -> bool:
        """Return whether nothing has to be scrolled sideways on a phone; leaves it as it was."""
        self.look(width=_PHONE, height=844)
        width = self.evaluate("document.documentElement.scrollWidth")
        self.look()
        return bool(width <= _PHONE)

    def style(self, selector: str, name: str) -> str:
        """Return what a property of an element's style has come to, as the browser draws it."""
        found = f"getComputedStyle(document.querySelector({json.dumps(selector)}))"
        return str(self.evaluate(f"{found}[{json.dumps(name)}]"))

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write a picture of what is on the screen, or of the whole page."""
        taken = self._call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(taken["data"]))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        end_s = time.monotonic() + _ANSWER_S
        while True:
            told = self._next(end_s)
            if told.get("id") == self._number:
                assert "error" not in told, f"{method}: {told['error']}"
                return dict(told["result"])
            self._hear(told)

    def _hear(self, told: dict[str, Any]) -> None:
        """Keep what the page's console would show in red."""
        if told.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(told["params"]["exceptionDetails"]))
        if told.get("method") == "Log.entryAdded" and told["params"]["entry"]["level"] == "error":
            self.complaints.append(str(told["params"]["entry"]["text"]))

    def _next(self, end_s: float) -> dict[str, Any]:
        while b"\0" not in self._read:
            left_s = max(0.0, end_s - time.monotonic())
            poll = select.poll()  # Of `select`, files have numbers below 1,024.
            poll.register(self._answers, select.POLLIN)
            assert poll.poll(1000 * left_s), "Chromium does not answer"
            read = os.read(self._answers, 1 << 16)
            assert read, "Chromium has ended"
            self._read += read
        message, _, self._read = self._read.partition(b"\0")
        return dict(json.loads(message))
