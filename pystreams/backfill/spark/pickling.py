"""What goes from the driver to Spark's workers: topology and configuration, as bytes.

The user's code goes along by value: a worker on another machine has pystreams and the packages
the user's code imports, but not the file of the topology. By value go the modules that are not
installed, that is, not below the directories of Python's packages and its standard library.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
import sysconfig
from collections import ChainMap
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle

from pystreams.errors import TopologyError
from pystreams.exception_texts import named_exception

_INSTALLED = tuple(
    str(Path(path).resolve())
    for name, path in sysconfig.get_paths().items()
    if name in {"stdlib", "platstdlib", "purelib", "platlib"}
)
_NEVER = frozenset({"pystreams", "pyspark", "py4j", "__main__"})


def pack(job: object, what: str) -> bytes:
    """Return an object as bytes that a worker can read.

    Args:
        what: What an error calls it.

    Raises:
        TopologyError: Something in it can't be sent to another process; names it and the cure.
    """
    modules = _own_modules()
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    buffer = io.BytesIO()
    try:
        pickler: Any = _Pickler  # Its parent has no types.
        pickler(buffer).dump(job)
    except Exception as error:
        raise TopologyError(
            f"{what} can't be sent to Spark's workers ({named_exception(error)}): it holds "
            "on to something that lives in this process only, such as a lock, an open file or a "
            "connection. Make that where it is used, in a processor's init or on first call, or "
            "give its class a __reduce__"
        ) from error
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    return buffer.getvalue()


def unpack(data: bytes) -> Any:
    """Return the object of `pack`."""
    return pickle.loads(data)  # noqa: S301 - the driver's own bytes


def _struct_by_format(value: struct.Struct) -> tuple[type[struct.Struct], tuple[str]]:
    return struct.Struct, (value.format,)


class _Pickler(cloudpickle.Pickler):
    """Also takes `struct.Struct`, which serdes are made of and pickle refuses."""

    dispatch_table = ChainMap(  # noqa: RUF012 - as the parent has it
        {struct.Struct: _struct_by_format}, cloudpickle.Pickler.dispatch_table
    )


def _own_modules() -> list[ModuleType]:
    """Return the imported modules that belong to the user's program."""
    found = []
    registered = cloudpickle.list_registry_pickle_by_value()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _NEVER or not isinstance(module, ModuleType):
            continue
        file = getattr(module, "__file__", None)
        if not file or not file.endswith(".py") or module.__name__ != name or name in registered:
            continue
        if not str(Path(file).resolve()).startswith(_INSTALLED):
            found.append(module)
    return found
