"""The configuration as a whole: names, defaults, what is refused, and how it is told."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pystreams import ConfigError, IsolationLevel, ProcessingGuarantee, StreamsConfig, serdes
from pystreams.config import KEY_DEFINITIONS, GroupProtocol, Source

if TYPE_CHECKING:
    from collections.abc import Callable

REQUIRED = {"application.id": "orders", "bootstrap.servers": "localhost:9092"}


def config(**keywords: object) -> StreamsConfig:
    return StreamsConfig.of(REQUIRED, **keywords)


def problems(values: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as raised:
        StreamsConfig.of(REQUIRED | values)
    return str(raised.value)


def test_defaults_are_kafkas() -> None:
    made = config()

    assert made.commit_interval_ms == 30_000
    assert made.statestore_cache_max_bytes == 10_485_760
    assert made.statestore_uncommitted_max_bytes == 67_108_864
    assert made.num_stream_threads == 1
    assert made.max_task_idle_ms == 0
    assert made.buffered_records_per_partition == 1000
    assert made.input_buffer_max_bytes == 512 << 20
    assert made.output_buffer_max_bytes == 128 << 20
    assert made.poll_ms == 100
    assert made.task_timeout_ms == 300_000
    assert made.repartition_purge_interval_ms == 30_000
    assert made.log_summary_interval_ms == 120_000
    assert made.replication_factor == -1
    assert made.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE
    assert made.group_protocol is GroupProtocol.CLASSIC
    assert made.default_state_isolation_level is IsolationLevel.READ_UNCOMMITTED
    assert made.default_key_serde is None
    assert made.overrides == {}
    assert made.ignored == ()


@pytest.mark.parametrize("guarantee", ["exactly_once", "exactly_once_v2"])
def test_exactly_once_commits_faster_and_isolates_queries(guarantee: str) -> None:
    made = config(processing_guarantee=guarantee)

    assert made.exactly_once
    assert made.commit_interval_ms == 100
    assert made.default_state_isolation_level is IsolationLevel.READ_COMMITTED


def test_exactly_once_leaves_what_was_set() -> None:
    made = config(
        processing_guarantee="exactly_once",
        commit_interval_ms=5000,
        default_state_isolation_level="READ_UNCOMMITTED",
    )

    assert made.commit_interval_ms == 5000
    assert made.default_state_isolation_level is IsolationLevel.READ_UNCOMMITTED


def test_values_of_a_file_are_parsed_by_type() -> None:
    made = StreamsConfig.of(
        REQUIRED
        | {
            "commit.interval.ms": "250",
            "enable.metrics.push": "FALSE",
            "processing.guarantee": "Exactly_Once",
            "state.dir": "/var/lib/orders",
            "default.key.serde": "string",
            "default.value.serde": "org.apache.kafka.common.serialization.Serdes$LongSerde",
            "deserialization.exception.handler": (
                "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler"
            ),
            "default.timestamp.extractor": (
                "org.apache.kafka.streams.processor.WallclockTimestampExtractor"
            ),
        }
    )

    assert made.commit_interval_ms == 250
    assert made.enable_metrics_push is False
    assert made.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE
    assert made.state_dir == Path("/var/lib/orders")
    assert made.default_key_serde is serdes.STRING
    assert made.default_value_serde is serdes.LONG
    assert made.deserialization_exception_handler == "continue"
    assert made.default_timestamp_extractor == "wallclock_timestamp"


def test_functions_and_serdes_are_objects_or_named_by_module() -> None:
    def handler(context: object, error: Exception) -> object:
        return context, error

    made = config(
        processing_exception_handler=handler,
        production_exception_handler="json:dumps",
        default_key_serde=serdes.UUID,
        default_value_serde="pystreams.serdes:JSON",
        rocksdb_config_setter=handler,
    )

    import json

    assert made.processing_exception_handler is handler
    assert made.production_exception_handler is json.dumps
    assert made.default_key_serde is serdes.UUID
    assert made.default_value_serde is serdes.JSON
    assert made.rocksdb_config_setter is handler


def test_keywords_win_over_the_mapping_and_none_is_not_set() -> None:
    made = StreamsConfig.of(
        REQUIRED | {"poll.ms": 5, "commit.interval.ms": None}, poll_ms=7, client_id=None
    )

    assert made.poll_ms == 7
    assert made.commit_interval_ms == 30_000
    assert made.client_id == ""


def test_servers_may_be_a_list() -> None:
    made = config(bootstrap_servers=["a:1", " b:2"])

    assert made.bootstrap_servers == "a:1,b:2"


def test_a_listener_is_named_by_its_host_and_port_alone_as_java_reads_it() -> None:
    made = config(bootstrap_servers="PLAINTEXT://a:1,sasl_ssl://[::1]:2")

    assert made.bootstrap_servers == "a:1,[::1]:2"


def test_the_configuration_can_not_be_changed() -> None:
    made = config()

    with pytest.raises(dataclasses.FrozenInstanceError):
        made.poll_ms = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        made.overrides["producer.acks"] = 0  # type: ignore[index]


def test_all_problems_are_told_at_once_with_their_place() -> None:
    with pytest.raises(ConfigError) as raised:
        StreamsConfig.from_sources(
            [
                Source("-c", {"comit.interval.ms": "1"}),
                Source("app.toml", {"poll.ms": "1s", "num": {"stream": {"threads": 0}}}),
            ]
        )

    assert str(raised.value).splitlines() == [
        "configuration: 5 problems",
        "  - comit.interval.ms is no configuration key; did you mean commit.interval.ms? (from -c)",
        "  - poll.ms = '1s' is not a whole number (plain digits, no unit) (from app.toml)",
        "  - num.stream.threads = 0 is out of range: at least 1 (from app.toml)",
        "  - application.id is required and not set",
        "  - bootstrap.servers is required and not set",
    ]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("application.id", "my app", "does not fit: letters, digits"),
        ("application.id", "..", "does not fit: letters, digits"),
        ("application.id", "", "is empty"),
        ("bootstrap.servers", "localhost", "is not host:port"),
        ("bootstrap.servers", "localhost:99999", "is not host:port"),
        ("bootstrap.servers", " , ", "names no server"),
        ("bootstrap.servers", "http://a:9092", "which is not host:port: leave out http://"),
        ("bootstrap.servers", "a:1,https://a", "which is not host:port: leave out https://"),
        ("bootstrap.servers", "kafka://a:9092", "leave out kafka://"),
        ("application.server", "localhost", "is not HOST:PORT"),
        ("application.server", "localhost:99999", "is not HOST:PORT"),
        ("application.server", "orders-0..svc:8080", "is not HOST:PORT"),
        ("application.server", ".svc:8080", "is not HOST:PORT"),
        ("application.server", "x" * 64 + ".svc:8080", "is not HOST:PORT"),
        ("commit.interval.ms", -1, "is out of range"),
        ("commit.interval.ms", True, "is not a whole number"),
        ("commit.interval.ms", 1.5, "is not a whole number"),
        ("processing.guarantee", "exactly_once_beta", "use exactly_once_v2"),
        ("processing.guarantee", "most", "is none of: at_least_once, exactly_once"),
        ("group.protocol", "streams", "librdkafka does not speak the streams protocol"),
        ("enable.metrics.push", "yes", "is neither true nor false"),
        ("default.key.serde", "avro", "is no serde: bytes, string"),
        ("default.key.serde", int, "has no serializer()"),
        ("default.key.serde", "no_such_module:SERDE", "can't be imported"),
        ("default.key.serde", "pystreams.serdes:NONE", "no 'NONE' in pystreams.serdes"),
        ("processing.exception.handler", "ignore", "is none of: fail, continue"),
        ("processing.exception.handler", 3, "can't be called"),
        ("state.dir", 3, "is not the path of a directory"),
        ("client.id", 3, "is not text"),
        ("num.standby.replicas", -1, "is out of range: at least 0"),
        ("acceptable.recovery.lag", -1, "is out of range: at least 0"),
        ("max.warmup.replicas", 1, "set acceptable.recovery.lag"),
        ("topology.optimization", "all, merge.repartition.topics", "is not: none, all, or some of"),
        ("enable.transactional.statestores", "false", "Materialized(transactional=False)"),
        ("fetch.min.bytes", 1, "did you mean consumer.fetch.min.bytes?"),
        ("sesion.timeout.ms", 1, "did you mean consumer.session.timeout.ms?"),
        ("consumr.session.timeout.ms", 1, "did you mean consumer.session.timeout.ms?"),
        ("max_poll_interval_ms", 1, "did you mean consumer.max.poll.interval.ms?"),
        ("compresion.type", "lz4", "did you mean producer.compression.type?"),
        ("segment.bytes", 1, "did you mean topic.segment.bytes?"),
        ("group.id", "orders", "is no configuration key: it is the application.id"),
        ("sticky.partitioning", 1, "keys of the Kafka clients need a prefix"),
        ("statestore_cache_max_byte", 1, "did you mean statestore.cache.max.bytes?"),
        ("producer.acks", ["all"], "must be text, a number, or true or false"),
    ],
)
def test_wrong_values_are_refused_with_the_reason(key: str, value: object, reason: str) -> None:
    told = problems({key: value})

    assert key in told
    assert reason in told


@pytest.mark.parametrize(
    ("alias", "field", "value"),
    [
        ("cache.max.bytes.buffering", "statestore_cache_max_bytes", 7),
        ("default.production.exception.handler", "production_exception_handler", "continue"),
        ("consumer.max.poll.records", "max_poll_records", 7),
        (
            "default.interactive.query.isolation.level",
            "default_state_isolation_level",
            IsolationLevel.READ_COMMITTED,
        ),
    ],
)
def test_an_alias_is_its_key(alias: str, field: str, value: object) -> None:
    made = StreamsConfig.of(REQUIRED | {alias: value})

    assert getattr(made, field) == value


def test_an_alias_in_a_stronger_source_wins_over_the_key_in_a_weaker_one() -> None:
    made = StreamsConfig.from_sources(
        [
            Source("-c", {"cache.max.bytes.buffering": 1}),
            Source("file", REQUIRED | {"statestore.cache.max.bytes": 2}),
        ]
    )

    assert made.statestore_cache_max_bytes == 1


def test_a_key_and_its_alias_must_not_contradict_each_other() -> None:
    told = problems({"cache.max.bytes.buffering": 1, "statestore.cache.max.bytes": 2})

    assert "they are one key" in told


def test_a_value_that_changes_nothing_is_accepted_for_an_unsupported_key() -> None:
    made = config(num_standby_replicas=0, enable_transactional_statestores=True)

    assert made.ignored == ()


def test_a_key_without_effect_is_accepted_and_reported() -> None:
    made = config(built_in_metrics_version="latest")

    assert made.ignored == ("built_in_metrics_version: metrics are not Java's",)


def test_a_transaction_must_outlive_the_commit_interval() -> None:
    told = problems({"processing.guarantee": "exactly_once", "commit.interval.ms": 20_000})

    assert "commit.interval.ms = 20000 is longer than" in told


def test_a_longer_transaction_allows_a_longer_commit_interval() -> None:
    made = StreamsConfig.of(
        REQUIRED,
        processing_guarantee="exactly_once",
        commit_interval_ms=20_000,
        producer={"transaction.timeout.ms": "60000"},
    )

    assert made.transaction_timeout_ms == 60_000


@pytest.mark.parametrize("interval_ms", [3000, 6000])
def test_a_session_must_outlive_the_pause_between_two_heartbeats(interval_ms: int) -> None:
    told = problems(
        {"consumer.session.timeout.ms": 3000, "consumer.heartbeat.interval.ms": interval_ms}
    )

    assert f"heartbeat.interval.ms = {interval_ms} is not below" in told
    assert "session.timeout.ms = 3000" in told


@pytest.mark.parametrize(
    "given", [[("sasl.password", "hunter2")], "sasl.password=hunter2", {"sasl.password=hunter2"}]
)
def test_what_is_no_mapping_is_refused_without_showing_it(given: Any) -> None:
    with pytest.raises(ConfigError, match="a configuration is a mapping") as raised:
        StreamsConfig.of(given)

    assert f"is given as {type(given).__name__}" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_secrets_are_never_shown() -> None:
    made = StreamsConfig.of(REQUIRED | {"sasl.password": "hunter2", "ssl.key.password": "hunter2"})
    told = problems({"saslpassword": "hunter2", "sasl.password": ["hunter2"]})

    assert "hunter2" not in repr(made)
    assert "hunter2" not in told


def test_every_definition_is_a_field_with_a_meaning_and_a_default_of_its_kind() -> None:
    fields = {field.name for field in dataclasses.fields(StreamsConfig)}
    for definition in KEY_DEFINITIONS:
        assert definition.field in fields
        assert definition.doc.endswith(".")
        if not definition.required and definition.default is not None:
            parse: Callable[[Any], Any] = definition.kind.parse
            assert parse(definition.default) == definition.default
