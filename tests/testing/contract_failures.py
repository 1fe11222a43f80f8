"""What a contract says of a store, by test."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

from pystreams.testing import StateStoreContract


def failures_of(contract: type[StateStoreContract], make: Callable[[], Any]) -> dict[str, str]:
    """Run all tests of a contract on new stores; return the messages of those that fail."""

    class Contract(contract):  # type: ignore[misc, valid-type]
        def make_store(self) -> Any:
            return make()

    failures = {}
    for name in dir(contract):
        if not name.startswith("test_"):
            continue
        tests = Contract()
        tests.setup_method()
        try:
            getattr(tests, name)()
        except AssertionError as error:
            failures[name] = str(error)
        except unittest.SkipTest:
            pass
        finally:
            tests.teardown_method()
    return failures
