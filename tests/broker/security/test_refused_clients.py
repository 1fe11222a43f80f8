"""What a broker refuses, or a client distrusts, ends the application soon, with cause and cure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from pystreams import AuthenticationError, FatalStreamsError, StreamsConfig, TopicPartition
from pystreams.cli.errors import exit_code_of
from pystreams.cli.exit_codes import ExitCode
from pystreams.runtime.adapters.administering.confluent_admin import ConfluentAdmin
from pystreams.runtime.adapters.client_factory import ConfluentClients
from tests.broker.application import Application, Running
from tests.broker.programs import write_counts
from tests.broker.reading import produce, read_all
from tests.broker.security.secured_broker import (
    GUEST,
    GUEST_PASSWORD,
    PASSWORD,
    USER,
    SecuredBroker,
)
from tests.variants import first_of

Settings = Mapping[str, str]


@dataclass(frozen=True)
class Mistake:
    """A wrong configuration.

    Attributes:
        listener: Which of the broker's listeners it is for.
        wrong: The configuration.
        right: What the cure says to set.
        told: What the message has to say, as a regular expression.
    """

    listener: str
    wrong: Callable[[SecuredBroker], Settings]
    right: Callable[[SecuredBroker], Settings]
    told: str


def as_user(protocol: str = "SASL_PLAINTEXT", mechanism: str = "PLAIN") -> dict[str, str]:
    return {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }


def trusting(broker: SecuredBroker, protocol: str = "SSL") -> dict[str, str]:
    return {"security.protocol": protocol, "ssl.ca.location": str(broker.ca)}


def by_its_address(broker: SecuredBroker) -> str:
    return broker.tls.replace("localhost", "127.0.0.1")


MISTAKES = {
    "wrong password": Mistake(
        "sasl",
        lambda _: as_user() | {"sasl.password": "wrong"},
        lambda _: {"sasl.password": PASSWORD},
        r"refuses user 'alice' \(PLAIN\) \(.*Invalid username or password.*sasl\.password",
    ),
    "unknown user": Mistake(
        "sasl",
        lambda _: as_user(mechanism="SCRAM-SHA-256") | {"sasl.username": "nobody"},
        lambda _: {"sasl.username": USER},
        r"refuses user 'nobody' \(SCRAM-SHA-256\) \(.*correct sasl\.username",
    ),
    "unknown mechanism": Mistake(
        "sasl",
        lambda _: as_user(mechanism="SCRAM-SHA-512"),
        lambda _: {"sasl.mechanism": "SCRAM-SHA-256"},
        r"sasl\.mechanism=SCRAM-SHA-512 \(.*PLAIN,SCRAM-SHA-256\): set sasl\.mechanism",
    ),
    "untrusted authority": Mistake(
        "tls",
        lambda broker: trusting(broker) | {"ssl.ca.location": str(broker.other_ca)},
        trusting,
        r"certificate of broker .* is not trusted \(.*issuer.*\): set ssl\.ca\.location",
    ),
    "no authority": Mistake(
        "tls",
        lambda _: {"security.protocol": "SSL"},
        trusting,
        r"certificate of broker .* is not trusted \(.*\): set ssl\.ca\.location",
    ),
    "certificate of another host": Mistake(
        "tls",
        lambda broker: trusting(broker) | {"bootstrap.servers": by_its_address(broker)},
        lambda broker: {"bootstrap.servers": broker.tls},
        r"not trusted \(IP address mismatch.*127\.0\.0\.1.*\): name the broker in bootstrap",
    ),
    "that check turned off": Mistake(
        "tls",
        lambda broker: trusting(broker) | {"bootstrap.servers": by_its_address(broker)},
        lambda _: {"ssl.endpoint.identification.algorithm": "none"},
        r"ssl\.endpoint\.identification\.algorithm=none does without",
    ),
    "plain text to TLS": Mistake(
        "tls",
        lambda _: {},
        trusting,
        r"expects TLS at this port \(.*closed by peer.*\): set security\.protocol=SSL",
    ),
    "a user without TLS to TLS": Mistake(
        "sasl_tls",
        lambda _: as_user(),
        lambda broker: trusting(broker, "SASL_SSL"),
        r"expects TLS at this port \(.*closed by peer.*\): set security\.protocol=SASL_SSL",
    ),
    "TLS to plain text": Mistake(
        "plaintext",
        trusting,
        lambda _: {"security.protocol": "PLAINTEXT"},
        r"does not speak TLS at this port \(.*\): set security\.protocol=PLAINTEXT",
    ),
    "no user": Mistake(
        "sasl",
        lambda _: {},
        lambda _: as_user(),
        r"takes no request without a user .* set security\.protocol=SASL_PLAINTEXT",
    ),
    "no user over TLS": Mistake(
        "sasl_tls",
        trusting,
        lambda _: as_user("SASL_SSL"),
        r"takes no request without a user .* set security\.protocol=SASL_SSL",
    ),
    "a user where none is asked for": Mistake(
        "tls",
        lambda broker: as_user() | trusting(broker, "SASL_SSL"),
        lambda _: {"security.protocol": "SSL"},
        r"asks for no user at this port \(.*\): set security\.protocol=SSL",
    ),
    "a certificate of the client is asked for": Mistake(
        "mutual_tls",
        trusting,
        lambda broker: broker.client_certificate,
        r"asks for the client's certificate, set\s+ssl\.certificate\.location",
    ),
}


def admin_of(settings: Settings) -> ConfluentAdmin:
    return ConfluentClients(StreamsConfig.of({"application.id": "app", **settings})).admin()


def settings_of(secured: SecuredBroker, mistake: Mistake) -> dict[str, str]:
    servers = {"bootstrap.servers": getattr(secured, mistake.listener)}
    return servers | dict(mistake.wrong(secured))


@pytest.fixture(scope="module")
def outcomes(secured: SecuredBroker) -> dict[str, Future[dict[str, int]]]:
    """What became of each mistake: made side by side, as each waits until it is certain."""

    def make(mistake: Mistake) -> dict[str, int]:
        return admin_of(settings_of(secured, mistake)).partition_counts()

    with ThreadPoolExecutor(len(MISTAKES)) as pool:
        return {name: pool.submit(make, mistake) for name, mistake in MISTAKES.items()}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_the_cure_that_helps(
    secured: SecuredBroker, outcomes: dict[str, Future[dict[str, int]]], name: str
) -> None:
    mistake = MISTAKES[name]

    with pytest.raises(AuthenticationError, match=mistake.told) as raised:
        outcomes[name].result()

    assert exit_code_of(raised.value) == ExitCode.USAGE
    assert PASSWORD not in str(raised.value)
    right = settings_of(secured, mistake) | dict(mistake.right(secured))
    assert admin_of(right).partition_counts() is not None


def test_a_topic_that_may_not_be_seen_is_not_taken_for_missing(secured: SecuredBroker) -> None:
    secured.create_topic("hidden")
    guest = as_user() | {"sasl.username": GUEST, "sasl.password": GUEST_PASSWORD}
    admin = admin_of({"bootstrap.servers": secured.sasl, **guest})

    with pytest.raises(FatalStreamsError, match=r"'hidden'.*grant DESCRIBE on the topic"):
        admin.partition_counts(awaited=[TopicPartition("hidden", 0)])

    secured.permit(GUEST, "hidden")
    assert admin.partition_counts(awaited=[TopicPartition("hidden", 0)])["hidden"] == 1


@pytest.fixture
def application(secured: SecuredBroker, tmp_path: Path) -> Iterator[Application]:
    """An application that counts, with the right credentials and a topic to read."""
    name = f"counts-{tmp_path.name}"
    for stem in ("in", "out"):
        secured.create_topic(f"{name}-{stem}")
    topology = write_counts(tmp_path, f"{name}-in", f"{name}-out")
    settings = {
        "bootstrap.servers": secured.sasl,
        "commit.interval.ms": 100,
        **as_user(mechanism="SCRAM-SHA-256"),
    }
    with Application(name, tmp_path, topology, settings) as application:
        yield application


def write_one(secured: SecuredBroker, application: Application) -> None:
    produce(secured.plaintext, f"{application.id}-in", [(b"key", bytes(8))])


def wait_for_output(
    secured: SecuredBroker, application: Application, running: Running, count: int
) -> None:
    output = f"{application.id}-out"
    running.wait_until(lambda: len(read_all(secured.plaintext, output)) == count, "output")


@pytest.mark.parametrize(
    ("client", "guarantee"),
    first_of(
        ("producer.", "exactly_once_v2"),
        ("producer.", "exactly_once"),
        ("producer.", "at_least_once"),
        ("consumer.", "at_least_once"),
        ("", "at_least_once"),  # Its admin client is above.
    ),
)
def test_a_wrong_password_ends_the_application_whichever_client_has_it(
    secured: SecuredBroker, application: Application, client: str, guarantee: str
) -> None:
    write_one(secured, application)
    settings = {"processing.guarantee": guarantee}

    with application.running(**settings, **{f"{client}sasl.password": "wrong"}) as running:
        assert running.ended() == ExitCode.USAGE

    error = running.lines("stopped by an error")[-1]
    assert error["kind"] == "AuthenticationError"
    assert "refuses user 'alice'" in error["error"]
    with application.running(**settings) as running:
        wait_for_output(secured, application, running, 1)
        running.stop()


@pytest.fixture
def password_that_changes(secured: SecuredBroker) -> Iterator[Callable[[str], None]]:
    """Sets the user's password on the broker; it is the right one again after the test."""
    yield lambda password: secured.set_password(USER, password)
    secured.set_password(USER, PASSWORD)


def test_a_password_that_is_being_changed_is_waited_for(
    secured: SecuredBroker,
    application: Application,
    password_that_changes: Callable[[str], None],
) -> None:
    with application.running() as running:
        write_one(secured, application)
        wait_for_output(secured, application, running, 1)

        password_that_changes("another")
        refused = running.wait_for("a broker refuses the client, trying again")
        password_that_changes(PASSWORD)
        write_one(secured, application)

        wait_for_output(secured, application, running, 2)
        running.stop()
    assert refused[0]["tolerated_s"] == 300


def test_a_password_that_stays_changed_ends_the_application_after_the_task_timeout(
    secured: SecuredBroker,
    application: Application,
    password_that_changes: Callable[[str], None],
) -> None:
    with application.running(**{"task.timeout.ms": 5000}) as running:
        write_one(secured, application)
        wait_for_output(secured, application, running, 1)

        password_that_changes("another")

        assert running.ended() == ExitCode.USAGE
    assert running.lines("stopped by an error")[-1]["kind"] == "AuthenticationError"
