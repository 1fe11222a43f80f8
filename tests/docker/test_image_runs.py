"""The image's own steps, carried out in a directory, and its entry point run as the image would."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests import names
from tests.broker.application import Running
from tests.broker.programs import write_counts
from tests.broker.reading import create_topics, produce, read_all
from tests.broker.waiting import wait_until
from tests.docker.dockerfile import FINAL, ROOT, Build, stages
from tests.ports import ports_in_a_row

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker

HEALTH_PORT = "8080"


@pytest.fixture(scope="module")
def build() -> Iterator[Build]:
    """The image, where its user can get at it; pytest's own directories are for nobody else."""
    root = Path(tempfile.mkdtemp(prefix="pystreams-image-"))
    root.chmod(0o755)
    uv = shutil.which("uv") or str(ROOT / "build" / "uv" / "bin" / "uv")
    build = Build(root, uv)
    try:
        build.make(FINAL)
        yield build
    finally:
        shutil.rmtree(root)


def as_its_user(build: Build) -> list[str]:
    """What a command begins with that is run as the image's user, if we may and it can be."""
    python = build.path("/app/.venv/bin/python").resolve()
    seen_by_all = all(folder.stat().st_mode & stat.S_IXOTH for folder in python.parents)
    if os.geteuid() != 0 or not seen_by_all or shutil.which("setpriv") is None:
        return []
    user, _, group = stages()[FINAL].last("USER").partition(":")
    state = build.path(stages()[FINAL].last("VOLUME"))
    os.chown(state, int(user), int(group))
    return ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"]


def is_healthy(build: Build, port: int) -> bool:
    """Ask as Docker does, at another port."""
    _options, _, command = stages()[FINAL].last("HEALTHCHECK").partition("CMD ")
    words = [word.replace(HEALTH_PORT, str(port)) for word in build.words(command)]
    asked = subprocess.run(
        words, env=build.environment(FINAL), check=False, capture_output=True, timeout=60
    )
    return asked.returncode == 0


@pytest.mark.broker
def test_image_runs_an_application_is_healthy_and_stops_when_it_is_asked_to(
    broker: DevelopmentBroker, build: Build
) -> None:
    name = names.unique_name("image")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    topics = [NewTopic(f"{name}-{stem}", 1) for stem in ("in", "out")]
    create_topics(admin, topics)
    produce(broker.bootstrap_servers, f"{name}-in", [(b"key", bytes(8))])
    topology = write_counts(build.root, f"{name}-in", f"{name}-out")
    state = build.path(stages()[FINAL].last("VOLUME"))
    state.mkdir(mode=0o750, parents=True)
    (port,) = ports_in_a_row(1)
    words = [*build.words(stages()[FINAL].last("ENTRYPOINT")), "run", str(topology)]
    words += ["--http", str(port), "-c", f"application.id={name}"]
    words += ["-c", f"bootstrap.servers={broker.bootstrap_servers}", "-c", "commit.interval.ms=100"]
    words[0] = str(shutil.which(words[0], path=build.environment(FINAL)["PATH"]))
    assert Path(words[0]).is_relative_to(build.root)
    assert not is_healthy(build, port)

    running = Running(
        [*as_its_user(build), *words], build.environment(FINAL), build.root / "application.log"
    )
    try:
        wait_until(lambda: is_healthy(build, port) or not running.alive(), "health")
        running.wait_until(
            lambda: read_all(broker.bootstrap_servers, f"{name}-out"), "the count of a record"
        )
        running.stop()
    finally:
        running.kill()

    assert [task.name for task in (state / name).glob("0_*")] == ["0_0"]
    assert stat.S_IMODE((state / name).stat().st_mode) == 0o750
