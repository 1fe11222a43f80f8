"""The development broker: a real Apache Kafka node on this machine.

`DevelopmentBroker.start` makes the data directory, formats it on the first use, starts one JVM
that is broker and controller, and returns when a client can work. The JVM outlives the process
that started it; `DevelopmentBroker.find` meets it again, `stop` ends it. A data directory has at
most one broker: a lock file serialises its starts, and Kafka itself locks the directory.

What lies in a data directory:

- `kafka/`: Kafka's own files. They survive `stop`, a crash and a restart.
- `broker.json`: see `pystreams.broker.state`. Kept after the end, so that a restart gets the same
  port and clients that are still running reconnect.
- `server.properties`, `broker.log` (of the last start), `broker.log.previous`, `broker.lock`.
"""

from __future__ import annotations

import base64
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pystreams.broker import class_archive, network, process
from pystreams.broker.errors import BrokerError, BrokerStartError, PortTakenError
from pystreams.broker.jars import KAFKA_VERSION, class_path
from pystreams.broker.settings import LOOPBACK, server_settings, to_properties
from pystreams.broker.state import BrokerRegistry, BrokerState, default_data_dir
from pystreams.kernel.clock import SystemClock
from pystreams.kernel.file_lock import FileLock
from pystreams.kernel.java import Java, find_java

HEAP_MEBIBYTES = 400
START_TIMEOUT_S = 180.0
"""A limit, no target: a machine that has much else to do takes minutes to start Java."""
STOP_TIMEOUT_S = 15.0

_LOG_TAIL_LINES = 12
_PORT_ATTEMPTS_MAX = 3
_POLL_S = 0.02

_JVM_OPTIONS = [
    f"-Xmx{HEAP_MEBIBYTES}m",
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
]
# Kafka tells 300 settings and each thread's birth at INFO: a third of a second of the start.
_LOGGING_OPTIONS = [
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
]


