"""From a reference to a topology: what is found, and what is said when nothing is."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from pystreams.cli.application.topology_loader import LoadedTopology, LoadingError, load_topology
from pystreams.config import StreamsConfig
from pystreams.errors import TopologyError
from tests.broker.waiting import DEADLINE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPOLOGY = """
from pystreams.topology.graph.topology import Topology

def make(topic):
    made = Topology()
    made.add_source("source-" + topic, topic)
    made.add_sink("sink", "out", "source-" + topic)
    return made
"""
BUILDER = """
from pystreams.topology.dsl.builder import StreamsBuilder

def make(topic):
    made = StreamsBuilder()
    made.stream(topic).to("out")
    return made
"""
OWN = "raise ZeroDivisionError('another one than the topology wants')"


class Write(Protocol):
    """Writes a file of the user's and returns its path."""

    def __call__(self, code: str, name: str = "flow.py") -> str: ...


@pytest.fixture(autouse=True)
def restored_imports() -> Iterator[None]:
    """Loading changes the path and registers modules; undo both."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of the user's and return its path."""

    def write_file(code: str, name: str = "flow.py") -> str:
        (tmp_path / name).write_text(code)
        return str(tmp_path / name)

    return write_file


def sources_of(loaded: LoadedTopology) -> str:
    return str(loaded.topology.describe())


def refusal(reference: str) -> str:
    with pytest.raises(LoadingError) as raised:
        load_topology(reference)
    return str(raised.value)


@pytest.mark.parametrize("kind", [TOPOLOGY, BUILDER])
@pytest.mark.parametrize(
    "ending",
    [
        "topology = make('orders')",
        "builder = make('orders')",
        "def topology():\n    return make('orders')",
        "something_else = make('orders')",
        "one = make('orders')\nthe_same = one",
        "topology = make('orders')\nother = make('others')",
    ],
)
def test_a_file_needs_no_attribute(write: Write, kind: str, ending: str) -> None:
    loaded = load_topology(write(kind + ending))

    assert "[orders]" in sources_of(loaded)
    assert loaded.name == "flow"
    assert loaded.config == {}


@pytest.mark.parametrize("kind", [TOPOLOGY, BUILDER])
def test_an_attribute_chooses(write: Write, kind: str) -> None:
    file = write(kind + "one = make('ones')\ntwo = make('twos')\n")

    assert "[twos]" in sources_of(load_topology(f"{file}:two"))


def test_an_edit_is_seen_that_changes_neither_size_nor_second(write: Write) -> None:
    text = BUILDER + "topology = make('orders').build()"
    file = write(text)
    first = load_topology(file)
    changed = Path(file).stat().st_mtime_ns
    write(text.replace("orders", "events"))
    os.utime(file, ns=(changed, changed))

    assert "[orders]" in sources_of(first)
    assert "[events]" in sources_of(load_topology(file))


def test_an_attribute_may_be_inside_an_object(write: Write) -> None:
    file = write(TOPOLOGY + "class Flows:\n    main = make('orders')\n")

    assert "[orders]" in sources_of(load_topology(f"{file}:Flows.main"))


