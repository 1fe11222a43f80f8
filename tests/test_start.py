"""What a start loads: a module that most starts do not need costs each of them.

What is needed when something is served, shown, or fails is imported there.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker.application import Running

TOPOLOGY = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
text = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
counts = builder.stream("words", **text).group_by_key().count(name="counts")
counts.to_stream().to("counted", key_serde=serdes.STRING, value_serde=serdes.LONG)
"""
TELL = """
import atexit, signal, sys
# What the interpreter has loaded by itself, and what is installed beside the project, is not ours.
there = set(sys.modules)
def tell(*_):
    print("loaded:", *sorted(set(sys.modules) - there), flush=True)
"""
AT_THE_END = f"{TELL}atexit.register(tell)\n"
WHEN_ASKED = f"{TELL}signal.signal(signal.SIGUSR1, tell)\n"
HEAVY = {"asyncio", "email", "http", "importlib.metadata", "ssl", "wsgiref"}
"""Of the standard library: each brings a dozen modules, or native code."""

OF_TOPOLOGIES = {"mmh3", "orjson"}
OF_A_RUN = OF_TOPOLOGIES | {"click", "confluent_kafka", "rocksdict", "structlog"}
OF_STRUCTLOG = {"attr", "pygments", "rich"}
"""What it loads where it is installed; tables and tracebacks are shown with it."""


def loaded(told: str) -> set[str]:
    """Return the modules that a program was told to tell at its end."""
    (line,) = (line for line in told.splitlines() if line.startswith("loaded:"))
    return set(line.split()[1:])


def others(modules: set[str]) -> set[str]:
    """Return the packages that are neither Python's nor ours."""
    tops = {name.partition(".")[0] for name in modules}
    return {top for top in tops - sys.stdlib_module_names if top not in {"pystreams", "topology"}}


def modules_of(program: str, directory: Path) -> set[str]:
    """Return what a program loads, run in a directory with a topology."""
    (directory / "topology.py").write_text(TOPOLOGY)
    answer = subprocess.run(
        [sys.executable, "-c", AT_THE_END + program],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return loaded(answer.stdout)


def command(*arguments: str) -> str:
    return f"from pystreams.cli.main import main\nmain({list(arguments)})"


def test_the_package_loads_nothing_before_a_name_is_used(tmp_path: Path) -> None:
    modules = modules_of("import pystreams", tmp_path)
    assert {name for name in modules if name.startswith("pystreams")} == {"pystreams"}
    assert not others(modules)


A_TEST = """
import topology
from pystreams import serdes
from pystreams.testing import TopologyTestDriver
with TopologyTestDriver(topology.builder.build()) as driver:
    words = driver.create_input_topic("words", serdes.STRING, serdes.STRING)
    words.pipe_input("a", "b")
"""


@pytest.mark.parametrize(
    "program",
    ["import topology", "import pystreams.testing", A_TEST],
    ids=["a topology", "what tests it", "its test"],
)
def test_a_topology_and_its_test_need_no_client_no_rocksdb_and_no_loop(
    program: str, tmp_path: Path
) -> None:
    modules = modules_of(program, tmp_path)
    assert others(modules) <= OF_TOPOLOGIES
    assert not modules & HEAVY
    assert not {name for name in modules if name.startswith("pystreams.stores.engines.rocksdb")}


def test_describe_loads_what_a_topology_does(tmp_path: Path) -> None:
    modules = modules_of(command("describe", "topology.py"), tmp_path)
    assert others(modules) == OF_TOPOLOGIES | {"click"}
    assert not modules & HEAVY


@pytest.mark.parametrize("name", ["run", "status", "query", "backfill", "produce"])
def test_help_loads_neither_topologies_nor_clients(name: str, tmp_path: Path) -> None:
    modules = modules_of(command(name, "--help"), tmp_path)
    assert others(modules) == {"click"}
    assert not {name for name in modules if name.startswith(("pystreams.topology", "asyncio"))}


def test_a_run_loads_only_what_it_runs_on(tmp_path: Path) -> None:
    """No server of metrics, no table, no terminal's colours, whatever else is installed."""
    (tmp_path / "topology.py").write_text(TOPOLOGY)
    settings = {"bootstrap.servers": "127.0.0.1:1", "application.id": "start", "state.dir": "state"}
    options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    program = (
        f"{WHEN_ASKED}import os\nos.chdir({str(tmp_path)!r})\n"
        f"{command('run', 'topology.py', *options)}"
    )
    running = Running([sys.executable, "-c", program], {}, tmp_path / "log")
    try:
        running.wait_for("no broker can be reached, trying again until one can")
        running.process.send_signal(signal.SIGUSR1)
        running.wait_until(
            lambda: "\nloaded:" in running.told() and running.told().endswith("\n"),
            "what it has loaded",
        )
    finally:
        running.kill()

    modules = loaded(running.told())
    assert others(modules) - OF_STRUCTLOG == OF_A_RUN
    # The client's package imports asyncio itself.
    assert not modules & (HEAVY - {"asyncio", "ssl"})


def test_a_run_leaves_its_own_code_to_no_collection_and_the_users_to_all(tmp_path: Path) -> None:
    own = (
        "import gc\n"
        "class Report:\n"
        "    def __init__(self):\n"
        "        self.itself = self\n"
        "        self.told = f'{gc.get_freeze_count()} {gc.get_threshold()[0]}'\n"
        "    def __del__(self):\n"
        "        print('collected:', self.told)\n"
        "Report()\n"
    )
    (tmp_path / "topology.py").write_text(TOPOLOGY + own)
    answer = subprocess.run(
        [sys.executable, "-m", "pystreams", "run", "topology.py", "-c", "application.id=a"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "bootstrap.servers" in answer.stderr
    (told,) = (line for line in answer.stdout.splitlines() if line.startswith("collected:"))
    frozen, objects_between_collections = map(int, told.split()[1:])
    assert frozen > 10_000
    assert objects_between_collections > 10_000
