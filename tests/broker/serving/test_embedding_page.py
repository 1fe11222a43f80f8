"""The program of docs/embedding.md, run as it stands there."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.broker.conftest import CreateTopic
from tests.broker.waiting import DEADLINE_S, wait_until

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker

PAGE = Path(__file__).parents[3] / "docs" / "embedding.md"


def test_the_program_of_the_page_runs_until_it_is_asked_to_stop(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    first, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    program = first.replace("localhost:9092", broker.bootstrap_servers)
    program = program.replace('stream("orders"', f'stream("{create_topic("orders")}"')
    program = program.replace('"application.id": "orders"', f'"application.id": "{unique_name}"')
    log = tmp_path / "log"
    with (
        log.open("w") as told,
        subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=told
        ) as process,
    ):
        try:
            wait_until(
                lambda: "from REBALANCING to RUNNING" in log.read_text(),
                "it runs",
                told=log.read_text,
            )
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()

    assert (process.returncode, output) == (0, b""), log.read_text()
    assert "from PENDING_SHUTDOWN to NOT_RUNNING" in log.read_text()
