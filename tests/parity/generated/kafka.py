"""Kafka Streams in a JVM of its own, which answers one case after the other."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

JAVA = Path(__file__).parents[1] / "java"
_MEMORY = Path("/dev/shm")


class KafkaStreams:
    """The program `Answers.java`, compiled and run by Maven; needs Java 17 or later."""

    def __init__(self) -> None:
        options = "-XX:TieredStopAtLevel=1"
        if _MEMORY.is_dir():
            options += f" -Djava.io.tmpdir={_MEMORY}"
        command = ["mvn", "-q", "compile", "exec:java", "-Dgolden.main=parity.generated.Answers"]
        self._process = subprocess.Popen(
            command,
            cwd=JAVA,
            env={**os.environ, "MAVEN_OPTS": options},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def answers(self, cases: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Return Kafka Streams' answers, one a case, while it works on the next ones."""
        listed = list(cases)
        feeder = threading.Thread(target=self._send, args=(listed,), daemon=True)
        feeder.start()
        for case in listed:
            yield self._answer(case)
        feeder.join()

    def answer(self, case: dict[str, Any]) -> dict[str, Any]:
        """Return Kafka Streams' answer to one case."""
        return next(iter(list(self.answers([case]))))

    def _send(self, cases: list[dict[str, Any]]) -> None:
        assert self._process.stdin is not None
        for case in cases:
            self._process.stdin.write(f"{json.dumps(case)}\n".encode())
            self._process.stdin.flush()

    def _answer(self, case: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            start = line.find(b"{")  # Maven sends colours in front.
            if start >= 0:
                found: dict[str, Any] = json.loads(line[start:])
                return found
        raise RuntimeError(f"Kafka Streams ended with {self._process.wait()} at {case}")
