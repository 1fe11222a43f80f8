"""What is distributed: how it calls itself, what it holds, and what comes with it."""

from __future__ import annotations

import re
import subprocess
import tarfile
import tomllib
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

from tests.distribution.conftest import ROOT, Installed, environment

NEEDED = {
    "click",
    "confluent-kafka",
    "markdown-it-py",
    "mdurl",
    "mmh3",
    "orjson",
    "prometheus-client",
    "pygments",
    "rich",
    "rocksdict",
    "structlog",
}
SIZE_MAX_MIB = 60
"""What is installed without extras is 34 MiB on Linux, 3 MiB of it this package."""


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def test_it_is_installed_by_its_own_name_and_imported_as_pystreams(
    installed: Installed, tmp_path: Path
) -> None:
    version = installed.run("pystreams", "--version", cwd=tmp_path)
    where = installed.run("python", "-c", "print(__import__('pystreams').__file__)", cwd=tmp_path)

    assert installed.wheel.name.startswith("pystreams_kafka-")
    assert version.stdout.startswith("pystreams 0.")
    assert where.stdout.startswith(str(installed.packages))


def test_metadata_says_what_a_bill_of_materials_asks_for(installed: Installed) -> None:
    told = metadata(installed.wheel)

    assert told["Name"] == "pystreams-kafka"
    assert told["License-Expression"] == "Apache-2.0"
    assert told["License-File"] == "LICENSE"
    assert told["Requires-Python"] == ">=3.11"
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(told.get_all("Classifier", [])))
    assert versions == ["3.11", "3.12", "3.13", "3.14"]


def test_extras_are_for_users_and_tools_of_development_are_not_among_them(
    installed: Installed,
) -> None:
    extras = set(metadata(installed.wheel).get_all("Provides-Extra", []))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

    assert extras == set(project["project"]["optional-dependencies"])
    assert extras.isdisjoint(project["dependency-groups"])


def test_little_is_installed_without_extras(installed: Installed) -> None:
    names = {
        path.name.rsplit("-", 2)[0].replace("_", "-").lower()
        for path in installed.packages.glob("*.dist-info")
    }
    size = sum(
        path.stat().st_size
        for path in installed.packages.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    )

    assert names - {"pystreams-kafka"} == NEEDED
    assert size < SIZE_MAX_MIB << 20


def test_a_missing_extra_is_told_before_a_broker_is_started(
    installed: Installed, tmp_path: Path
) -> None:
    installed.run("pystreams", "new", "words", cwd=tmp_path)

    home = {"XDG_DATA_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    told = subprocess.run(
        [str(installed.programs / "pystreams"), "run", "topology.py", "--dev", "--http", "0"],
        cwd=tmp_path / "words",
        env=environment(installed) | home,
        check=False,
        capture_output=True,
        text=True,
    )

    assert told.returncode == 2
    assert told.stderr == (
        "Error: HTTP needs more than the library alone: pip install 'pystreams-kafka[http]'\n"
    )


def completion(installed: Installed, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a shell that completes its words."""
    return subprocess.run(
        [str(installed.programs / "pystreams")],
        env=environment(installed) | variables,
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_given_what_completes_the_command(installed: Installed, shell: str) -> None:
    script = completion(installed, _PYSTREAMS_COMPLETE=f"{shell}_source")

    assert (script.returncode, script.stderr) == (0, "")
    assert f"_PYSTREAMS_COMPLETE={shell}_complete" in script.stdout


def test_the_beginning_of_a_command_is_completed(installed: Installed) -> None:
    words = {"COMP_WORDS": "pystreams ru", "COMP_CWORD": "1"}
    completed = completion(installed, _PYSTREAMS_COMPLETE="bash_complete", **words)

    assert (completed.returncode, completed.stderr) == (0, "")
    assert completed.stdout == "plain,run\n"


def test_wheel_holds_the_package_and_its_types_and_nothing_of_the_tests(
    installed: Installed,
) -> None:
    with zipfile.ZipFile(installed.wheel) as archive:
        names = archive.namelist()

    assert installed.wheel.name.endswith("-py3-none-any.whl")
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"pystreams"}
    assert "pystreams/py.typed" in names
    assert {f"pystreams/http/page/assets/page.{kind}" for kind in ("css", "js")} <= set(names)


def test_sdist_holds_what_a_packager_needs(installed: Installed) -> None:
    with tarfile.open(installed.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {"pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "docs/README.md"} <= names
    assert "tests/distribution/test_installed.py" in names
    assert not [name for name in names if name.startswith((".venv", "build/", ".git/"))]


@pytest.mark.parametrize("page", ["README.md", "docs", "pystreams", "docker"])
def test_hints_name_the_distribution_that_can_be_installed(page: str) -> None:
    path = ROOT / page
    files = (
        [path] if path.is_file() else [*path.rglob("*.md"), *path.rglob("*.py"), *path.glob("*")]
    )
    wrong = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in files
        if file.is_file() and file.suffix != ".pyc"
        for line in file.read_text("utf-8").splitlines()
        if re.search(r"pip install '?pystreams(?!-kafka)|\bpystreams\[", line)
    ]

    assert wrong == []


def test_extras_that_hints_name_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = {
        extra
        for folder in ("pystreams", "docs")
        for file in (ROOT / folder).rglob("*.[pm][yd]")
        for extra in re.findall(r"pystreams-kafka\[(\w+)\]", file.read_text("utf-8"))
    }

    assert named == set(project["optional-dependencies"])
