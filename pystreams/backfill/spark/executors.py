"""A cluster that is not there: told within seconds, where Spark by itself would try for minutes.

`check_master` asks whether anybody listens where the master should be. `executors_watched` looks,
while a job is under way, for executors to run it; Spark waits for them for ever.

On `local` the driver itself runs the tasks, and there is nothing to look for.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pystreams.errors import ConfigError, StreamsError
from pystreams.kernel.loggers import get_logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_SETTING = "spark.pystreams.executor.timeout.ms"
"""How long a job may be without any executor (ms); of `--spark-conf`."""

_TIMEOUT_MS = 300_000
_LOOK_EVERY_S = 1.0
_SAY_AFTER_S = 15.0
_CONNECT_TIMEOUT_S = 5.0
_MASTERS = {"spark": 7077, "k8s": 443}
_MASTER = re.compile(r"(?P<kind>spark|k8s)://(?P<rest>.+)")
_ADDRESS = re.compile(r"(?:https?://)?\[?(?P<host>[^\]/]+?)\]?(?::(?P<port>\d+))?(?:/.*)?")

_log = get_logger("pystreams.backfill")


class NoExecutorError(StreamsError):
    """Spark's master does not answer, or gives no executor. Says what to look at."""


def check_master(master: str) -> None:
    """Check that somebody listens where a master is.

    Args:
        master: As Spark takes it; looked at are `spark://host:port,...` and `k8s://...`.

    Raises:
        NoExecutorError: Nobody does; says what was tried.
    """
    found = _MASTER.fullmatch(master)
    if found is None:
        return
    troubles = []
    for part in found["rest"].split(","):
        address = _ADDRESS.fullmatch(part)
        if address is None:
            return  # Spark says better what is wrong with it.
        where = (address["host"], int(address["port"] or _MASTERS[found["kind"]]))
        try:
            socket.create_connection(where, _CONNECT_TIMEOUT_S).close()
        except OSError as error:
            troubles.append(f"{where[0]}:{where[1]}: {error.strerror or error}")
        else:
            return
    raise NoExecutorError(
        f"no answer from Spark's master {master} ({'; '.join(troubles)}): start the cluster, or "
        "correct --master; `--master local[*]` runs the backfill on this machine"
    )


@contextlib.contextmanager
def executors_watched(spark: SparkSession) -> Iterator[None]:
    """End the session's jobs, for the length of a block, when no executor comes to run them.

    Raises:
        ConfigError: The timeout is no whole number.
        NoExecutorError: A job had no executor for the timeout.
    """
    watch = _Watch(spark, _timeout_s(spark))
    thread = threading.Thread(target=watch.run, name="executor watch", daemon=True)
    thread.start()
    try:
        yield
    except Exception:
        if watch.has_given_up:
            raise watch.error() from None
        raise
    finally:
        watch.stopped.set()
        thread.join()


class _Watch:
    """Looks for executors on a thread of its own."""

    def __init__(self, spark: SparkSession, timeout_s: float) -> None:
        self.stopped = threading.Event()
        self.has_given_up = False
        self._spark = spark
        self._timeout_s = timeout_s
        self._alone_s = 0.0

    def run(self) -> None:
        has_said = False
        while not self.stopped.wait(_LOOK_EVERY_S):
            if not self._is_in_vain():
                self._alone_s, has_said = 0.0, False
                continue
            self._alone_s += _LOOK_EVERY_S
            if self._alone_s >= self._timeout_s:
                self.has_given_up = True
                self._spark.sparkContext.cancelAllJobs()
                return
            if self._alone_s >= _SAY_AFTER_S and not has_said:
                has_said = True
                _log.warning("waiting for an executor", master=self._master())

    def error(self) -> NoExecutorError:
        return NoExecutorError(
            f"Spark's master {self._master()} has given no executor for {self._timeout_s:.0f} s: "
            "look whether the cluster has workers, whether they have the memory and cores that are "
            "asked for (spark.executor.memory, spark.executor.cores), and in their logs why "
            f"executors end. `--spark-conf {TIMEOUT_SETTING}=...` waits longer"
        )

    def _is_in_vain(self) -> bool:
        """Return whether a job is under way that nobody runs."""
        context = self._spark.sparkContext
        try:
            if not context.statusTracker().getActiveJobsIds():
                return False
            # Only Java knows; the driver is one of them.
            executors = context._jsc.sc().getExecutorMemoryStatus()  # noqa: SLF001
            return int(executors.size()) <= 1
        except Exception:  # noqa: BLE001 - py4j's, when the session ends at this moment
            return False

    def _master(self) -> str:
        return str(self._spark.sparkContext.master)


def _timeout_s(spark: SparkSession) -> float:
    text = spark.sparkContext.getConf().get(TIMEOUT_SETTING, str(_TIMEOUT_MS))
    if not text.isdigit():
        raise ConfigError(f"{TIMEOUT_SETTING}={text}: write a number of milliseconds")
    return int(text) / 1000
