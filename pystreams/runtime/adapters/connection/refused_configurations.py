"""What to do about a configuration of TLS that librdkafka refuses in OpenSSL's codes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FILES = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.crl.location",
)
_NO_FILE = "probe"
"""What stands in the place of a file for the certificates of the operating system."""
_NAMED = re.compile(r"ssl\.(?P<what>\w+)\.(?:location|pem)")
_ENCRYPTED = "ENCRYPTED"
_READABLE = "name a file that is there, and that this user may read"


def cure_of_configuration(config: Mapping[str, Any], told: str) -> str | None:
    """Return what is wrong with a file or text of TLS, and what to do; None for anything else.

    Args:
        told: What librdkafka says.
    """
    named = _NAMED.search(told)
    if named is None:
        return None
    for name in _FILES:
        unread = _unread(config, name)
        if unread is not None:
            return f"{name} = {str(config[name])!r} can't be read ({unread}): {_READABLE}"
    what = named["what"]
    place = f"ssl.{what}.location"
    of = f"{place} = {str(config[place])!r}" if place in config else f"ssl.{what}.pem"
    return f"{of} can't be used: {_wanted(config, what)}"


def _unread(config: Mapping[str, Any], name: str) -> str | None:
    """Return why a file can't be read; None where it can, or none is named."""
    location = str(config.get(name, _NO_FILE))
    if location == _NO_FILE or Path(location).is_dir():
        return None
    try:
        with Path(location).open("rb"):
            return None
    except OSError as error:
        return error.strerror or type(error).__name__


def _wanted(config: Mapping[str, Any], what: str) -> str:
    if what == "keystore":
        return "it has to be a PKCS #12 file, and ssl.keystore.password its password"
    if what != "key":
        return "it has to hold a certificate in PEM form (-----BEGIN CERTIFICATE-----)"
    is_encrypted = _ENCRYPTED in _key_of(config)
    if is_encrypted and "ssl.key.password" in config:
        return "ssl.key.password is not the password with which the key is encrypted: correct it"
    if is_encrypted:
        return "the key is encrypted: set ssl.key.password to its password"
    return "it has to hold a private key in PEM form (-----BEGIN PRIVATE KEY-----)"


def _key_of(config: Mapping[str, Any]) -> str:
    if "ssl.key.pem" in config:
        return str(config["ssl.key.pem"])
    return Path(str(config["ssl.key.location"])).read_bytes().decode("ascii", "replace")
