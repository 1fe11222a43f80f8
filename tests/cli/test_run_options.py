"""`pystreams run`: where its configuration comes from, and what it refuses before it starts."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner, Result

from pystreams import ConfigError, StreamsConfig, Topology
from pystreams.cli.application import development_broker
from pystreams.cli.application.configuration import configuration
from pystreams.cli.application.topology_loader import LoadedTopology
from pystreams.cli.commands.applications.run import RunOptions, configuration_of_run, run
from pystreams.cli.options.groups import ApplicationOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENTED_CODES = Path(__file__).parents[2] / "docs" / "reference" / "exit-codes.md"


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for variable in [name for name in os.environ if name.startswith("PYSTREAMS_")]:
        monkeypatch.delenv(variable)


@pytest.fixture(autouse=True)
def restored_imports() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("user_"):
            del sys.modules[name]


def options(
    *settings: str, dev: bool = False, config_file: Path | None = None
) -> ApplicationOptions:
    return ApplicationOptions("flow.py", dev, settings, config_file)


@pytest.mark.parametrize("way", ["options", "file", "environment"])
def test_what_is_missing_is_given_in_the_ways_that_the_error_tells(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = LoadedTopology(Topology(), "flow", {})
    with pytest.raises(ConfigError) as raised:
        configuration(options(), loaded)
    told = str(raised.value).splitlines()[-1]
    values = {"application.id": "flow", "bootstrap.servers": "a:1"}
    variables = {"PYSTREAMS_APPLICATION_ID": "flow", "PYSTREAMS_BOOTSTRAP_SERVERS": "a:1"}
    file = None
    given: list[str] = []
    if way == "options":
        given = [f"{key}={values[key]}" for key in re.findall(r"-c (\S+)=\.\.\.", told)]
    elif way == "file":
        assert "--config FILE" in told
        file = tmp_path / "app.toml"
        file.write_text("".join(f'"{key}" = "{value}"\n' for key, value in values.items()))
    else:
        for variable in re.findall(r"PYSTREAMS_\w+", told):
            monkeypatch.setenv(variable, variables[variable])

    assert configuration(options(*given, config_file=file), loaded).bootstrap_servers == "a:1"


def loaded(name: str = "flow", /, **config: object) -> LoadedTopology:
    dotted = {key.replace("_", "."): value for key, value in config.items()}
    return LoadedTopology(Topology(), name, dotted)


def test_sources_from_the_strongest_to_the_weakest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "app.toml"
    file.write_text("application.id = 'file'\npoll.ms = 3\nclient.id = 'file'\n")
    monkeypatch.setenv("PYSTREAMS_POLL_MS", "2")
    monkeypatch.setenv("PYSTREAMS_CLIENT_ID", "environment")

    made = configuration(
        options("poll.ms=1", config_file=file),
        loaded(poll_ms=4, client_id="module", application_id="module", bootstrap_servers="m:1"),
    )

    assert made.poll_ms == 1
    assert made.client_id == "environment"
    assert made.application_id == "file"
    assert made.bootstrap_servers == "m:1"


def test_an_error_names_the_source(tmp_path: Path) -> None:
    file = tmp_path / "app.toml"
    file.write_text("poll.ms = 'x'\n")

    with pytest.raises(ConfigError, match=rf"from {file}"):
        configuration(options(config_file=file), loaded())


def test_threads_is_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    made = run_configuration(RunOptions(threads=3))

    assert made.num_stream_threads == 3


def test_a_value_may_hold_an_equals_sign() -> None:
    made = configuration(
        options("sasl.password=a=b", "application.id=a", "bootstrap.servers=b:1"), loaded()
    )

    assert made.overrides["sasl.password"] == "a=b"


@pytest.mark.parametrize("setting", ["poll.ms", "=3", " =3"])
def test_a_setting_needs_key_and_value(setting: str) -> None:
    with pytest.raises(click.UsageError, match="write KEY=VALUE"):
        configuration(options(setting), loaded())


@pytest.mark.parametrize(
    "setting", ["sasl.password hunter2", "sasl.password:hunter2==", " hunter2", "hunter2"]
)
def test_what_may_be_a_secret_is_not_repeated(setting: str) -> None:
    with pytest.raises(click.UsageError, match=r"-c .*\.\.\.: write KEY=VALUE") as raised:
        configuration(options(setting), loaded())

    assert "hunter2" not in raised.value.message


def test_dev_names_broker_and_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(development_broker, "bootstrap_servers", lambda: "127.0.0.1:29092")
    monkeypatch.setenv("PYSTREAMS_BOOTSTRAP_SERVERS", "production:9092")

    made = configuration(options(dev=True), loaded("my flow"))

    assert made.bootstrap_servers == "127.0.0.1:29092"
    assert made.application_id == "my-flow"


def test_dev_keeps_the_application_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(development_broker, "bootstrap_servers", lambda: "127.0.0.1:29092")

    made = configuration(options(dev=True), loaded(application_id="orders"))

    assert made.application_id == "orders"


def test_dev_and_a_named_broker_contradict_each_other() -> None:
    with pytest.raises(click.UsageError, match="use one"):
        configuration(options("bootstrap.servers=a:1", dev=True), loaded())


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(run, list(arguments))


@pytest.fixture
def flow(tmp_path: Path) -> str:
    file = tmp_path / "user_flow.py"
    file.write_text(
        "from pystreams.topology.graph.topology import Topology\n"
        "topology = Topology()\n"
        "topology.add_source('source', 'in')\n"
        "config = {'default.key.serde': 'bytes', 'default.value.serde': 'bytes'}\n"
    )
    return str(file)


def test_a_wrong_configuration_is_wrong_usage(flow: str) -> None:
    answer = invoke(flow, "-c", "comit.interval.ms=1")

    assert answer.exit_code == 2
    assert "comit.interval.ms is no configuration key; did you mean" in answer.stderr
    assert "(from -c)" in answer.stderr
    assert "Traceback" not in answer.output


def test_a_missing_serde_is_wrong_usage_and_nothing_starts(flow: str) -> None:
    file = Path(flow)
    file.write_text(file.read_text().partition("config =")[0])
    keys = ["-c", "application.id=a", "-c", "bootstrap.servers=127.0.0.1:1"]

    for more in ([], ["--processes", "2"]):
        answer = invoke(flow, *keys, *more)

        assert answer.exit_code == 2
        told = f"add_source(...) at {flow}:3: source 'source' (in) has no key serde"
        assert answer.stderr.count(told) == 1
        assert "Traceback" not in answer.output


def test_a_missing_file_is_wrong_usage() -> None:
    answer = invoke("nowhere.py")

    assert answer.exit_code == 2
    assert "nowhere.py does not exist" in answer.stderr


@pytest.mark.parametrize("arguments", [["--processes", "0"], ["--threads", "0"], ["--config", "x"]])
def test_wrong_options_are_wrong_usage(flow: str, arguments: list[str]) -> None:
    assert invoke(flow, *arguments).exit_code == 2


@pytest.mark.parametrize(
    ("option", "value", "setting"),
    [
        ("--threads", "2", "num.stream.threads=3"),
        ("--threads", "2", "num_stream_threads=3"),
        ("--metrics-port", "9464", "metrics.prometheus.port=9465"),
        ("--metrics-host", "0.0.0.0", "metrics.prometheus.host=127.0.0.1"),
    ],
)
def test_an_option_and_its_key_that_say_two_things_are_refused(
    flow: str, option: str, value: str, setting: str
) -> None:
    keys = ["-c", "application.id=a", "-c", "bootstrap.servers=127.0.0.1:1"]
    answer = invoke(flow, *keys, option, value, "-c", setting)

    assert answer.exit_code == 2
    assert f"{option} {value} and -c {setting} contradict: give one of them" in answer.stderr


def test_an_option_and_its_key_may_say_the_same() -> None:
    made = run_configuration(RunOptions(threads=3), "num.stream.threads=3")

    assert made.num_stream_threads == 3


def test_an_address_for_metrics_that_are_not_served_is_wrong_usage(flow: str) -> None:
    keys = ["-c", "application.id=a", "-c", "bootstrap.servers=127.0.0.1:1"]
    answer = invoke(flow, *keys, "--metrics-host", "127.0.0.1")

    assert answer.exit_code == 2
    assert "--metrics-host is for --metrics-port" in answer.stderr


def test_a_metrics_port_in_use_is_wrong_usage_and_nothing_starts(flow: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        keys = ["-c", "application.id=a", "-c", "bootstrap.servers=127.0.0.1:1"]
        answer = invoke(flow, *keys, "--metrics-port", str(port))

    assert answer.exit_code == 2
    assert f"127.0.0.1:{port}: the port is in use; set metrics.prometheus.port" in answer.stderr
    assert "Traceback" not in answer.output


def test_help_and_the_reference_tell_the_same_exit_codes() -> None:
    told = invoke("--help").stdout
    page = DOCUMENTED_CODES.read_text("utf-8")

    for code in ("0", "1", "2", "3", "70", "130", "141", "143"):
        assert code in told
        assert f"| {code} |" in page
    assert "--process-number" not in told


def run_configuration(chosen: RunOptions, *settings: str, **config: object) -> StreamsConfig:
    given = options("application.id=a", "bootstrap.servers=b:1", *settings)
    return configuration_of_run(given, chosen, loaded(**config))


def test_metrics_port_and_host_are_short_for_keys() -> None:
    made = run_configuration(RunOptions(metrics_port=9464, metrics_host="0.0.0.0"))

    assert made.metrics_prometheus_port == 9464
    assert made.metrics_prometheus_host == "0.0.0.0"


def test_metrics_are_served_nowhere_unless_asked_for_and_to_this_machine_only() -> None:
    made = run_configuration(RunOptions())

    assert made.metrics_prometheus_port == -1
    assert made.metrics_prometheus_host == "127.0.0.1"


@pytest.mark.parametrize(
    ("port", "ports"), [(9464, [9464, 9465, 9466]), (0, [0, 0, 0]), (-1, [-1, -1, -1])]
)
def test_each_of_several_processes_has_a_metrics_port_of_its_own(
    port: int, ports: list[int]
) -> None:
    made = [
        run_configuration(
            RunOptions(processes=3, process_number=number), metrics_prometheus_port=port
        )
        for number in (1, 2, 3)
    ]

    assert [config.metrics_prometheus_port for config in made] == ports


@pytest.mark.parametrize(
    ("first", "told"),
    [
        ("orders-1:8080", ["orders-1:8080", "orders-1:8081", "orders-1:8082"]),
        ("[fd00::1]:8080", ["[fd00::1]:8080", "[fd00::1]:8081", "[fd00::1]:8082"]),
        ("", ["", "", ""]),
    ],
)
def test_each_of_several_processes_tells_the_group_an_address_of_its_own(
    first: str, told: list[str]
) -> None:
    made = [
        run_configuration(RunOptions(processes=3, process_number=number), application_server=first)
        for number in (1, 2, 3)
    ]

    assert [config.application_server for config in made] == told


def test_a_process_alone_tells_the_group_the_address_as_it_is() -> None:
    made = run_configuration(RunOptions(), application_server="orders-1:65535")

    assert made.application_server == "orders-1:65535"


@pytest.mark.parametrize("address", ["orders-1:0", "orders-1", ":8080"])
def test_an_address_for_the_group_that_is_none_is_refused_for_several_processes_too(
    address: str,
) -> None:
    for options_of in (RunOptions(), RunOptions(processes=3)):
        with pytest.raises(ConfigError, match="is not HOST:PORT"):
            run_configuration(options_of, application_server=address)


def test_an_address_for_the_group_without_room_for_all_processes_is_refused() -> None:
    with pytest.raises(click.UsageError, match="orders-1:65534 leaves no ports for 3 processes"):
        run_configuration(RunOptions(processes=3), application_server="orders-1:65534")


def test_a_metrics_port_without_room_for_all_processes_is_refused() -> None:
    with pytest.raises(click.UsageError, match="leaves no ports for 3 processes"):
        run_configuration(RunOptions(processes=3, metrics_port=65_534))
