"""The archive that makes all starts but the first one quick."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams.broker import class_archive
from pystreams.kernel import maven
from pystreams.kernel.java import Java
from tests.broker.waiting import DEADLINE_S
from tests.sharing import start_broker

JAVA = Java(Path("/usr/bin/java"), 17, 'openjdk version "17.0.15"')


@pytest.fixture
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with Kafka's jars and nothing else."""
    jars = maven.default_cache_dir() / "maven"
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "maven").symlink_to(jars)
    monkeypatch.setenv("PYSTREAMS_CACHE_DIR", str(cache))
    return cache


def test_another_java_and_other_jars_have_another_archive() -> None:
    newer = Java(JAVA.executable, 17, 'openjdk version "17.0.16"')
    names = {
        class_archive.archive_name(JAVA, "a.jar"),
        class_archive.archive_name(JAVA, "b.jar"),
        class_archive.archive_name(newer, "a.jar"),
    }
    assert len(names) == 3


def test_recorded_archive_moves_to_the_cache(cache_dir: Path, tmp_path: Path) -> None:
    name = class_archive.archive_name(JAVA, "a.jar")
    assert class_archive.options_to_use(name) == []

    (tmp_path / name).write_bytes(b"classes")
    class_archive.keep_recorded(tmp_path)
    kept = cache_dir / "class-data" / name
    assert kept.read_bytes() == b"classes"
    assert not (tmp_path / name).exists()
    assert f"-XX:SharedArchiveFile={kept}" in class_archive.options_to_use(name)


def test_cache_that_cannot_be_written_does_not_fail_a_stop(cache_dir: Path, tmp_path: Path) -> None:
    (cache_dir / "class-data").write_text("a file is in the way")
    name = class_archive.archive_name(JAVA, "a.jar")
    (tmp_path / name).write_bytes(b"classes")
    class_archive.keep_recorded(tmp_path)


def test_archive_of_a_killed_broker_is_thrown_away(cache_dir: Path, tmp_path: Path) -> None:
    name = class_archive.archive_name(JAVA, "a.jar")
    (tmp_path / name).write_bytes(b"half of the cla")
    class_archive.discard_recorded(tmp_path)
    assert not (tmp_path / name).exists()


@pytest.mark.sweep
@pytest.mark.broker
def test_second_start_maps_what_the_first_one_recorded(cache_dir: Path, tmp_path: Path) -> None:
    assert start_broker(tmp_path / "data").stop(timeout_s=DEADLINE_S)
    if not (cache_dir / "class-data").exists():
        pytest.skip("this Java has no archive of its own to build on")
    (archive,) = (cache_dir / "class-data").iterdir()

    broker = start_broker(tmp_path / "data")
    try:
        assert broker.is_ready()
        maps = Path(f"/proc/{broker.state.pid}/maps")
        assert not maps.exists() or str(archive) in maps.read_text("utf-8")
    finally:
        assert broker.stop()


@pytest.mark.sweep
@pytest.mark.broker
def test_damaged_archive_does_not_keep_the_broker_from_starting(
    cache_dir: Path, tmp_path: Path
) -> None:
    from pystreams.broker.jars import class_path
    from pystreams.kernel.java import find_java

    name = class_archive.archive_name(find_java(), class_path())
    (cache_dir / "class-data").mkdir()
    (cache_dir / "class-data" / name).write_bytes(b"not an archive" * 1000)
    broker = start_broker(tmp_path / "data")
    try:
        assert broker.is_ready()
    finally:
        broker.stop()
