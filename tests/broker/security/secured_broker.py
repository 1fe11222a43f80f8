"""A real broker with a listener of each security protocol, and a certificate authority of its own.

Its listeners: PLAINTEXT, where everybody may do everything; SASL_PLAINTEXT with PLAIN and
SCRAM-SHA-256; SSL; SSL that asks for the client's certificate; SASL_SSL with PLAIN, SCRAM-SHA-256,
SCRAM-SHA-512 and OAUTHBEARER. The broker's certificate is for `localhost`: a client that connects
to 127.0.0.1 is not where it says. Tokens are taken as they are, unsigned: who may have one is
decided by what gives them out (`token_endpoint`).
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.broker.reading import answer_of, create_topics
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.ports import ports_in_a_row
from tests.sharing import start_broker

USER, PASSWORD = "alice", "alice-has-a-secret"
GUEST, GUEST_PASSWORD = "bob", "bob-has-a-secret"
"""A user who may do nothing."""
_SECURED = {
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SSL": "SSL",
    "SASL_SSL": "SASL_SSL",
    "MUTUAL": "SSL",
}
"""Names of listeners, and what they speak."""
_OPEN = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
_MECHANISMS = {
    "sasl_plaintext": "PLAIN,SCRAM-SHA-256",
    "sasl_ssl": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
}
_ITERATIONS = 4096
_LOGIN_AGAIN_MS = 4000
"""How long a login lasts: the time in which a client notices that its password has changed."""
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


@dataclass(frozen=True)
class Permission:
    """What somebody may do.

    Attributes:
        operation: By Kafka's name, such as "READ".
        resource: "TOPIC", "GROUP", "CLUSTER" or "TRANSACTIONAL_ID".
        name: The resource's name; of a cluster `kafka-cluster`.
        prefixed: Whether the name is only how names begin.
    """

    operation: str
    resource: str
    name: str
    prefixed: bool = False

    def binding(self, user: str) -> AclBinding:
        """Return it as the admin client has it."""
        # The client knows the cluster by another name.
        resource = {"CLUSTER": "BROKER"}.get(self.resource, self.resource)
        pattern = ResourcePatternType.PREFIXED if self.prefixed else ResourcePatternType.LITERAL
        return AclBinding(
            *(ResourceType[resource], self.name, pattern, f"User:{user}", "*"),
            *(AclOperation[self.operation], AclPermissionType.ALLOW),
        )


@dataclass(frozen=True)
class SecuredBroker:
    """A broker that was started, and what its clients need.

    Attributes:
        plaintext: `bootstrap.servers` of the listener without security.
        sasl: Of the one that asks for a user.
        tls: Of the one that is encrypted.
        sasl_tls: Of the one that is both.
        mutual_tls: Of the one that is encrypted and asks for a certificate of the client.
        ca: The certificate by which clients trust the broker's.
        other_ca: One that has signed nothing of it.
        client_certificate: Settings of a client that has a certificate.
        admin: A client that may do everything.
    """

    plaintext: str
    sasl: str
    tls: str
    sasl_tls: str
    mutual_tls: str
    ca: Path
    other_ca: Path
    client_certificate: dict[str, str]
    admin: AdminClient

    def set_password(self, user: str, password: str) -> None:
        """Set the SCRAM password of a user, who may be new."""
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            kind = ScramCredentialInfo(mechanism, _ITERATIONS)
            change = UserScramCredentialUpsertion(user, kind, password.encode())
            self._ask(self.admin.alter_user_scram_credentials, [change])

    def permit(self, user: str, topic: str) -> None:
        """Let a user read a topic."""
        self.grant(user, [Permission("READ", "TOPIC", topic)])

    def grant(self, user: str, permissions: Iterable[Permission]) -> None:
        """Let a user do something."""
        bindings = [permission.binding(user) for permission in permissions]
        self._ask(self.admin.create_acls, bindings)
        # The controller answers a moment before the broker goes by them.
        wait_until(lambda: all(map(self._goes_by, bindings)), "the permissions")

    def revoke(self, user: str, permission: Permission) -> None:
        """Take a permission away again."""
        gone = _matching(permission.binding(user))
        self._ask(self.admin.delete_acls, [gone])
        wait_until(lambda: not self._found(gone), "the permission gone")

    def create_topic(self, name: str) -> None:
        """Create a topic of one partition."""
        create_topics(self.admin, [NewTopic(name, 1)])

    def _goes_by(self, binding: AclBinding) -> bool:
        return self._found(_matching(binding))

    def _found(self, wanted: AclBindingFilter) -> bool:
        return bool(answer_of(lambda: self.admin.describe_acls(wanted).result(DEADLINE_S)))

    @staticmethod
    def _ask(change: Callable[[Any], Mapping[Any, Future[Any]]], wanted: object) -> None:
        """Ask for changes; asked for again, they change nothing."""

        def answered() -> None:
            for answer in change(wanted).values():
                answer.result(DEADLINE_S)

        answer_of(answered)


def _matching(binding: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        *(binding.restype, binding.name, binding.resource_pattern_type, binding.principal),
        *(binding.host, binding.operation, binding.permission_type),
    )


@contextlib.contextmanager
def secured_broker(directory: Path) -> Iterator[SecuredBroker]:
    """Start the broker; it ends with the block."""
    ca = _authority(directory, "ca")
    other_ca = _authority(directory, "other-ca")
    pem = _signed(directory, "localhost")
    plaintext, controller, *others = ports_in_a_row(2 + len(_SECURED))
    ports = dict(zip(_SECURED, others, strict=True))
    clients = f"PLAINTEXT://127.0.0.1:{plaintext}," + ",".join(
        f"{name}://localhost:{port}" for name, port in ports.items()
    )
    settings = {
        "listeners": f"{clients},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": clients,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in {**_SECURED, **_OPEN}.items()
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(pem),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": str(ca),
        "connections.max.reauth.ms": str(_LOGIN_AGAIN_MS),
        "authorizer.class.name": _AUTHORIZER,
        "super.users": f"User:ANONYMOUS;User:{USER};User:CN=client",
    }
    users = " ".join(
        f'user_{name}="{word}"' for name, word in ((USER, PASSWORD), (GUEST, GUEST_PASSWORD))
    )
    logins = {
        "PLAIN": f"{_PLAIN} required {users};",
        "SCRAM-SHA-256": f"{_SCRAM} required;",
        "SCRAM-SHA-512": f"{_SCRAM} required;",
        "OAUTHBEARER": f"{_BEARER} required;",
    }
    for listener, mechanisms in _MECHANISMS.items():
        prefix = f"listener.name.{listener}"
        settings[f"{prefix}.sasl.enabled.mechanisms"] = mechanisms
        for mechanism in mechanisms.split(","):
            login = f"{prefix}.{mechanism.lower()}.sasl.jaas.config"
            settings[login] = logins[mechanism]
    broker = start_broker(directory / "broker", plaintext, settings)
    try:
        started = SecuredBroker(
            plaintext=broker.bootstrap_servers,
            sasl=f"localhost:{ports['SASL_PLAINTEXT']}",
            tls=f"localhost:{ports['SSL']}",
            sasl_tls=f"localhost:{ports['SASL_SSL']}",
            mutual_tls=f"localhost:{ports['MUTUAL']}",
            ca=ca,
            other_ca=other_ca,
            client_certificate=_client_certificate(directory),
            admin=AdminClient({"bootstrap.servers": broker.bootstrap_servers}),
        )
        started.set_password(USER, PASSWORD)
        yield started
    finally:
        broker.stop()


def _authority(directory: Path, name: str) -> Path:
    """Make a certificate authority; return its certificate."""
    certificate = directory / f"{name}.pem"
    _openssl(
        directory,
        *("req", "-x509", *_NEW_KEY, "-nodes", "-days", "2", "-subj", f"/CN={name}"),
        *("-keyout", f"{name}.key", "-out", certificate.name),
    )
    return certificate


def _signed(directory: Path, name: str) -> Path:
    """Make a key and a certificate that the authority has signed; return both in one file."""
    _openssl(
        directory,
        *("req", *_NEW_KEY, "-nodes", "-subj", f"/CN={name}"),
        *("-keyout", f"{name}.key", "-out", f"{name}.csr"),
    )
    (directory / "names").write_text(f"subjectAltName=DNS:{name}\n")
    _openssl(
        directory,
        *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2"),
        *("-CAcreateserial", "-extfile", "names", "-out", f"{name}.crt"),
    )
    both = directory / f"{name}.pem"
    both.write_text("".join((directory / f"{name}.{kind}").read_text() for kind in ("key", "crt")))
    return both


def _client_certificate(directory: Path) -> dict[str, str]:
    pem = str(_signed(directory, "client"))
    return {"ssl.certificate.location": pem, "ssl.key.location": pem}


def _openssl(directory: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)