@dataclass(frozen=True, slots=True)
class DevelopmentBroker:
    """A broker that was started, by this process or another one.

    Attributes:
        data_dir: Absolute path of its data directory.
        state: What it wrote about itself.
        registry: Where it is remembered; None keeps it out of `pystreams broker status`.
    """

    data_dir: Path
    state: BrokerState
    registry: BrokerRegistry | None

    @classmethod
    def start(
        cls,
        data_dir: Path | None = None,
        port: int | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        registry: BrokerRegistry | None = None,
        timeout_s: float = START_TIMEOUT_S,
    ) -> Self:
        """Start a broker and wait until a client can work with it.

        Args:
            data_dir: Where its data lives; made when missing. `default_data_dir()` if not given.
            port: Where clients connect; if not given, the port it had the last time when that is
                free, else any free one.
            settings: Kafka server settings that win over the development broker's.
            registry: Where to remember it for `find`; None for a broker of a test.
            timeout_s: How long the JVM may take.

        Raises:
            PortTakenError: `port` is in use.
            BrokerStartError: Kafka ended at start, or did not answer in time; holds its last words.
            BrokerError: A broker runs on the data directory already, or it can't be written.
            JavaNotFoundError: There is no Java 17 or newer.
            ArtifactError: Kafka's jars can't be downloaded.
        """
        directory = (data_dir or default_data_dir()).absolute()
        with _start_lock(directory):
            last = BrokerState.read(directory)
            if last and process.is_running(last.pid, _marker(directory)):
                raise BrokerError(
                    f"a broker runs on {directory} already (pid {last.pid}, "
                    f"{LOOPBACK}:{last.client_port}): use it, or stop it first"
                )
            if port is not None and not network.is_port_free(port):
                raise PortTakenError(port)
            if port is None and last and network.is_port_free(last.client_port):
                port = last.client_port
            class_archive.discard_recorded(directory)
            java, overrides = find_java(), dict(settings or {})
            state = _Launch(directory, java, class_path(), overrides, timeout_s).run(port)
        if registry is not None:
            registry.add(directory)
        return cls(directory, state, registry)

    @classmethod
    def attach(cls, data_dir: Path, registry: BrokerRegistry | None = None) -> Self | None:
        """Return the broker that runs on a data directory; None when none does."""
        directory = data_dir.absolute()
        state = BrokerState.read(directory)
        if state is None or not process.is_running(state.pid, _marker(directory)):
            return None
        return cls(directory, state, registry)

    @classmethod
    def find(cls, data_dir: Path | None = None) -> Self | None:
        """Return a running broker of this user, as `pystreams run --dev` picks one.

        The one of `data_dir` if that is given; else the one of the default directory; else the
        only one that runs.

        Raises:
            BrokerError: Several run, and nothing says which is meant.
        """
        registry = BrokerRegistry()
        if data_dir is not None:
            return cls.attach(data_dir, registry)
        running = cls.running(registry)
        for broker in running:
            if broker.data_dir == default_data_dir().absolute():
                return broker
        if len(running) > 1:
            listed = ", ".join(str(broker.data_dir) for broker in running)
            raise BrokerError(f"several brokers run ({listed}): choose one with --data-dir")
        return running[0] if running else None

    @classmethod
    def running(cls, registry: BrokerRegistry) -> list[Self]:
        """Return all running brokers of a registry, and forget those that have ended."""
        brokers = []
        for data_dir in registry.data_dirs():
            broker = cls.attach(data_dir, registry)
            if broker is None:
                registry.discard(data_dir)
            else:
                brokers.append(broker)
        return brokers

    @property
    def bootstrap_servers(self) -> str:
        """What clients put into `bootstrap.servers`."""
        return f"{LOOPBACK}:{self.state.client_port}"

    @property
    def log_file(self) -> Path:
        """The server's log, of the last start."""
        return self.data_dir / "broker.log"

    def is_running(self) -> bool:
        """Whether the process is alive."""
        return process.is_running(self.state.pid, _marker(self.data_dir))

    def is_ready(self) -> bool:
        """Whether it answers a client's request now."""
        return network.answers_metadata(self.state.client_port)

    def stop(self, *, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """End the broker; its data stays. Does nothing when it has ended already.

        Returns:
            Whether it shut down by itself; False when it had to be killed after `timeout_s`.
        """
        graceful = process.terminate(self.state.pid, _marker(self.data_dir), timeout_s=timeout_s)
        if graceful:
            class_archive.keep_recorded(self.data_dir)
        if self.registry is not None:
            self.registry.discard(self.data_dir)
        return graceful

    def kill(self) -> None:
        """End the broker with SIGKILL, as a crash of the machine would."""
        process.kill(self.state.pid, _marker(self.data_dir))


@dataclass(frozen=True, slots=True)
class _Launch:
    """One start: Java and the jars are known, the ports are tried."""

    data_dir: Path
    java: Java
    class_path: str
    overrides: dict[str, str]
    timeout_s: float

    def run(self, port: int | None) -> BrokerState:
        """Start the JVM; try other ports when somebody has taken a free one meanwhile."""
        for attempt in range(1, _PORT_ATTEMPTS_MAX + 1):
            client_port, controller_port = network.free_ports(2)
            client_port = port or client_port
            self._write_settings(client_port, controller_port)
            if not (_kafka_dir(self.data_dir) / "meta.properties").exists():
                self._format()
            try:
                return self._start_server(client_port)
            except BrokerStartError as error:
                taken = any("Address already in use" in line for line in error.log_tail)
                if not taken or attempt == _PORT_ATTEMPTS_MAX:
                    raise
                if port is not None and not network.is_port_free(port):
                    raise PortTakenError(port) from error
        raise AssertionError

    def _write_settings(self, client_port: int, controller_port: int) -> None:
        settings = server_settings(
            log_dir=_kafka_dir(self.data_dir),
            client_port=client_port,
            controller_port=controller_port,
            overrides=self.overrides,
        )
        _settings_file(self.data_dir).write_text(to_properties(settings), "latin-1")

    def _format(self) -> None:
        """Give the directory a cluster id, as Kafka demands before the first start."""
        # Compiling hot code would not pay within the half second that this runs.
        options = ["-XX:TieredStopAtLevel=1", *class_archive.options_to_use(self._archive_name())]
        tool = ["kafka.tools.StorageTool", "format", "--ignore-formatted"]
        tool += [f"--cluster-id={_new_cluster_id()}", f"--config={_settings_file(self.data_dir)}"]
        answer = subprocess.run(
            [*self._java_command(options), *tool],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if answer.returncode != 0:
            message = f"Kafka could not format {_kafka_dir(self.data_dir)}"
            lines = _without_stack_frames(answer.stdout.splitlines())
            raise BrokerStartError(message, lines[-_LOG_TAIL_LINES:])

    def _start_server(self, client_port: int) -> BrokerState:
        log_file = self.data_dir / "broker.log"
        if log_file.exists():
            log_file.replace(self.data_dir / "broker.log.previous")
        marker = _marker(self.data_dir)
        archive_name = self._archive_name()
        options = class_archive.options_to_use(archive_name)
        options = options or class_archive.options_to_record(archive_name, self.data_dir)
        command = [*self._java_command(options), "kafka.Kafka", marker]
        pid = process.spawn_detached(command, log_file)
        state = BrokerState(pid, client_port, KAFKA_VERSION, SystemClock().now_ms())
        try:
            # Written before it answers: should we be killed now, `stop` still finds it.
            state.write(self.data_dir)
            self._await_ready(state, log_file)
        except BaseException:
            # Also for Ctrl-C: a start that failed leaves nothing running.
            process.kill(pid, marker)
            raise
        return state

    def _await_ready(self, state: BrokerState, log_file: Path) -> None:
        deadline_s = time.monotonic() + self.timeout_s
        while not network.answers_metadata(state.client_port):
            if process.has_exited(state.pid):
                message = f"Kafka ended while it was starting on {self.data_dir}"
                raise BrokerStartError(message, _log_tail(log_file))
            if time.monotonic() > deadline_s:
                message = f"Kafka did not answer within {self.timeout_s:g} s of its start"
                raise BrokerStartError(message, _log_tail(log_file))
            time.sleep(_POLL_S)

    def _archive_name(self) -> str:
        return class_archive.archive_name(self.java, self.class_path)

    def _java_command(self, options: list[str]) -> list[str]:
        command = [str(self.java.executable), *_JVM_OPTIONS, *_LOGGING_OPTIONS]
        return [*command, *options, "-cp", self.class_path]


def _kafka_dir(data_dir: Path) -> Path:
    return data_dir / "kafka"


def _settings_file(data_dir: Path) -> Path:
    return data_dir / "server.properties"


def _marker(data_dir: Path) -> str:
    """What the command line of a data directory's broker holds, and no other process's."""
    return str(_settings_file(data_dir))


def _new_cluster_id() -> str:
    """Return a random id in Kafka's spelling: 16 bytes as 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _log_tail(log_file: Path) -> list[str]:
    try:
        lines = log_file.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return _without_stack_frames(lines)[-_LOG_TAIL_LINES:]


def _without_stack_frames(lines: list[str]) -> list[str]:
    """Drop Java's stack frames: the lines around them say what is wrong."""
    return [line for line in lines if not line.startswith("\tat ")]


@contextmanager
def _start_lock(data_dir: Path) -> Iterator[None]:
    """Hold the data directory's lock; a second start waits and then sees the first one's broker."""
    if "," in str(data_dir):
        raise BrokerError(
            f"can't use {data_dir} as data directory: Kafka reads a comma as a list of two"
        )
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = FileLock.awaited(data_dir / "broker.lock")
    except OSError as error:
        raise BrokerError(
            f"can't use {data_dir} as data directory: {error.strerror or error}. "
            "Choose another one with --data-dir"
        ) from error
    try:
        yield
    finally:
        lock.release()
