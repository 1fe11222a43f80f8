"""Random use of stores that write through: what reached the engine stays, the rest can be lost."""

from __future__ import annotations

import pytest

from tests.stores.engines.versioned_write_through_machine import VERSIONED
from tests.stores.engines.write_through_machine import KEY_VALUE, SESSION, WINDOW
from tests.stores.machine_parts import SHORT, CountingMachine


@pytest.mark.property
@pytest.mark.parametrize("machine", [*KEY_VALUE, *WINDOW, *SESSION, *VERSIONED])
def test_random_steps_give_what_the_model_gives(machine: type[CountingMachine]) -> None:
    assert machine.run_lives(SHORT) > 0
