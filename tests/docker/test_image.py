"""The image, as far as it can be checked without Docker: its file, and its steps carried out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docker.dockerfile import DOCKERFILE, FINAL, ROOT, stages

RUN_BY_US = {"", "spark", "loader"}


def test_dockerfile_has_nothing_that_hadolint_would_do_otherwise() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [hadolint, "--no-color", DOCKERFILE], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_images_of_others_are_pinned() -> None:
    """By digest; the one whose digest we do not know by a tag that is never moved on purpose."""
    ours = stages()
    others = {stage.base for stage in ours.values() if stage.base not in ours}
    copied = re.findall(r"COPY --from=(\S+)", DOCKERFILE.read_text("utf-8"))
    assert set(copied) <= set(ours)
    by_tag = {image for image in others if not re.search(r":[\w.-]+@sha256:[0-9a-f]{64}$", image)}
    assert by_tag == {"eclipse-temurin:21.0.8_9-jdk-jammy"}


def test_tools_that_are_installed_for_the_build_are_pinned() -> None:
    assert re.fullmatch(
        r"pip install --no-cache-dir uv==\d+\.\d+\.\d+", stages()["tools"].last("RUN")
    )


@pytest.mark.parametrize("name", RUN_BY_US)
def test_what_runs_has_no_rights_and_is_named_by_number(name: str) -> None:
    """Kubernetes' `runAsNonRoot` refuses a user that it knows by name alone."""
    user, _, group = stages()[name].last("USER").partition(":")
    assert int(user) > 0
    assert int(group) > 0


@pytest.mark.parametrize("name", RUN_BY_US)
def test_signals_reach_the_command(name: str) -> None:
    """In the shell's form a shell would be process 1, and keep SIGTERM to itself."""
    entry = json.loads(stages()[name].last("ENTRYPOINT"))
    assert entry in (["pystreams"], ["python"], ["tini", "--"])


def test_state_lies_on_the_volume() -> None:
    final = stages()[FINAL]
    volume = final.last("VOLUME")
    assert final.environment()["PYSTREAMS_STATE_DIR"] == volume
    assert re.search(rf"install .*--owner 10001 .*--mode 0750 {volume}$", final.last("RUN"))


def test_all_images_run_the_same_python() -> None:
    """A virtual environment names the interpreter that it was made with."""
    ours = stages()

    def root_of(name: str) -> str:
        return root_of(ours[name].base) if name in ours else name

    assert len({root_of(name) for name in ours if name != "java"}) == 1


def test_image_holds_nothing_of_this_clone_but_what_it_needs() -> None:
    shown = (ROOT / "docker" / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    assert {line for line in shown if line.startswith("!")} == {
        "!pyproject.toml",
        "!uv.lock",
        "!README.md",
        "!LICENSE",
        "!pystreams",
    }
