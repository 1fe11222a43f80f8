"""Random use of a key-value store beside a plain dict: no difference, whatever the steps."""

from __future__ import annotations

import pytest

from tests.stores.key_value_machine import MACHINES, KeyValueStoreMachine
from tests.stores.machine_parts import SHORT


@pytest.mark.property
@pytest.mark.parametrize("machine", MACHINES)
def test_random_steps_give_what_a_dict_gives(machine: type[KeyValueStoreMachine]) -> None:
    assert machine.run_lives(SHORT) > 0
