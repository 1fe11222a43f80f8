"""What goes wrong in an application that runs, as plain values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pystreams.http.hidden_secrets import secrets_of, without_secrets
from pystreams.kernel.clock import SystemClock
from pystreams.runtime.application.kafka_streams import KafkaStreams


class Troubles:
    """Tells what stands still, and what became dead letters."""

    def __init__(self, streams: KafkaStreams) -> None:
        self._streams = streams
        self._secrets = secrets_of(streams.config)
        self._clock = SystemClock()

    def now(self) -> dict[str, Any]:
        """Return that as it is now: fields of a snapshot."""
        queue = self._streams.config.dead_letter_queue
        letters = self._dead_letters()
        of_queue = sum(each["records"] for each in letters if each["topic"] == queue)
        return {
            "troubles": self._standing_still(),
            "dead_letter_queue": queue,
            "dead_letter_records": None if queue is None else of_queue,
            "dead_letters": letters,
        }

    def _standing_still(self) -> list[dict[str, Any]]:
        monotonic_ms, now_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        return [
            {
                "trouble": trouble.kind.value,
                "of": trouble.of,
                "why": self._shown(trouble.text),
                "since_ms": round(now_ms - (monotonic_ms - trouble.since_ms)),
                "lasted_s": round((monotonic_ms - trouble.since_ms) / 1000, 1),
                "stack": self._shown(trouble.stack),
            }
            for trouble in self._streams.troubles
        ]

    def _dead_letters(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": letters.topic,
                "records": letters.records,
                "causes": [
                    {
                        **asdict(cause),
                        "error": self._shown(cause.error),
                        "stack": self._shown(cause.stack),
                    }
                    for cause in letters.causes
                ],
            }
            for letters in self._streams.dead_letters
        ]

    def _shown(self, text: str) -> str:
        return without_secrets(text, self._secrets)
