"""Kafka Streams' applications in one JVM: `Applications.java`, which is told what to start."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.broker.waiting import wait_until
from tests.parity.generated.kafka import JAVA
from tests.parity.generated.options import Step

_OWN = {"session.timeout.ms": 6_000, "auto.offset.reset": "earliest"}
_START_S = 300.0
"""Maven compiles what is started."""
MISSING = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]

needs_java = pytest.mark.skipif(
    bool(MISSING), reason=f"Kafka Streams needs {' and '.join(MISSING)}, not on the PATH"
)


class JavaApplications:
    """Starts and stops applications of Kafka Streams.

    Args:
        log: Where the JVM's standard error goes.
    """

    def __init__(self, log: Path) -> None:
        command = ["mvn", "-q", "compile", "exec:java"]
        self._log = log
        self._states: dict[str, dict[str, str]] = {}
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [*command, "-Dgolden.main=parity.generated.Applications"],
                cwd=JAVA,
                env={**os.environ, "MAVEN_OPTS": "-XX:TieredStopAtLevel=1 -Xmx1g"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._reader = threading.Thread(target=self._read, name="java", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        if kind is not None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def start(self, application_id: str, steps: list[Step], config: Mapping[str, object]) -> None:
        """Start an application; `wait_until_running` tells when it has begun."""
        self._states[application_id] = {"state": "asked"}
        given = {**_OWN, **config}
        self._ask({"do": "start", "id": application_id, "steps": steps, "config": given})

    def wait_until_running(self) -> None:
        """Wait for all of them."""
        self._wait(lambda: {line["state"] for line in self._states.values()} <= {"RUNNING"})

    def stop(self, application_ids: Collection[str]) -> None:
        """Stop applications, which leave their groups."""
        for application_id in application_ids:
            self._ask({"do": "stop", "id": application_id})
        self._wait(
            lambda: all(self._states[each]["state"] == "STOPPED" for each in application_ids)
        )
        for application_id in application_ids:
            del self._states[application_id]

    def _wait(self, reached: Callable[[], bool]) -> None:
        def checked() -> bool:
            self.check()
            return reached()

        wait_until(checked, "Kafka Streams", deadline_s=_START_S, told=self._told)

    def check(self) -> None:
        """Fail if an application has."""
        failed = [line for line in list(self._states.values()) if "error" in line]
        assert not failed, failed
        assert self._process.poll() is None, self._told()

    def _ask(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(request)}\n".encode())
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            start = line.find(b"{")  # Maven sends colours in front.
            if start >= 0:
                told = json.loads(line[start:])
                self._states[told["id"]] = told

    def _told(self) -> str:
        return f"{self._states}\n{self._log.read_text(errors='replace')[-2000:]}"
