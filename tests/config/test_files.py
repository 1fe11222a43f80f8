"""Configuration from files and the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pystreams import ConfigError, StreamsConfig
from pystreams.config import clients, from_environment, read_config_file
from pystreams.config.files import parse_properties

if TYPE_CHECKING:
    from pathlib import Path


def test_toml_with_dotted_keys_and_tables(tmp_path: Path) -> None:
    file = tmp_path / "app.toml"
    file.write_text(
        """
        application.id = "orders"
        bootstrap.servers = ["a:1", "b:2"]
        commit.interval.ms = 250

        [producer]
        linger.ms = 5
        """
    )

    made = StreamsConfig.of(read_config_file(file))

    assert made.application_id == "orders"
    assert made.bootstrap_servers == "a:1,b:2"
    assert made.commit_interval_ms == 250
    assert clients.producer_config(made)["linger.ms"] == 5


def test_properties_as_java_writes_them(tmp_path: Path) -> None:
    file = tmp_path / "app.properties"
    file.write_text(
        "# a comment\n! another\n\n"
        "application.id=orders\n"
        "  bootstrap.servers : a:1,\\\n    b:2\n"
        "poll.ms 7\n"
        "producer.linger.ms = 5\n"
    )

    made = StreamsConfig.of(read_config_file(file))

    assert made.application_id == "orders"
    assert made.bootstrap_servers == "a:1,b:2"
    assert made.poll_ms == 7
    assert clients.producer_config(made)["linger.ms"] == "5"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a=b=c", ("a", "b=c")),
        ("a:b", ("a", "b")),
        ("a", ("a", "")),
        ("a=", ("a", "")),
        (r"a\:b=c", ("a:b", "c")),
        (r"a=\u0041\t\\", ("a", "A\t\\")),
        (r"a=c:\\dir", ("a", r"c:\dir")),
        ("a=b\\\\", ("a", "b\\")),
        ("a=b # no comment", ("a", "b # no comment")),
    ],
)
def test_forms_of_a_property(line: str, expected: tuple[str, str]) -> None:
    assert list(parse_properties(line)) == [(expected[0], expected[1].strip())]


def test_a_continued_last_line_is_kept() -> None:
    assert list(parse_properties("a=b\\")) == [("a", "b")]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: No such file"):
        read_config_file(tmp_path / "nowhere.toml")


def test_wrong_toml_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "app.toml"
    file.write_text("application.id = orders\n")

    with pytest.raises(ConfigError, match=r"app\.toml is not TOML: .*line 1"):
        read_config_file(file)


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "app.properties"
    file.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(ConfigError, match="not UTF-8"):
        read_config_file(file)


def test_variables_name_keys_aliases_and_client_keys() -> None:
    found = from_environment(
        {
            "PYSTREAMS_COMMIT_INTERVAL_MS": "250",
            "PYSTREAMS_CACHE_MAX_BYTES_BUFFERING": "1",
            "PYSTREAMS_CONSUMER_FETCH_MIN_BYTES": "2",
            "PYSTREAMS_SASL_PASSWORD": "p",
            "PYSTREAMS_RACK_AWARE_ASSIGNMENT_NON_OVERLAP_COST": "3",
            "HOME": "/nowhere",
        }
    )

    assert found == {
        "commit.interval.ms": "250",
        "cache.max.bytes.buffering": "1",
        "consumer.fetch.min.bytes": "2",
        "sasl.password": "p",
        "rack.aware.assignment.non_overlap_cost": "3",
    }


def test_variables_of_other_meaning_are_left_alone() -> None:
    """Kubernetes sets the first four for a service named pystreams."""
    found = from_environment(
        {
            "PYSTREAMS_PORT": "tcp://10.0.0.1:80",
            "PYSTREAMS_PORT_80_TCP": "tcp://10.0.0.1:80",
            "PYSTREAMS_SERVICE_HOST": "10.0.0.1",
            "PYSTREAMS_SERVICE_PORT": "80",
            "PYSTREAMS_CACHE_DIR": "/tmp",
            "PYSTREAMS_MAVEN_URL": "https://example.org",
        }
    )

    assert found == {}


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("COMIT_INTERVAL_MS", "COMMIT_INTERVAL_MS"),
        ("SESION_TIMEOUT_MS", "CONSUMER_SESSION_TIMEOUT_MS"),
        ("LINGER_MS", "PRODUCER_LINGER_MS"),
    ],
)
def test_a_misspelt_variable_is_refused(misspelt: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean PYSTREAMS_{meant}"):
        from_environment({f"PYSTREAMS_{misspelt}": "250"})


@pytest.mark.parametrize(
    ("name", "text"),
    [("app.properties", "commit.interval.ms=3\n"), ("app.toml", "commit.interval.ms = 3\n")],
)
def test_a_byte_order_mark_is_no_part_of_the_first_key(
    tmp_path: Path, name: str, text: str
) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8-sig")
    needed = {"application.id": "orders", "bootstrap.servers": "a:1"}
    made = StreamsConfig.of({**needed, **read_config_file(file)})
    assert made.commit_interval_ms == 3
