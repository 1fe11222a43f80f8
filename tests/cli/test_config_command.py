"""`pystreams config`, and the reference page it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pystreams.cli.commands.development.config import config
from pystreams.cli.display.configuration_page import reference_page
from pystreams.config import KEY_DEFINITIONS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def test_the_reference_page_is_current() -> None:
    hint = "run: pystreams config --markdown > docs/reference/configuration.md"
    assert PAGE.read_text("utf-8") == reference_page(), hint


def test_markdown_is_the_reference_page() -> None:
    answer = CliRunner().invoke(config, ["--markdown"])

    assert answer.exit_code == 0
    assert answer.stdout == reference_page()


def test_rows_of_the_page_have_one_cell_a_column() -> None:
    for line in reference_page().splitlines():
        if line.startswith("| `"):
            assert line.replace("\\|", "").count("|") in {3, 4, 5}, line


def test_the_table_lists_every_key() -> None:
    answer = CliRunner().invoke(config)

    assert answer.exit_code == 0
    first_words = {line.split()[0] for line in answer.stdout.splitlines() if line.strip()}
    assert {definition.name for definition in KEY_DEFINITIONS} <= first_words


@pytest.mark.parametrize("columns", ["80", "40"])
def test_on_a_narrow_terminal_meanings_stand_below_their_keys_in_whole_words(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    answer = CliRunner().invoke(config)

    listed = answer.stdout.splitlines()
    where = listed.index("application.id  string, required")
    told = [line.strip() for line in listed[where + 1 : listed.index("", where)]]
    (definition,) = (key for key in KEY_DEFINITIONS if key.name == "application.id")
    assert " ".join(told) == definition.doc
    assert max(map(len, told)) <= int(columns)
    assert {key.name for key in KEY_DEFINITIONS} <= {line.split("  ")[0] for line in listed}


@pytest.mark.parametrize(
    "form", ["commit.interval.ms", "commit_interval_ms", "PYSTREAMS_COMMIT_INTERVAL_MS"]
)
def test_one_key_is_explained_in_any_form(form: str) -> None:
    answer = CliRunner().invoke(config, [form])

    assert answer.exit_code == 0
    assert answer.stdout.startswith("commit.interval.ms\n")
    assert "30000; 100 under exactly-once" in answer.stdout
    assert "PYSTREAMS_COMMIT_INTERVAL_MS" in answer.stdout


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("cache.max.bytes.buffering", "statestore.cache.max.bytes\n"),
        (
            "max.warmup.replicas",
            "Not supported: a process that comes warms up all that comes to it",
        ),
        ("rack.aware.assignment.non_overlap_cost", "Not supported: rack-aware"),
        ("built.in.metrics.version", "Accepted without effect"),
    ],
)
def test_other_keys_of_kafka_streams_are_explained_too(key: str, told: str) -> None:
    answer = CliRunner().invoke(config, [key])

    assert answer.exit_code == 0
    assert told in answer.stdout


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("consumer.auto.offset.reset", "Passed on to all consumers, as auto.offset.reset."),
        (
            "PYSTREAMS_MAIN_CONSUMER_AUTO_OFFSET_RESET",
            "to the consumer of the input, as auto.offset",
        ),
        ("consumer.fetch.max.wait.ms", "all consumers, as fetch.wait.max.ms."),
        ("topic.segment.bytes", "Passed on to the internal topics themselves, as segment.bytes."),
        ("group.id", "Can't be set: it is the application.id"),
        ("consumer.group.id", "Can't be overridden: it is the application.id"),
        (
            "producer.buffer.memory",
            "Is not known to the Kafka client: use queue.buffering.max.kbytes",
        ),
        ("sasl.username", "Passed on to all clients, as sasl.username."),
        ("client.rack", "Passed on to all clients, as client.rack."),
        (
            "sasl.jaas.config",
            "Is not known to the Kafka client: use sasl.username and sasl.password",
        ),
        ("consumer.isolation.level", "Under exactly-once it can't be overridden"),
        ("client.tag.zone", "Not supported: standbys are placed by"),
    ],
)
def test_keys_of_the_clients_are_explained_by_what_becomes_of_them(key: str, told: str) -> None:
    answer = CliRunner().invoke(config, [key])

    assert answer.exit_code == 0, answer.output
    assert told in answer.stdout


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("comit.interval.ms", "commit.interval.ms"),
        ("auto.offset.reset", "consumer.auto.offset.reset"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(key: str, meant: str) -> None:
    answer = CliRunner().invoke(config, [key])

    assert answer.exit_code == 2
    assert f"did you mean {meant}" in answer.stderr
