"""Files of TLS that the client can't use: the error names the file, and what helps."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pystreams import ConfigError, StreamsConfig
from pystreams.runtime.adapters.client_factory import ConfluentClients

PASSWORD, WRONG = "right-word", "wrong-word"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an encrypted key, its certificate, and a file that is neither."""
    made = tmp_path_factory.mktemp("tls")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-passout", f"pass:{PASSWORD}"]
    words += ["-keyout", "key.pem", "-out", "own.pem", "-days", "2", "-subj", "/CN=own"]
    subprocess.run(words, cwd=made, check=True, capture_output=True)
    (made / "nonsense.pem").write_text("nonsense")
    return made


def refusal(directory: Path, **settings: str) -> str:
    """Return what is said of files in a directory, and of other settings of TLS."""
    required = {"application.id": "a", "bootstrap.servers": "n:1", "security.protocol": "SSL"}
    files = {
        f"ssl.{name.replace('_', '.')}": str(directory / value) if value.endswith(".pem") else value
        for name, value in settings.items()
    }
    with pytest.raises(ConfigError) as raised:
        ConfluentClients(StreamsConfig.of({**required, **files})).admin()
    return str(raised.value).replace(f"{directory}/", "")


@pytest.mark.parametrize("name", ["ca", "crl"])
def test_a_file_that_is_not_there_is_named(directory: Path, name: str) -> None:
    told = refusal(directory, **{f"{name}_location": "gone.pem"})

    assert f"ssl.{name}.location = 'gone.pem' can't be read (No such file or directory)" in told
    assert "name a file that is there, and that this user may read" in told


def test_a_key_that_is_not_there_is_named(directory: Path) -> None:
    told = refusal(directory, key_location="gone.pem", certificate_location="own.pem")

    assert "ssl.key.location = 'gone.pem' can't be read" in told


def test_a_file_without_a_certificate_is_named(directory: Path) -> None:
    told = refusal(directory, ca_location="nonsense.pem")

    assert "ssl.ca.location = 'nonsense.pem' can't be used: it has to hold a certificate" in told


def test_a_wrong_password_of_a_key_is_told_and_not_shown(directory: Path) -> None:
    told = refusal(
        directory, key_location="key.pem", certificate_location="own.pem", key_password=WRONG
    )

    assert "ssl.key.location = 'key.pem' can't be used: ssl.key.password is not the pass" in told
    assert WRONG not in told


def test_a_missing_password_of_a_key_is_told(directory: Path) -> None:
    told = refusal(directory, key_location="key.pem", certificate_location="own.pem")

    assert "the key is encrypted: set ssl.key.password to its password" in told


def test_a_keystore_of_another_form_is_told(directory: Path) -> None:
    told = refusal(directory, keystore_location="own.pem", keystore_password=PASSWORD)

    assert "ssl.keystore.location = 'own.pem' can't be used: it has to be a PKCS #12 file" in told
