"""Where modules beside a topology are looked for: behind Python's own, before all others.

Python puts the directory of a script first. A file such as `email.py` there would take the place of
Python's own module for all that is imported later, by pystreams and the Kafka client as well, and
fail far from its cause. So Python's own modules stay what they are, and a topology that imports one
while a file of its name stands beside it is told so.

Imported before anything else by `python -m pystreams`: it needs nothing but what Python has loaded.
"""

# pathlib would load modules that may be hidden.
# ruff: noqa: PTH100, PTH113, PTH118, PTH120, PTH122, PTH208

from __future__ import annotations

import os
import sys
from types import ModuleType

_STANDARD_LIBRARY = os.path.dirname(os.__file__)
_OWN = frozenset({_STANDARD_LIBRARY, os.path.join(_STANDARD_LIBRARY, "lib-dynload")})
_INSTALLED = f"{os.sep}site-packages{os.sep}"


def put_on_path(directory: str) -> None:
    """Have modules looked for in a directory, behind Python's own and before `PYTHONPATH`.

    Python's own go to the front, and not a finder, which processes that are spawned would not have.
    """
    wanted = os.path.abspath(directory)
    own = [entry for entry in sys.path if entry in _OWN]
    others = [entry for entry in sys.path if entry not in _OWN]
    sys.path[:] = [*own, wanted, *(entry for entry in others if os.path.abspath(entry) != wanted)]


def is_pythons_own(name: str) -> bool:
    """Return whether Python has a module of a name, which nothing else should have."""
    return name in sys.stdlib_module_names


def hidden_in(directory: str) -> dict[str, str]:
    """Return the modules of a directory that Python's own hide, and their files."""
    found = {}
    for entry in sorted(os.listdir(directory)):
        name, suffix = os.path.splitext(entry)
        package = os.path.join(directory, entry, "__init__.py")
        if suffix == ".py" and is_pythons_own(name):
            found[name] = entry
        elif is_pythons_own(entry) and os.path.isfile(package):
            found[entry] = f"{entry}{os.sep}"
    return found


def why_it_fails(error: BaseException, hidden: dict[str, str]) -> str:
    """Return what to add to an error of a hidden module; nothing of any other."""
    name = getattr(error, "name", None) if isinstance(error, ImportError) else None
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        name = error.obj.__name__
    return _what_to_rename((name or "").partition(".")[0], hidden)


def why_it_is_refused(directory: str, hidden: dict[str, str]) -> str:
    """Return which module there imports a hidden one, and the cure; nothing without any."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None) or ""
        if not file.startswith(os.path.join(directory, "")) or _INSTALLED in file:
            continue
        for found in list(vars(module).values()):
            if isinstance(found, ModuleType) and found.__name__ in hidden:
                cure = _what_to_rename(found.__name__, hidden)
                return f"{os.path.relpath(file, directory)} imports {found.__name__}. {cure}"
    return ""


def _what_to_rename(name: str, hidden: dict[str, str]) -> str:
    if name not in hidden:
        return ""
    return (
        f"Python has a module {name!r} of its own, which is the one that is imported: rename "
        f"{hidden[name]}, which is beside the topology"
    )
