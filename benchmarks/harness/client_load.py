"""Questions at a fixed rate that are asked with `pystreams.client.Client`, from several threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.harness.query_load import Load
from pystreams.client import Client


def ask_with_client(
    client: Client,
    keys: Iterator[str],
    *,
    rate: int,
    seconds: float,
    threads: int,
    check: Callable[[str, dict[str, Any] | None], None],
) -> Load:
    """Ask for so long, and return what came of it once the last is answered.

    Args:
        client: Is asked from all threads.
        keys: What is asked for in the store `counts`.
        rate: Questions a second.
        seconds: For how long.
        threads: How many threads ask; one that is free takes the next question.
        check: Is given each key and what was found, one at a time; may raise.
    """
    load, cpu_s = Load(began_s=time.monotonic()), time.process_time()
    due = iter(range(int(rate * seconds)))
    lock = threading.Lock()

    def ask() -> None:
        while True:
            with lock:
                number = next(due, None)
                if number is None:
                    return
                key = next(keys)
            due_s = load.began_s + number / rate
            if (wait_s := due_s - time.monotonic()) > 0:
                time.sleep(wait_s)
            found = client.get("counts", key)
            with lock:
                load.latencies_s.append(time.monotonic() - due_s)
                check(key, found)

    with ThreadPoolExecutor(threads) as pool:
        for asking in [pool.submit(ask) for _ in range(threads)]:
            asking.result()
    load.ended_s, load.cpu_s = time.monotonic(), time.process_time() - cpu_s
    return load
