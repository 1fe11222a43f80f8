"""From `FILE`, `FILE:attribute` or `module:attribute` to a topology.

Modules are looked for in the directory of a file, as Python does for a script, and for a module in
the working directory, as `python -m` does; but Python's own come first (`import_path`). The
attribute may be a topology, a builder, or a function without parameters that returns either; a
builder is built with the configuration. A module may also hold `config`, a dict: the weakest source
of configuration.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from pystreams.cli.application.import_path import (
    hidden_in,
    is_pythons_own,
    put_on_path,
    why_it_fails,
    why_it_is_refused,
)
from pystreams.errors import StreamsError, TopologyError
from pystreams.exception_texts import exception_text
from pystreams.kernel.user_tracebacks import is_users

if TYPE_CHECKING:
    from pystreams.config import StreamsConfig
    from pystreams.topology.dsl.builder import StreamsBuilder
    from pystreams.topology.graph.topology import Topology

_PREFERRED_NAMES = ("topology", "builder")


class LoadingError(TopologyError):
    """No topology could be loaded. The message says what was looked at, and what to write."""


@dataclass(frozen=True, slots=True)
class LoadedTopology:
    """What a reference led to.

    Attributes:
        name: The file's stem, or the last part of the module's name.
        config: The module's `config`; empty when it has none.
        builder: The builder it was made with, if that is what the reference led to.
    """

    topology: Topology
    name: str
    config: Mapping[str, Any]
    builder: StreamsBuilder | None = None

    def built_with(self, config: StreamsConfig) -> LoadedTopology:
        """Return it as a configuration wants it built.

        Raises:
            TopologyError: It was built by the user, and in another way.
        """
        from pystreams.topology.plan.configuration_check import check_optimizations

        wanted = config.topology_optimization
        topology = self.topology
        if self.builder is not None and wanted:
            topology = self.builder.build(config)
        check_optimizations(topology, wanted)
        return replace(self, topology=topology)


def load_topology(reference: str) -> LoadedTopology:
    """Import the user's code and return its topology.

    Args:
        reference: A path, `path:attribute`, `module:attribute` or a module.

    Raises:
        LoadingError: There is no such file, module or attribute; the code does not compile or
            raises; or nothing in it is a topology; or it imports what a module of Python's hides.
    """
    directory = directory_of(reference)
    put_on_path(str(directory))
    hidden = hidden_in(str(directory)) if directory.is_dir() else {}
    try:
        loaded = _loaded(reference)
    except LoadingError as error:
        why = "" if error.__cause__ is None else why_it_fails(error.__cause__, hidden)
        raise (LoadingError(f"{error}\n{why}") if why else error) from None
    if hidden and (told := why_it_is_refused(str(directory), hidden)):
        raise LoadingError(f"{reference}: {told}")
    return loaded


def _loaded(reference: str) -> LoadedTopology:
    location, attribute = _split(reference)
    module = _import_file(Path(location)) if _is_path(location) else _import_module(location)
    found = _attribute_of(module, attribute, location) if attribute else _only_one(module, location)
    where = f"{location}:{attribute}" if attribute else location
    topology, builder = _topology_of(found, where)
    name = Path(location).stem if _is_path(location) else location.rpartition(".")[2]
    return LoadedTopology(topology, name, _config_of(module, location), builder)


def directory_of(reference: str) -> Path:
    """Return where the modules of a topology are looked for first, without importing any."""
    location, _ = _split(reference)
    return Path(location).resolve().parent if _is_path(location) else Path.cwd()


def _split(reference: str) -> tuple[str, str]:
    """Split off the attribute; a colon may also belong to a path."""
    if Path(reference).is_file():
        return reference, ""
    location, colon, attribute = reference.rpartition(":")
    return (location, attribute) if colon and location else (reference, "")


def _is_path(location: str) -> bool:
    if location.endswith(".py") or "/" in location or Path(location).is_file():
        return True
    return Path(location).is_dir() and not (Path(location) / "__init__.py").is_file()


class _AsItIsNow(SourceFileLoader):
    """Compiles the text that is there now.

    What Python keeps compiled it tells from another text by its size and the second of its last
    change only: an edit right after a run would not be seen. That goes for what the file imports,
    and for `module:attribute`, still: those are Python's own imports.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise LoadingError(f"{path} {what}: name a Python file that builds a topology")
    absolute, name = path.resolve(), path.resolve().stem
    # A name that is taken would hide the other module from the user's own imports, and from ours.
    if name in sys.modules or is_pythons_own(name):
        name = f"pystreams_{name}"
    loader = _AsItIsNow(name, str(absolute)) if absolute.suffix == ".py" else None
    spec = importlib.util.spec_from_file_location(name, absolute, loader=loader)
    if spec is None or spec.loader is None:
        raise LoadingError(f"{path} is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    # Registered before it runs, so that what it defines can be found by name (pickle, dataclasses).
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise _failed(error, str(path)) from error
    return module


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise _failed(error, name) from error
        raise LoadingError(
            f"there is no file and no module {name!r}: "
            "name a Python file, or a module that can be imported from here"
        ) from error
    except BaseException as error:
        raise _failed(error, name) from error


def _attribute_of(module: ModuleType, attribute: str, location: str) -> object:
    found: object = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise LoadingError(f"{location} has no {attribute!r}{_what_it_has(module)}")
        found = getattr(found, part)
    return found


def _only_one(module: ModuleType, location: str) -> object:
    """Return the topology of a module whose user named none."""
    from pystreams.topology.dsl.builder import StreamsBuilder
    from pystreams.topology.graph.topology import Topology

    for name in _PREFERRED_NAMES:
        named = getattr(module, name, None)
        if isinstance(named, Topology | StreamsBuilder | FunctionType):
            return named
    for kind in (Topology, StreamsBuilder):
        candidates = _those_in(module, kind)
        # Two names of one object are no choice.
        if len({id(found) for found in candidates.values()}) == 1:
            return next(iter(candidates.values()))
        if candidates:
            names = ", ".join(sorted(candidates))
            raise LoadingError(
                f"{location} has several topologies ({names}): "
                f"choose one, as in {location}:{min(candidates)}"
            )
    raise LoadingError(
        f"{location} has no topology: assign one to `topology` (a Topology, a StreamsBuilder, or "
        f"a function that returns one){_what_it_has(module)}"
    )


def _topology_of(found: object, where: str) -> tuple[Topology, StreamsBuilder | None]:
    """Call a function, build a builder; return that builder, too."""
    from pystreams.topology.dsl.builder import StreamsBuilder
    from pystreams.topology.graph.topology import Topology

    builder = None
    try:
        if isinstance(found, FunctionType):
            found = found()
        if isinstance(found, StreamsBuilder):
            builder = found
            found = builder.build()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _failed(error, where) from error
    if not isinstance(found, Topology):
        raise LoadingError(
            f"{where} is of type {type(found).__name__}: it must be a Topology, a StreamsBuilder, "
            "or a function without parameters that returns one"
        )
    return found, builder


def _config_of(module: ModuleType, location: str) -> Mapping[str, Any]:
    from pystreams.config import StreamsConfig

    found = getattr(module, "config", None)
    if isinstance(found, StreamsConfig):
        raise LoadingError(
            f"`config` in {location} is a StreamsConfig: make it a dict, such as "
            '{"application.id": "..."}, so that files and options can override it'
        )
    return found if isinstance(found, Mapping) else {}


def _those_in(module: ModuleType, kind: type) -> dict[str, object]:
    return {name: value for name, value in vars(module).items() if isinstance(value, kind)}


def _what_it_has(module: ModuleType) -> str:
    """Return what might have been meant: topologies, builders, the module's own functions."""
    from pystreams.topology.dsl.builder import StreamsBuilder
    from pystreams.topology.graph.topology import Topology

    functions = {
        name
        for name, value in _those_in(module, FunctionType).items()
        if value.__module__ == module.__name__ and not name.startswith("_")
    }
    topologies = [*_those_in(module, Topology), *_those_in(module, StreamsBuilder)]
    names = sorted({*topologies, *functions})
    return f"; it has {', '.join(names)}" if names else ""


def _failed(error: BaseException, location: str) -> LoadingError:
    """Return the error of user code that raised: its own words, and its own lines only."""
    if isinstance(error, SystemExit):
        return LoadingError(
            f"{location} ended the process while it was loaded (exit code {error.code}): "
            'put what should only happen in a script under `if __name__ == "__main__":`'
        )
    own_frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame)]
    if isinstance(error, StreamsError):
        # The topology is wrong: the message says how, the last line of the user's says where.
        place = "".join(traceback.format_list(own_frames[-1:])).rstrip()
        return LoadingError(
            f"{location}: {exception_text(error)}" + (f"\n{place}" if place else "")
        )
    lines = traceback.format_list(own_frames) + traceback.format_exception_only(error)
    return LoadingError(f"{location} can't be loaded:\n{''.join(lines).rstrip()}")
