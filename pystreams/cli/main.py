"""The `pystreams` command: its sub-commands, and how errors leave the process.

A sub-command's module is imported when that command runs or asks for help, not before: `pystreams
broker status` should not wait for RocksDB and the Kafka client to load. The texts of the overview
stand here for the same reason, and a test compares them with the commands' own.
"""

from __future__ import annotations

import errno
import faulthandler
import importlib
import os
import sys
import traceback
from typing import NoReturn

import click

from pystreams.cli.errors import CommandFailure
from pystreams.cli.exit_codes import ExitCode
from pystreams.cli.processes.standard_output import (
    forget_output,
    open_what_is_closed,
    print_every_letter,
    reader_has_gone,
)
from pystreams.errors import InternalError, StreamsError, as_streams_error
from pystreams.kernel.garbage_collection import collections_far_apart

_COMPLETION = "_PYSTREAMS_COMPLETE"
"""Set by a shell that asks for completions: click answers, and ends with `SystemExit`, too."""
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


SUB_COMMANDS = {
    "new": "Write a first application: a topology that counts words, its test, its configuration.",
    "run": "Run a topology until it is stopped.",
    "backfill": "Run a topology over history on Spark, and hand over to the live application.",
    "export": "Write a committed snapshot of an application's stores as Parquet.",
    "rescale": (
        "Move a stopped application's state to other partition counts, under another "
        "application.id."
    ),
    "reset": "Let a stopped application begin anew: without state, and at the start of its input.",
    "status": (
        "Show how GROUP, an application.id, is doing: members, and lag in records and in seconds."
    ),
    "query": (
        "Ask the application served at URL (`run --http`) what STORE has of KEY, or of a range."
    ),
    "state": "Look into a state directory: no broker, no Spark, and nothing in it is changed.",
    "recover": "Show and decide what becomes of stores whose changelogs have lost what they hold.",
    "describe": "Print a topology: its sub-topologies, nodes, topics and stores.",
    "check": "Tell what a deploy does to state: what NEW makes of what OLD has left.",
    "config": "List all configuration keys, or explain KEY.",
    "metrics": "List all metrics, by Kafka's names and Prometheus'.",
    "topics": "Create, list, describe and delete topics.",
    "produce": (
        "Write records into TOPIC of a topology, with the serdes that it reads or writes it with."
    ),
    "consume": (
        "Print the records of TOPIC of a topology, with the serdes it reads or writes it with."
    ),
    "replay": (
        "Run a topology over a slice of its input, and tell what it does; nothing is written."
    ),
    "dlq": "Look into a dead letter queue, or redrive it: errors.dead.letter.queue.topic.name.",
    "broker": "A real Kafka broker on this machine, for development.",
}
"""Each command's line in the overview."""

_ROOMS = {
    "applications": ("run", "status", "query", "state", "recover", "reset"),
    "development": ("new", "describe", "check", "config", "metrics", "broker"),
    "history": ("backfill", "export", "rescale"),
    "records": ("topics", "produce", "consume", "replay", "dlq"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}
"""Where each command stands, in a module of its name."""


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is called for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of a user's first day, not of the alphabet."""
        return list(SUB_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None when there is none of that name."""
        room = _ROOM_OF.get(cmd_name)
        if room is None:
            return None
        module = importlib.import_module(f"pystreams.cli.commands.{room}.{cmd_name}")
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command), f"{cmd_name} is no command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview from the table, importing nothing."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUB_COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 failed, 2 wrong use, 3 no broker, 4 no such key, 70 a bug, "
    "130 Ctrl-C, 141 nobody reads the output, 143 SIGTERM.",
)
@click.version_option(package_name="pystreams-kafka", message="pystreams %(version)s")
def pystreams() -> None:
    """Kafka Streams for Python: exactly-once stream processing with local state."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command and end the process with a documented exit code.

    Args:
        arguments: The command line without the program's name; `sys.argv` if not given.
    """
    open_what_is_closed()
    print_every_letter()
    if sys.__stderr__ is not None and not faulthandler.is_enabled():
        # A crash of native code, as librdkafka's or RocksDB's, says in which of our lines it came.
        faulthandler.enable(sys.__stderr__)
    with collections_far_apart():
        sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    try:
        returned = pystreams.main(arguments, prog_name="pystreams", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:  # The second is click's answer to the first.
        if not reader_has_gone():
            return _code_of_completion(error)
        forget_output()
        return ExitCode.OUTPUT_CLOSED
    except click.exceptions.Abort:
        # click's name for Ctrl-C.
        return ExitCode.INTERRUPTED
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except StreamsError as error:
        return _told(error)
    except Exception as error:  # noqa: BLE001 - the last frame: what arrives here is a bug, and is reported as one
        known = as_streams_error(error)
        if not isinstance(known, InternalError):
            return _told(known)
        if isinstance(error, OSError) and error.errno in _OF_DISKS:
            forget_output()
            where = error.filename or "standard output or a file"
            click.echo(f"Error: can't write to {where}: {error.strerror}", err=True)
            return ExitCode.FAILED
        traceback.print_exc()
        click.echo("\nThis is a bug in pystreams; please report it with the lines above.", err=True)
        return ExitCode.INTERNAL_ERROR
    # A command ends early with `ctx.exit(code)`, which arrives here as its return value.
    return returned if isinstance(returned, int) else ExitCode.DONE


def _told(error: StreamsError) -> int:
    failure = CommandFailure(error)
    failure.show()
    return failure.exit_code


def _code_of_completion(error: BaseException) -> int:
    """Return what a shell is told that has asked for completions; others have failed."""
    answered = isinstance(error, SystemExit) and error.code == 0 and _COMPLETION in os.environ
    return ExitCode.DONE if answered else ExitCode.FAILED
