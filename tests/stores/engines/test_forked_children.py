"""A child of `os.fork` has none of RocksDB's threads, and ends all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a child crashes at its end there")

DEADLINE_S = 120

FORKING = r"""
import atexit, os, signal, sys
from pathlib import Path

from pystreams import Stores, serdes
from pystreams.stores.build import build_store
from tests.stores.support import Home

signal.alarm(100)
place, how = Path(sys.argv[1]), sys.argv[2]


def opened(name, builder):
    store = build_store(builder.spec)
    store.init(Home(place / name).context())
    return store


plain = opened("plain", Stores.key_value_store_builder(
    Stores.persistent_key_value_store("plain"), serdes.STRING, serdes.STRING))
windows = opened("windows", Stores.window_store_builder(
    Stores.persistent_window_store("windows", 60_000, 1_000), serdes.STRING, serdes.STRING))
for number in range(50):
    plain.put(f"key {number}", "value")
    windows.put("key", "value", number * 1_000)
plain.commit({})
windows.commit({})
entries = plain.all()
next(entries)
if how == "closed":
    plain.close()
    windows.close()
child = os.fork()
if not child:
    signal.alarm(60)
    atexit.register(print, "the child's own end", flush=True)
    if how == "let go":
        del plain, windows, entries
    if how == "exception":
        raise RuntimeError("child")
    sys.exit(3)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
if how != "closed":
    print("parent", plain.get("key 7"), len(list(entries)), len(list(windows.all())), flush=True)
    plain.close()
    windows.close()
"""


@pytest.mark.parametrize("how", ["open", "let go", "exception", "closed"])
def test_a_child_ends_as_it_says_and_its_parent_keeps_its_databases(
    tmp_path: Path, how: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORKING, str(tmp_path), how],
        capture_output=True,
        check=False,
        text=True,
        timeout=DEADLINE_S,
        cwd=Path(__file__).parents[3],
    )

    assert ended.returncode == 0, ended.stderr
    child, *parent = ended.stdout.splitlines()[1:]
    assert ended.stdout.startswith("the child's own end\n")
    assert child == f"child {1 if how == 'exception' else 3}"
    assert parent == ([] if how == "closed" else ["parent value 49 50"])
