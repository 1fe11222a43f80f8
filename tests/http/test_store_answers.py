"""What stores answer over HTTP: each kind, by key and by range, and what they refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.http.conftest import FIRST_MS, PARTITIONS, Served
from tests.http.filing import SIZE_MS


def test_a_table_answers_a_key_with_its_time_partition_and_position(filed: Served) -> None:
    answer = filed.ask("/v1/stores/counts/a").json()
    number = answer["partition"]
    in_partition = filed.ask("/v1/stores/counts", partition=number).json()["partitions"][0]

    assert (answer["key"], answer["value"], answer["timestamp"]) == ("a", 4, FIRST_MS + 40)
    last_offset = 4 * len(in_partition["entries"]) - 1
    assert answer["position"] == {filed.topics[0]: {str(number): last_offset}}


def test_a_plain_store_answers_what_was_put(filed: Served) -> None:
    assert filed.ask("/v1/stores/plain/b").json()["value"] == {"value": "v40"}


def test_keys_of_numbers_are_written_as_numbers(filed: Served) -> None:
    assert filed.ask("/v1/stores/by-length/3").json()["value"] == 10


def test_a_window_store_answers_the_windows_of_a_key(filed: Served) -> None:
    answer = filed.ask("/v1/stores/windows/a").json()

    assert [(entry["window"], entry["value"]) for entry in answer["entries"]] == [
        ({"start": start, "end": start + SIZE_MS}, count)
        for start, count in ((FIRST_MS, 2), (FIRST_MS + 10, 1), (FIRST_MS + 40, 1))
    ]


def test_a_window_store_answers_the_windows_of_a_time(filed: Served) -> None:
    times = {"time_from": FIRST_MS + 10, "time_to": FIRST_MS + 20}
    of_key = filed.ask("/v1/stores/windows/a", **times).json()
    of_all = filed.ask("/v1/stores/windows", **times).json()

    assert [entry["window"]["start"] for entry in of_key["entries"]] == [FIRST_MS + 10]
    entries = [entry for part in of_all["partitions"] for entry in part["entries"]]
    assert sorted(entry["key"] for entry in entries) == list("abcde")
    assert {entry["window"]["end"] for entry in entries} == {FIRST_MS + 20}


def test_a_session_store_answers_the_sessions_of_a_key(filed: Served) -> None:
    answer = filed.ask("/v1/stores/sessions/c").json()

    assert [(entry["window"], entry["value"]) for entry in answer["entries"]] == [
        ({"start": FIRST_MS, "end": FIRST_MS + 12}, 3),
        ({"start": FIRST_MS + 40, "end": FIRST_MS + 40}, 1),
    ]


def test_a_versioned_store_answers_as_of_a_time(filed: Served) -> None:
    now = filed.ask("/v1/stores/versions/d").json()
    then = filed.ask("/v1/stores/versions/d", as_of=FIRST_MS + 5).json()
    between = filed.ask(
        "/v1/stores/versions/d", time_from=FIRST_MS + 5, time_to=FIRST_MS + 20
    ).json()

    assert (now["value"], now["valid_to"]) == ("v40", None)
    assert (then["value"], then["timestamp"], then["valid_to"]) == (
        "v3",
        FIRST_MS + 3,
        FIRST_MS + 12,
    )
    assert [entry["value"] for entry in between["entries"]] == ["v3", "v12"]


def test_a_global_table_answers_a_key_and_all(filed: Served) -> None:
    assert filed.ask("/v1/stores/places/here").json()["value"] == "there"
    assert filed.ask("/v1/stores/places/nowhere").status == 404
    (whole,) = filed.ask("/v1/stores/places").json()["partitions"]
    assert [entry["key"] for entry in whole["entries"]] == ["here"]


def test_a_range_answers_partition_by_partition(filed: Served) -> None:
    answer = filed.ask("/v1/stores/counts").json()
    some = filed.ask("/v1/stores/counts", **{"from": "b", "to": "c"}).json()

    assert [part["partition"] for part in answer["partitions"]] == list(range(PARTITIONS))
    assert _keys(answer) == list("abcde")
    assert _keys(some) == ["b", "c"]


def test_one_partition_is_asked_for_itself(filed: Served) -> None:
    number = filed.ask("/v1/stores/counts/a").json()["partition"]

    answer = filed.ask("/v1/stores/counts", partition=number).json()

    assert [part["partition"] for part in answer["partitions"]] == [number]
    assert "a" in _keys(answer)
    assert filed.ask("/v1/stores/counts/a", partition=(number + 1) % PARTITIONS).status == 404


def test_a_limit_says_that_there_is_more(filed: Served) -> None:
    answer = filed.ask("/v1/stores/plain", limit=1, order="descending").json()
    full = [part for part in answer["partitions"] if part["more"]]

    assert full
    assert all(len(part["entries"]) <= 1 for part in answer["partitions"])


def test_a_position_that_was_reached_is_asked_for_and_one_that_was_not_is_refused(
    filed: Served,
) -> None:
    first = filed.ask("/v1/stores/counts/a").json()
    (topic,) = first["position"]
    ahead = {topic: {str(first["partition"]): 1_000_000}}

    again = filed.ask("/v1/stores/counts/a", min_position=json.dumps(first["position"]))
    refused = filed.ask("/v1/stores/counts/a", min_position=json.dumps(ahead))

    assert again.json()["value"] == 4
    assert (refused.status, refused.json()["reason"]) == (503, "NOT_UP_TO_BOUND")
    assert refused.json()["position"] == first["position"]
    assert refused.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("level", ["read_committed", "READ_UNCOMMITTED"])
def test_isolation_is_as_asked(filed: Served, level: str) -> None:
    assert filed.ask("/v1/stores/counts/a", isolation=level).json()["value"] == 4


@pytest.mark.parametrize(
    ("path", "parameters", "status", "told"),
    [
        ("/v1/stores/absent/a", {}, 404, "there is no store 'absent'; there are: by-length, "),
        ("/v1/stores/absent", {}, 404, "there is no store 'absent'"),
        ("/v1/stores/counts/nobody", {}, 404, "'nobody'"),
        ("/v1/stores/by-length/many", {}, 400, "'many' does not fit"),
        ("/v1/stores/counts/a", {"isolation": "some"}, 400, "isolation is one of"),
        ("/v1/stores/counts/a", {"min_position": "x"}, 400, "min_position is JSON such as"),
        ("/v1/stores/counts/a", {"min_position": '{"t":1}'}, 400, "min_position is JSON such as"),
        ("/v1/stores/counts/a", {"min_position": "[1]"}, 400, "min_position is JSON such as"),
        ("/v1/stores/counts/a", {"partition": "x"}, 400, "partition is a whole number"),
        ("/v1/stores/counts/a", {"partition": 9}, 404, "has no partition 9"),
        ("/v1/stores/counts/a", {"partition": -1}, 404, "has no partition -1"),
        ("/v1/stores/counts/a", {"as_of": 5}, 400, "as_of"),
        ("/v1/stores/counts/a", {"colour": "red"}, 400, "colour"),
        ("/v1/stores/counts", {"limit": 0}, 400, "limit is 1 to"),
        ("/v1/stores/counts", {"limit": "x"}, 400, "limit is a whole number"),
        ("/v1/stores/counts", {"order": "sideways"}, 400, "order is"),
        ("/v1/stores/counts", {"from": "b", "to": "a"}, 400, "from is above to"),
        ("/v1/stores/by-length", {"from": "-1", "to": "5"}, 400, "negative numbers sort last"),
        ("/v1/stores/versions", {}, 400, "add /KEY"),
        (
            "/v1/stores/pairs-outer-shared-join-store",
            {},
            400,
            "a join keeps for itself, ask a table",
        ),
        ("/v1/stores/pairs-outer-shared-join-store/a", {}, 400, "a join keeps for itself, ask a"),
        ("/v1/stores/windows/a", {"time_from": "now"}, 400, "time_from is a whole number"),
        ("/v1/stores/versions/a", {"as_of": 1 << 70}, 400, "as_of"),
        ("/v1/nothing", {}, 404, "there is nothing at /v1/nothing"),
    ],
)
def test_what_can_not_be_answered_is_refused_with_the_cure(
    filed: Served, path: str, parameters: dict[str, Any], status: int, told: str
) -> None:
    answer = filed.ask(path, **parameters)

    assert (answer.status, answer.json()["status"]) == (status, status)
    assert told in answer.json()["detail"]


def test_a_range_that_ends_before_it_starts_is_in_no_log(
    filed: Served, caplog: pytest.LogCaptureFixture
) -> None:
    filed.ask("/v1/stores/counts", **{"from": "b", "to": "a"})

    assert not caplog.records


def test_keys_with_slashes_and_other_letters_are_asked_for(filed: Served) -> None:
    assert "'x/y ä'" in filed.ask("/v1/stores/counts/x%2Fy%20%C3%A4").json()["detail"]


def test_the_stores_say_what_they_can_be_asked(filed: Served) -> None:
    stores = {store["store"]: store for store in filed.ask("/v1/stores").json()}

    assert "WindowKeyQuery" in stores["windows"]["asked_by"]
    assert {"counts", "plain", "sessions", "versions", "places"} <= set(stores)


def _keys(answer: dict[str, Any]) -> list[str]:
    return sorted(entry["key"] for part in answer["partitions"] for entry in part["entries"])
