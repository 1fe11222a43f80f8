"""What is distributed, built and installed as a user would have it: outside of this clone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Installed:
    """A virtual environment that holds the wheel and what it needs, and nothing else."""

    directory: Path
    wheel: Path
    sdist: Path

    @property
    def programs(self) -> Path:
        return self.directory / "bin"

    @property
    def packages(self) -> Path:
        (found,) = self.directory.glob("lib/python*/site-packages")
        return found

    def run(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run one of its programs in a directory, as a shell that knows nothing of the clone."""
        command = [str(self.programs / words[0]), *words[1:]]
        return subprocess.run(
            command, cwd=cwd, env=environment(self), check=False, capture_output=True, text=True
        )


def environment(installed: Installed) -> dict[str, str]:
    ours = {"PYTHONPATH", "PYTEST_ADDOPTS", "VIRTUAL_ENV", "COVERAGE_PROCESS_START"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return kept | {"PATH": f"{installed.programs}{os.pathsep}{os.environ['PATH']}"}


def uv(*words: str, cwd: Path = ROOT) -> str:
    """Run uv: the one on the PATH, or that of scripts/setup."""
    program = shutil.which("uv") or str(ROOT / "build" / "uv" / "bin" / "uv")
    done = subprocess.run(
        [program, "--quiet", *words], cwd=cwd, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build the sdist, from it the wheel, and install that with the versions of the lock."""
    place = tmp_path_factory.mktemp("installed")
    uv("build", "--out-dir", str(place / "dist"))
    (wheel,) = (place / "dist").glob("*.whl")
    (sdist,) = (place / "dist").glob("*.tar.gz")
    return install(Installed(place / "venv", wheel, sdist))


@pytest.fixture
def installed_with_pytest(installed: Installed, tmp_path: Path) -> Installed:
    """The same wheel once more, with what a user's first hour needs beside it."""
    into = Installed(tmp_path / "venv", installed.wheel, installed.sdist)
    return install(into, "pytest", extras="[http]")


def install(into: Installed, *more: str, extras: str = "") -> Installed:
    """Make the environment, with more than the wheel if so asked."""
    place = into.directory.parent
    locked = place / "locked.txt"
    locked.write_text(
        uv("export", "--locked", "--no-dev", "--no-emit-project", "--no-hashes", "--all-extras")
    )
    uv("venv", "--python", sys.executable, str(into.directory), cwd=place)
    words = ("--python", str(into.programs / "python"), "--constraint", str(locked))
    uv("pip", "install", *words, f"{into.wheel}{extras}", *more, cwd=place)
    return into


@pytest.fixture
def variables(installed_with_pytest: Installed, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A home of its own, and in it a broker that ends with the test."""
    kept = environment(installed_with_pytest)
    kept |= {"XDG_STATE_HOME": str(tmp_path / "home"), "XDG_DATA_HOME": str(tmp_path / "home")}
    kept["PYSTREAMS_STATE_DIR"] = str(tmp_path / "state")
    yield kept
    stop = [str(installed_with_pytest.programs / "pystreams"), "broker", "stop"]
    subprocess.run(stop, env=kept, check=False, capture_output=True)
