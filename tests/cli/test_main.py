"""The command's frame: its overview, its errors, its exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from pystreams import BrokerNotAvailableError, ConfigError, StreamsError
from pystreams.cli import main
from pystreams.cli.exit_codes import ExitCode
from tests.broker.waiting import DEADLINE_S
from tests.thread_limits import no_more_threads

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """Run a function as the sub-command `probe`; return the exit code."""

    def run(body: Callable[[], object]) -> int:
        command = click.Command("probe", callback=body)
        monkeypatch.setattr(main.LazyGroup, "get_command", lambda *_arguments: command)
        with pytest.raises(SystemExit) as raised:
            main.main(["probe"])
        assert isinstance(raised.value.code, int)
        return raised.value.code

    return run


def raising(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


def test_error_of_the_world_is_one_message_without_traceback(
    run_command: Callable[[Callable[[], object]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    error = ConfigError("no such key 'bootstrap.server': did you mean 'bootstrap.servers'?")
    error.__cause__ = KeyError("the cause")
    assert run_command(raising(error)) == ExitCode.USAGE

    told = capsys.readouterr().err
    assert told.startswith("Error: no such key 'bootstrap.server': did you mean")
    assert "caused by KeyError: 'the cause'" in told
    assert "Traceback" not in told


def test_words_of_python_about_a_callback_are_no_cause(
    run_command: Callable[[Callable[[], object]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    error = ConfigError("no such key")
    error.__cause__ = SystemError("<function log at 0x7> returned a result with an exception set")
    error.__cause__.__cause__ = KeyError("the cause")
    assert run_command(raising(error)) == ExitCode.USAGE

    told = capsys.readouterr().err
    assert "caused by KeyError: 'the cause'" in told
    assert "SystemError" not in told


def test_bug_shows_its_traceback(
    run_command: Callable[[Callable[[], object]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(raising(ZeroDivisionError("ours"))) == ExitCode.INTERNAL_ERROR
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert "bug in pystreams" in told


def test_threads_that_the_machine_does_not_give_are_no_bug(
    run_command: Callable[[Callable[[], object]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    def body() -> None:
        with no_more_threads():
            threading.Thread(target=print).start()

    assert run_command(body) == ExitCode.FAILED
    told = capsys.readouterr().err
    assert told.startswith("Error: the machine starts no more threads for this process")
    assert "ulimit -u" in told
    assert "pids" in told
    assert "bug" not in told


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
        (StreamsError("told"), ExitCode.FAILED),
        (BrokerNotAvailableError("told"), ExitCode.NOT_RUNNING),
        (click.UsageError("wrong"), ExitCode.USAGE),
    ],
)
def test_exit_code_follows_the_error(
    run_command: Callable[[Callable[[], object]], int], error: BaseException, code: ExitCode
) -> None:
    assert run_command(raising(error)) == code


def test_command_that_returns_ends_with_0(
    run_command: Callable[[Callable[[], object]], int],
) -> None:
    assert run_command(lambda: None) == ExitCode.DONE


def test_command_may_choose_its_exit_code(
    run_command: Callable[[Callable[[], object]], int],
) -> None:
    assert run_command(lambda: click.get_current_context().exit(3)) == ExitCode.NOT_RUNNING


@pytest.mark.parametrize("name", sorted(main.SUB_COMMANDS))
def test_overview_says_what_the_command_says(name: str) -> None:
    """The overview's texts stand apart from the commands, so that `--help` imports none."""
    command = main.LazyGroup().get_command(click.Context(main.pystreams), name)
    assert command is not None
    assert command.get_short_help_str(200) == main.SUB_COMMANDS[name]


def test_the_readme_names_each_command() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    [commands] = [line for line in readme.splitlines() if line.startswith("- **The command line**")]

    assert [name for name in main.SUB_COMMANDS if f"`{name}`" not in commands] == ["new"]
    assert "`pystreams new`" in commands


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["broker", "status", "--help"]])
def test_light_commands_do_not_wait_for_heavy_libraries(arguments: list[str]) -> None:
    heavy = "{'confluent_kafka', 'pyspark', 'rich', 'rocksdict', 'structlog'}"
    script = (
        "import sys\n"
        "from pystreams.cli.main import main\n"
        "try:\n"
        f"    main({arguments})\n"
        "finally:\n"
        f"    print('loaded:', sorted({heavy} & set(sys.modules)))\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "loaded: []" in answer.stdout


def test_unknown_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main.main(["brokr"])
    assert raised.value.code == ExitCode.USAGE
    assert "brokr" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["config"], ["metrics"]])
def test_a_command_whose_output_nobody_reads_ends_like_others_in_a_pipe(
    arguments: list[str],
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "pystreams", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    told = process.stderr.read()
    process.stderr.close()

    assert process.wait(DEADLINE_S) == ExitCode.OUTPUT_CLOSED
    assert told == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here is always full")
@pytest.mark.parametrize("arguments", [["--help"], ["config"], ["metrics", "--markdown"]])
def test_a_disk_that_is_full_is_told_and_is_no_bug(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(
            [sys.executable, "-m", "pystreams", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    why = "can't write to standard output or a file: No space left on device"
    assert answer.stderr == f"Error: {why}\n"
    assert answer.returncode == ExitCode.FAILED


@pytest.mark.parametrize("closed", ["<&- >&-", ">&-", "<&- >&- 2>&-"])
def test_a_command_without_standard_output_does_what_it_does(closed: str) -> None:
    command = f"exec {sys.executable} -m pystreams config commit.interval.ms {closed}"

    answer = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)

    assert (answer.returncode, answer.stderr) == (ExitCode.DONE, "")


CRASH = """\
import os, resource, signal
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.kill(os.getpid(), signal.SIGSEGV)
"""


def test_a_crash_of_native_code_says_where_it_came(tmp_path: Path) -> None:
    file = tmp_path / "crashing.py"
    file.write_text(CRASH)
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONFAULTHANDLER"
    }

    ended = subprocess.run(
        [sys.executable, "-m", "pystreams", "describe", str(file)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in ended.stderr
    assert f'File "{file}", line 3' in ended.stderr


NO_UTF_8 = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
PROBE = r"""
import click
from pystreams.cli import main

probe = click.Command("probe", callback=lambda: print("gr\xfcn \u2192 \U0001f600"))
main.LazyGroup.get_command = lambda *_: probe
main.main(["probe"])
"""


@pytest.mark.parametrize(
    ("environment", "written"),
    [
        (NO_UTF_8, "grün → 😀\n"),
        (NO_UTF_8 | {"PYTHONIOENCODING": "ascii"}, "gr\\xfcn \\u2192 \\U0001f600\n"),
    ],
)
def test_what_is_printed_is_utf_8_or_escaped_where_the_locale_has_no_such_letters(
    environment: dict[str, str], written: str
) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", PROBE],
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
    )

    assert answer.stdout.decode() == written
    assert answer.returncode == ExitCode.DONE
