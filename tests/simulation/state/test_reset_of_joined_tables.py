"""A reset of tables that are joined by a foreign key: the topics of the join go with the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams.runtime.maintenance.application_reset import ApplicationReset
from pystreams.testing.simulation.admin import SimulatedAdmin
from pystreams.testing.simulation.faults import Lifeline
from tests.simulation.crash_tables.test_crash_table_of_joined_tables import JoinedTablesRun, model

pytestmark = pytest.mark.simulation


def test_topics_of_a_foreign_key_join_are_found_and_all_rows_are_made_anew(
    tmp_path: Path,
) -> None:
    run = JoinedTablesRun(tmp_path / "run", "exactly_once", seed=0)
    run.run()
    app = run.app
    app.broker.settle()
    own = {topic for topic in app.broker.partition_counts() if topic.startswith("app-")}
    admin = SimulatedAdmin(app.broker, Lifeline("reset", app.faults))
    resetting = ApplicationReset("app", run.process.plan, admin, tmp_path / "state")

    found = resetting.look()
    resetting.execute(found, with_orphans=False, new_offsets=None, told=lambda _: None)

    assert set(found.internal_topics) == own
    assert found.orphans == []
    assert sum("FK-JOIN-SUBSCRIPTION" in topic for topic in own) == 3, "two, and a changelog"
    assert not own & app.broker.partition_counts().keys()
    before = len(app.broker.committed_records("out"))
    run.process = app.process("anew", topology=run.topology(transactional=True))
    run.process.start()
    run.process_all()
    run.process.stop()
    app.broker.settle()
    again = app.broker.committed_records("out")[before:]
    keys = {(message.message_key or b"").decode() for message in again}
    assert keys >= model().keys()
    run.check_outputs()