def test_a_module_is_imported_from_the_working_directory(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flows").mkdir()
    write("", "flows/__init__.py")
    write(TOPOLOGY + "flow = make('orders')\n", "flows/orders.py")
    monkeypatch.chdir(tmp_path)

    loaded = load_topology("flows.orders:flow")

    assert "[orders]" in sources_of(loaded)
    assert loaded.name == "orders"
    assert "[orders]" in sources_of(load_topology("flows.orders"))


def test_a_file_can_import_its_neighbours(write: Write) -> None:
    write("TOPIC = 'orders'\n", "neighbour.py")

    loaded = load_topology(write("from neighbour import TOPIC\n" + TOPOLOGY + "t = make(TOPIC)"))

    assert "[orders]" in sources_of(loaded)


def test_a_neighbour_comes_before_a_module_of_its_name_on_the_python_path(
    write: Write, tmp_path: Path
) -> None:
    """As with `python flow.py`; and Python's own modules stay before both."""
    (tmp_path / "elsewhere").mkdir()
    write(OWN, "elsewhere/rules.py")
    write(OWN, "queue.py")
    write("TOPIC = 'orders'\n", "rules.py")
    write("from rules import TOPIC\n" + TOPOLOGY + "topology = make(TOPIC)")

    done = subprocess.run(
        [sys.executable, "-m", "pystreams", "describe", "flow.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "elsewhere")},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )

    assert "[orders]" in done.stdout, done.stderr


def test_a_file_may_have_the_name_of_a_loaded_module(write: Write) -> None:
    json_before = sys.modules.get("json")

    loaded = load_topology(write(TOPOLOGY + "topology = make('orders')", "json.py"))

    assert loaded.name == "json"
    assert sys.modules.get("json") is json_before


def test_a_file_beside_it_named_like_pythons_own_module_hides_nothing(write: Write) -> None:
    """What is not loaded yet is loaded later, by whoever needs it then."""
    for name in ("queue", "mailbox"):
        write(OWN, f"{name}.py")

    load_topology(write(TOPOLOGY + "topology = make('in')"))

    assert importlib.import_module("mailbox").Maildir


@pytest.mark.parametrize(
    "code",
    [
        "from queue import Order\n",
        "import queue\nqueue.Order\n",
        "import queue\n",
        "import queue as ours\n",
        "import queue.orders\n",
        "def topology():\n    from queue import Order\n",
    ],
)
def test_a_topology_that_imports_what_pythons_own_module_hides_is_told_which_file(
    write: Write, code: str
) -> None:
    write("class Order: ...", "queue.py")

    with pytest.raises(LoadingError, match="Python has a module 'queue' of its own") as told:
        load_topology(write(TOPOLOGY + "topology = make('in')\n" + code))

    assert "rename queue.py, which is beside the topology" in str(told.value)


def test_so_is_one_whose_helper_imports_it(write: Write) -> None:
    write("", "queue.py")
    write("import queue\n", "rules.py")

    with pytest.raises(LoadingError, match=r"rules\.py imports queue\. Python has a module"):
        load_topology(write("import rules\n" + TOPOLOGY + "topology = make('in')"))


def test_pythons_own_module_may_be_used_where_nothing_hides_it(write: Write) -> None:
    write("", "email.py")

    load_topology(write("import queue\nfrom email import message\n" + TOPOLOGY + "t = make('in')"))


def test_a_topology_may_be_named_like_pythons_own_module(write: Write) -> None:
    loaded = load_topology(write(TOPOLOGY + "topology = make('in')", "wave.py"))

    assert loaded.name == "wave"
    assert importlib.import_module("wave").Wave_read


def test_the_command_runs_beside_files_named_like_pythons_own_modules(
    write: Write, tmp_path: Path
) -> None:
    for name in ("email.py", "queue.py", "statistics.py", "csv.py", "socketserver.py"):
        write(OWN, name)
    write(TOPOLOGY + "topology = make('in')")
    options = ["-cbootstrap.servers=127.0.0.1:1", "-capplication.id=a", "-cstate.dir=state"]
    options += ["-cdefault.key.serde=string", "-cdefault.value.serde=string"]
    commands = [
        (0, ["describe", "flow.py"]),
        (3, ["query", "http://127.0.0.1:1", "counts", "a"]),  # Nobody answers there.
        (3, ["run", "flow.py", *options, "--http", "0"]),
    ]
    for exit_code, command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "pystreams", *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )
        told = done.stdout + done.stderr
        assert done.returncode == exit_code, told
        assert "ZeroDivisionError" not in told


def test_a_module_may_give_configuration(write: Write) -> None:
    loaded = load_topology(
        write(TOPOLOGY + "topology = make('orders')\nconfig = {'application.id': 'orders'}")
    )

    assert loaded.config == {"application.id": "orders"}


def test_a_finished_configuration_is_refused(write: Write) -> None:
    file = write(
        TOPOLOGY + "topology = make('orders')\nfrom pystreams.config import StreamsConfig\n"
        "config = StreamsConfig.of(application_id='a', bootstrap_servers='b:1')"
    )

    assert "make it a dict" in refusal(file)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    assert "nowhere.py does not exist" in refusal(str(tmp_path / "nowhere.py"))
    assert "is a directory" in refusal(f"{tmp_path}/")


def test_a_directory_named_without_a_slash_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path)

    assert refusal("shop") == "shop is a directory: name a Python file that builds a topology"
    assert refusal(".").startswith(". is a directory")


def test_a_file_that_is_no_python_is_told(write: Write) -> None:
    assert "its name must end in .py" in refusal(write("x", "flow.txt"))


def test_a_missing_module_is_told() -> None:
    assert "there is no file and no module 'no_such_module'" in refusal("no_such_module:flow")
    assert "no module 'pystreams.nothing'" in refusal("pystreams.nothing")


def test_a_missing_import_of_the_users_is_his(write: Write, tmp_path: Path) -> None:
    told = refusal(write("import no_such_library\n"))

    assert "flow.py can't be loaded" in told
    assert "import no_such_library" in told
    assert "No module named 'no_such_library'" in told


def test_a_syntax_error_shows_its_line(write: Write) -> None:
    told = refusal(write("topology = 1\nbuilder = (2 +\n"))

    assert "flow.py can't be loaded" in told
    assert "line 2" in told
    assert "builder = (2 +" in told
    assert "SyntaxError" in told


def test_an_exception_shows_the_users_frames_only(write: Write) -> None:
    told = refusal(write("def divide():\n    return 1 / 0\n\ndivide()\n"))

    assert "ZeroDivisionError: division by zero" in told
    assert "in divide" in told
    assert "importlib" not in told
    assert "loading.py" not in told


def test_an_exception_in_a_function_is_told(write: Write) -> None:
    told = refusal(write("def topology():\n    raise KeyError('x')\n"))

    assert "KeyError: 'x'" in told


def test_a_wrong_topology_shows_where_it_was_written(write: Write) -> None:
    told = refusal(write(TOPOLOGY + "t = make('orders')\nt.add_source('source-orders', 'x')\n"))

    assert "source-orders" in told
    assert "t.add_source('source-orders', 'x')" in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    "line",
    [
        "made.stream('orders', value_serde=str)",
        "made.stream('orders').group_by_key().count(name='a/b')",
        "made.stream('orders', key_serde='string').to('out')",
    ],
)
def test_wrong_options_of_an_operation_show_the_users_line(write: Write, line: str) -> None:
    code = f"from pystreams import StreamsBuilder\nmade = StreamsBuilder()\n{line}\n"

    told = refusal(write(code))

    assert 'flow.py", line 3' in told
    assert line in told
    assert "<string>" not in told


