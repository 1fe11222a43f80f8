"""Ten thousand random steps of every kind of store beside its model, without a difference.

    pytest -m sweep tests/stores/test_ten_thousand_steps.py -rP

prints the steps of each machine; those of a kind (engines, caches) share the steps.
`--hypothesis-seed` repeats a run.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.stores import key_value_machine as key_value
from tests.stores.engines import versioned_write_through_machine as versioned_write_through
from tests.stores.engines import write_through_machine as write_through
from tests.stores.kinds import test_session_store_state_machine as session
from tests.stores.kinds import test_versioned_store_state_machine as versioned
from tests.stores.kinds import test_window_store_state_machine as window
from tests.stores.machine_parts import MANY_STEPS, CountingMachine, long_run

KINDS: dict[str, Sequence[type[CountingMachine]]] = {
    "key-value": key_value.PLAIN,
    "timestamped key-value": key_value.TIMESTAMPED,
    "lru_map": key_value.LRU_MAPS,
    "window": window.PLAIN,
    "timestamped window": window.TIMESTAMPED,
    "window with duplicates": window.DUPLICATES,
    "session": session.MACHINES,
    "versioned": versioned.MACHINES,
    "key-value, written through": write_through.KEY_VALUE,
    "window, written through": write_through.WINDOW,
    "session, written through": write_through.SESSION,
    "versioned, written through": versioned_write_through.VERSIONED,
}


@pytest.mark.sweep
@pytest.mark.property
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_random_steps_give_what_the_model_gives(kind: str) -> None:
    share = -(-MANY_STEPS // len(KINDS[kind]))
    for machine in KINDS[kind]:
        steps = 0
        while steps < share:  # Lives end when chance says so: there may have to be more of them.
            lived = machine.run_lives(long_run(share - steps))
            assert lived > 0, f"{machine.__name__} takes no steps"
            steps += lived
        print(f"{kind}: {machine.__name__}: {steps} steps")
