"""Each row of the tables in docs/operations.md, "Damage and loss", is run by a test."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.broker.state import test_last_copies as broker
from tests.runtime.adapters import test_state_directory as directories
from tests.runtime.core import test_internal_topics as policies
from tests.simulation.state import test_damaged_last_copies as last_copies
from tests.simulation.state import test_damaged_stores as damaged
from tests.simulation.state import test_lost_changelogs as lost
from tests.simulation.state import test_topics_without_ids as without_ids
from tests.simulation.state import test_windows_deleted_by_the_clock as deleted
from tests.simulation.state.damaging import DAMAGES
from tests.stores import test_damage_is_noticed as noticed
from tests.stores import test_damaged_store_is_rebuilt as rebuilt

PAGE = Path(__file__).parents[1] / "docs" / "operations.md"

TESTS: dict[str, Callable[..., object]] = {
    **dict.fromkeys(
        DAMAGES, damaged.test_each_row_of_the_table_of_damage_is_mended_and_no_other_store_touched
    ),
    "a file is in the place of a task's directory": (
        directories.test_a_file_in_the_place_of_a_tasks_directory_is_named
    ),
    "a store without a changelog is damaged": (
        rebuilt.test_a_damaged_store_without_changelog_is_refused_with_a_cure
    ),
    "a store is damaged for the fourth time before a commit": (
        damaged.test_a_store_that_is_damaged_again_and_again_stops_the_application_with_a_cure
    ),
    "too many files are open": noticed.test_too_many_open_files_are_no_damage,
    "the store is a link to a disk that is not there": (
        noticed.test_a_link_to_a_disk_that_is_not_there_is_told_and_kept
    ),
    "a changelog was deleted": (
        broker.test_a_deleted_changelog_stops_the_application_and_the_command_of_the_message_cures_it
    ),
    "a changelog was cut off beyond the store's offset": (
        lost.test_by_default_the_application_stops_with_the_choices_at_every_start
    ),
    "a changelog was deleted or cut off, and the store is damaged": (
        last_copies.test_a_damaged_store_whose_changelog_is_gone_as_well_stops_until_the_command_of_the_message_ran
    ),
    "the same, with brokers that give topics no ids": (
        without_ids.test_a_damaged_store_is_not_wiped_when_its_changelog_was_made_again
    ),
    "a changelog was cut off, and the store holds all of it": (
        lost.test_a_whole_store_whose_changelog_lost_what_the_store_holds_goes_on_and_says_so
    ),
    "a changelog was cut off, and the store is gone as well": (
        lost.test_a_changelog_cut_off_whose_store_is_gone_as_well_is_told_as_loss
    ),
    "retention has cut off the changelog of windows": (
        lost.test_windows_whose_changelog_has_moved_on_are_restored_as_ever
    ),
    "the same, and the stream is further behind the wall clock than "
    "`windowstore.changelog.additional.retention.ms`": (
        deleted.test_a_store_that_is_restored_without_what_was_deleted_is_told_once
    ),
    "the `cleanup.policy` of a changelog is `delete`": (
        broker.test_a_changelog_with_a_retention_is_refused_and_told_what_was_lost_when_corrected
    ),
    "the `cleanup.policy` of a repartition topic has `compact`": (
        policies.test_a_topic_whose_records_the_broker_deletes_too_early_is_refused_with_the_command
    ),
}


def test_the_tables_have_a_test_for_each_row() -> None:
    text = PAGE.read_text()
    section = text[text.index("## Damage and loss") :].split("\n## ")[0]
    cells = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)

    assert [cell for cell in cells if cell != "what has happened"] == list(TESTS)