def test_a_file_that_exits_is_told(write: Write) -> None:
    assert "__main__" in refusal(write("import sys\nsys.exit(3)\n"))


def test_without_a_topology_the_functions_are_listed(write: Write) -> None:
    told = refusal(write("def build_it(): ...\ndef _private(): ...\nnumber = 3\n"))

    assert "has no topology" in told
    assert "; it has build_it" in told
    assert "_private" not in told


def test_several_topologies_are_listed(write: Write) -> None:
    told = refusal(write(TOPOLOGY + "one = make('ones')\ntwo = make('twos')\n"))

    assert "several topologies (one, two)" in told
    assert "flow.py:one" in told


def test_a_missing_attribute_lists_what_there_is(write: Write) -> None:
    file = write(TOPOLOGY + "one = make('ones')\n")

    assert "has no 'two'; it has make, one" in refusal(f"{file}:two")


@pytest.mark.parametrize("code", ["flow = 3", "def flow():\n    return 3"])
def test_an_attribute_of_another_type_is_refused(write: Write, code: str) -> None:
    assert "is of type int: it must be a Topology" in refusal(write(code) + ":flow")


def test_a_function_with_parameters_is_refused(write: Write) -> None:
    assert "missing 1 required positional argument" in refusal(write("def topology(x): ..."))


TABLE = """
from pystreams import serdes
from pystreams.topology.dsl.builder import StreamsBuilder

def make(topic):
    made = StreamsBuilder()
    options = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
    made.table(topic, name="rows", **options)
    return made
"""


def optimized() -> StreamsConfig:
    return StreamsConfig.of(
        {
            "application.id": "shop",
            "bootstrap.servers": "none:1",
            "topology.optimization": "reuse.ktable.source.topics",
        }
    )


@pytest.mark.parametrize(
    "ending", ["builder = make('orders')", "def topology():\n    return make('orders')"]
)
def test_a_builder_is_built_with_the_configuration(write: Write, ending: str) -> None:
    loaded = load_topology(write(TABLE + ending))

    assert loaded.topology.source_changelogs == {}
    assert set(loaded.built_with(optimized()).topology.source_changelogs) == {"rows"}


def test_a_topology_that_was_built_otherwise_than_configured_is_refused(write: Write) -> None:
    loaded = load_topology(write(TABLE + "topology = make('orders').build()"))

    with pytest.raises(TopologyError, match="name the StreamsBuilder itself, or return it"):
        loaded.built_with(optimized())
