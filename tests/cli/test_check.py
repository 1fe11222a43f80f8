"""`pystreams check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pystreams.cli.commands.development.check import check
from pystreams.cli.commands.development.describe import describe
from pystreams.runtime.maintenance.earlier_topology import FINGERPRINT_FILE
from tests.deploy.pairs import COUNT, HEAD


@pytest.fixture
def versions(tmp_path: Path) -> tuple[str, str]:
    """The files of two versions, of one name, each with a module of one name beside it."""
    files = []
    for version, code in (("old", COUNT), ("new", COUNT.replace("counts", "totals"))):
        (tmp_path / version).mkdir()
        file = tmp_path / version / "orders.py"
        (file.parent / "beside.py").write_text(HEAD + code)
        file.write_text("from beside import builder\n")
        files.append(str(file))
    return files[0], files[1]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(check, [*arguments])


def test_two_files_are_compared_although_their_modules_have_the_same_names(
    versions: tuple[str, str],
) -> None:
    answer = run(*versions)

    assert answer.exit_code == 1, answer.output
    assert "STARTS EMPTY, OLD DATA ORPHANED: store counts (count at " in answer.stdout
    assert "'totals' seems to be what it was" in answer.stdout


def test_nothing_lost_ends_with_0(versions: tuple[str, str]) -> None:
    answer = run(versions[0], versions[0])

    assert (answer.exit_code, "nothing is lost" in answer.stdout) == (0, True)


def test_what_describe_prints_and_a_state_directory_stand_for_a_topology(
    versions: tuple[str, str], tmp_path: Path
) -> None:
    described = CliRunner().invoke(describe, [versions[0], "--json"]).stdout
    (tmp_path / "deployed.json").write_text(described)
    state = tmp_path / "state" / "app"
    state.mkdir(parents=True)
    (state / FINGERPRINT_FILE).write_text(described)

    for place in ("deployed.json", "state/app", "state"):
        answer = run(str(tmp_path / place), str(tmp_path / "deployed.json"), "--json")
        found = json.loads(answer.stdout)
        assert (answer.exit_code, found["loses"]) == (0, False)
        assert [(each["name"], each["verdict"]) for each in found["judgements"]] == [
            ("counts", "kept")
        ]


@pytest.mark.parametrize(
    "prints",
    [
        "import json; print(json.dumps({'a': {'b': 1}}, indent=2))",
        "import os; os.system('echo loading; echo {; echo }')",
    ],
)
def test_what_a_module_prints_while_it_is_loaded_is_no_hindrance(
    tmp_path: Path, prints: str
) -> None:
    file = tmp_path / "orders.py"
    file.write_text(f"{HEAD}{COUNT}\n{prints}\n")

    answer = run(str(file), str(file))

    assert answer.exit_code == 0, answer.output
    assert "nothing is lost" in answer.stdout


def test_what_a_module_prints_is_not_in_what_describe_prints_for_check(tmp_path: Path) -> None:
    file, deployed = tmp_path / "orders.py", tmp_path / "deployed.json"
    file.write_text(f"{HEAD}{COUNT}\nprint('loading')\n")
    deployed.write_text(CliRunner().invoke(describe, [str(file), "--json"]).stdout)

    answer = run(str(deployed), str(file))

    assert answer.exit_code == 0, answer.output


def test_a_new_topology_that_reads_what_it_writes_is_warned_of_and_loses_nothing(
    tmp_path: Path,
) -> None:
    old, new = tmp_path / "old.py", tmp_path / "new.py"
    old.write_text(HEAD + 'words.to("out")\n')
    new.write_text(HEAD + 'words.to("in")\n')

    told, as_json = run(str(old), str(new)), run(str(old), str(new), "--json")

    assert (told.exit_code, as_json.exit_code) == (0, 0)
    (warning,) = json.loads(as_json.stdout)["warnings"]
    assert f"WARNING: {warning}" in told.stderr
    assert "writes to topic 'in', which the topology reads" in warning
    assert run(str(new), str(old)).stderr == ""


UNNAMED = """
from pystreams import StreamsBuilder
builder = StreamsBuilder()
builder.stream("in").group_by_key().count()
"""
RUN_WITH = ["-c", "application.id=a", "-c", "bootstrap.servers=localhost:9092"]
SERDES = ["-c", "default.key.serde=string", "-c", "default.value.serde=string"]
EXPLICIT = ["-c", "ensure.explicit.internal.resource.naming=true"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([*SERDES, *EXPLICIT], "ensure.explicit.internal.resource.naming is set"),
        ([*RUN_WITH, *SERDES, *EXPLICIT], "ensure.explicit.internal.resource.naming is set"),
        (RUN_WITH, "has no key"),
    ],
)
def test_what_the_start_refuses_with_the_configuration_is_told_and_ends_with_1(
    tmp_path: Path, options: list[str], message: str
) -> None:
    file = tmp_path / "counts.py"
    file.write_text(UNNAMED)

    told, as_json = (
        run(str(file), str(file), *options),
        run(str(file), str(file), "--json", *options),
    )

    assert (told.exit_code, as_json.exit_code) == (1, 1)
    assert told.stdout.startswith("REFUSED AT THE START: ")
    assert message in told.stdout
    assert "nothing is lost" not in told.stdout
    (refused,) = json.loads(as_json.stdout)["refused"]
    assert f"REFUSED AT THE START: {refused}" in told.stdout


def test_serdes_that_are_missing_are_a_warning_where_the_configuration_names_no_broker(
    tmp_path: Path,
) -> None:
    file = tmp_path / "counts.py"
    file.write_text(UNNAMED)

    unknown, known = run(str(file), str(file)), run(str(file), str(file), *RUN_WITH, *SERDES)

    assert (unknown.exit_code, known.exit_code) == (0, 0)
    assert "WARNING: Unless its configuration says otherwise, it will not run" in unknown.stderr
    assert known.stderr == ""


def test_one_topology_without_a_group_is_wrong_usage(versions: tuple[str, str]) -> None:
    for topologies in (versions[:1], (*versions, versions[0])):
        answer = run(*topologies)
        assert answer.exit_code == 2
        assert "name OLD and NEW, or NEW and the --group" in answer.stderr


OPTIMIZED = """
s = words.select_key(lambda key, word: word, key_serde=serdes.STRING)
s.group_by_key().count(name="a").to_stream().to("out", value_serde=serdes.LONG)
s.group_by_key().count(name="b").to_stream().to("out", value_serde=serdes.LONG)
"""


def test_a_configuration_with_a_misspelt_key_is_told_and_nothing_is_compared(
    tmp_path: Path,
) -> None:
    topology, production = tmp_path / "orders.py", tmp_path / "production.toml"
    topology.write_text(HEAD + OPTIMIZED)
    deployed = tmp_path / "deployed.json"
    deployed.write_text(CliRunner().invoke(describe, [str(topology), "--json"]).stdout)
    production.write_text('"topology.optimization" = "all"\n"comit.interval.ms" = 5\n')

    misspelt = run(str(deployed), str(topology), "--config", str(production))
    production.write_text('"topology.optimization" = "all"\n"commit.interval.ms" = 5\n')
    right = run(str(deployed), str(topology), "--config", str(production))

    assert (misspelt.exit_code, misspelt.stdout) == (2, "")
    assert "comit.interval.ms is no configuration key; did you mean" in misspelt.stderr
    assert right.exit_code == 1
    assert "b-repartition" in right.stdout


@pytest.mark.parametrize("wrong", ["nowhere.py", "empty", "other.json", "described.txt"])
def test_what_is_no_topology_ends_with_2(
    versions: tuple[str, str], tmp_path: Path, wrong: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "described.txt").write_text(CliRunner().invoke(describe, [versions[0]]).stdout)

    answer = run(str(tmp_path / wrong), versions[0])

    assert answer.exit_code == 2
    assert wrong in answer.stderr
    assert answer.stderr.count("Error: ") == 1
    assert (wrong == "described.txt") == ("make it again, with --json" in answer.stderr) or (
        wrong == "other.json"
    )


def test_names_can_not_write_lines_of_their_own_or_command_the_terminal(
    versions: tuple[str, str], tmp_path: Path
) -> None:
    described = json.loads(CliRunner().invoke(describe, [versions[0], "--json"]).stdout)
    facts = described["stores"]["counts"]
    facts["declared"], facts["key_serde"]["name"] = "count at \x1b]0;title\x07", "own\x9b2J"
    facts["key_serde"]["format"] = None
    described["stores"]["rows\x1b[2J\nnothing is lost"] = facts
    deployed = tmp_path / "deployed.json"
    deployed.write_text(json.dumps(described))

    shown = run(str(deployed), versions[0]).stdout

    assert r"store rows\x1b[2J\nnothing is lost (count at \x1b]0;title\x07)" in shown
    assert r"were written with own\x9b2J" in shown
    assert all(line.isprintable() for line in shown.splitlines())
    assert "nothing is lost" not in shown.splitlines()
