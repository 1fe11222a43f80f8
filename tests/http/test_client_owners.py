"""The Python client that asks the process which has a key, as soon as it knows which that is."""

from __future__ import annotations

import json
import pickle
import threading
from typing import Any

import pytest

from pystreams.client import Client, HttpQueryError
from pystreams.client.owners import KnownOwners, Owner, asked_for
from tests.broker.waiting import DEADLINE_S
from tests.http.scripted_application import (
    NUMBERS,
    PARTITIONS,
    TEXTS,
    Application,
    Rule,
    answer,
    by_another_rule,
    by_int,
    by_long,
    by_text,
    check,
    running,
)
from tests.http.scripted_server import Asked, Last, scripted, sent_on
from tests.ports import ports_in_a_row


def warmed_up(application: Application, keys: list[Any], **options: Any) -> Client:
    """Return a client that has asked for all keys, and by now need not have any passed on."""
    client = Client(application.url, asks_owners=True, **options)
    check(client, keys)
    application.passed_on.clear()
    application.asked_at()
    return client


@pytest.mark.parametrize(
    ("rule", "keys"),
    [
        pytest.param(by_text, TEXTS, id="text"),
        pytest.param(by_text, NUMBERS, id="numbers as text"),
        pytest.param(by_long, NUMBERS, id="long"),
        pytest.param(by_int, NUMBERS, id="int"),
        pytest.param(by_long, [str(number) for number in NUMBERS], id="long, given as text"),
    ],
)
def test_keys_are_asked_for_where_they_are_once_answers_have_told(
    rule: Rule, keys: list[Any]
) -> None:
    with running(rule) as application, Client(application.url, asks_owners=True) as client:
        for store in ("s", "other / store"):
            check(client, keys, store)
        ranges = [asked for asked in application.processes[0].asked if "limit=1" in asked.target]
        application.asked_at()
        application.passed_on.clear()
        check(client, keys)
        counts = application.asked_at()

    assert len(ranges) == 2
    assert application.passed_on == []
    assert (sum(counts), min(counts) > 0) == (len(keys), True)


def test_who_asks_no_owners_asks_one_process() -> None:
    with (
        running(by_text) as application,
        Client(application.url, asks_owners=False) as client,
    ):
        for _ in range(3):
            check(client, TEXTS)
        assert application.asked_at() == [3 * len(TEXTS), 0, 0]
        assert application.passed_on


def test_keys_of_another_partitioner_are_asked_for_at_the_url() -> None:
    with running(by_another_rule) as application:
        client = warmed_up(application, TEXTS)
        check(client, TEXTS)
        assert application.asked_at() == [len(TEXTS), 0, 0]
        client.close()


def test_a_store_that_is_partitioned_otherwise_later_on_is_answered_right() -> None:
    """What was taken to be right by then was right by chance."""

    def rule(key: str) -> int:
        return by_text(key) if key in TEXTS else by_another_rule(key)

    with running(rule) as application:
        client = warmed_up(application, TEXTS)
        others = [f"other {number}" for number in range(20)]
        for _ in range(2):
            check(client, others)
            counts = application.asked_at()
        assert counts == [len(others), 0, 0]
        client.close()


@pytest.mark.parametrize(
    "key", [{"a": 1}, [1, "a"], 1.5, True, None, 2**70, "007", "-0", " 7", "9" * 5000]
)
def test_a_key_of_which_nothing_can_be_guessed_is_asked_for_at_the_url(key: Any) -> None:
    with running(by_another_rule) as application:
        client = warmed_up(application, TEXTS)
        for _ in range(5):
            found = client.get("s", key)
            assert found is not None
            assert found["key"] == (key if isinstance(key, str) else json.dumps(key))
        assert application.asked_at() == [5, 0, 0]
        client.close()


def test_a_key_that_the_url_does_not_take_either_says_nothing_of_its_owner() -> None:
    """It is asked for the others, as before."""
    with running(by_text) as application:
        client = warmed_up(application, TEXTS)
        elsewhere = [key for key in TEXTS if application.shares[by_text(key)] == 1]
        application.refused = {elsewhere[0]}
        with pytest.raises(HttpQueryError, match="refused") as why:
            client.get("s", elsewhere[0])
        assert (why.value.status, application.asked_at()) == (400, [1, 1, 0])
        assert client.get("s", elsewhere[0], as_shown=True) is None
        assert application.asked_at() == [2, 1, 0]
        application.passed_on.clear()
        check(client, elsewhere[1:])
        assert application.passed_on == []
        client.close()


@pytest.mark.parametrize("status", [400, 414])
@pytest.mark.parametrize("is_absent", [False, True])
def test_an_owner_that_does_not_take_what_the_url_answers_is_asked_no_more(
    status: int, is_absent: bool
) -> None:
    """Another application has its address by then, behind a tunnel."""
    with running(by_text) as application:
        client = warmed_up(application, TEXTS)
        elsewhere = [key for key in TEXTS if application.shares[by_text(key)] == 1]
        application.instead[1] = answer(status, {})
        if is_absent:
            application.absent = {elsewhere[0]}
            assert client.get("s", elsewhere[0]) is None
        else:
            check(client, elsewhere[:1])
        assert application.asked_at()[:2] == [1, 1]
        check(client, elsewhere[1:])
        assert application.asked_at()[1] == 0
        client.close()


def test_after_partitions_have_moved_answers_tell_where_they_are() -> None:
    with running(by_text) as application:
        client = warmed_up(application, TEXTS)
        for move in (1, 2):
            application.shares = {number: (number + move) % 3 for number in range(PARTITIONS)}
            check(client, TEXTS)
            assert 0 < len(application.passed_on) <= PARTITIONS
            application.passed_on.clear()
            application.asked_at()
            check(client, TEXTS)
            assert application.passed_on == []
        client.close()


def test_a_partition_that_is_asked_for_is_asked_where_it_is() -> None:
    with running(by_text) as application:
        client = warmed_up(application, TEXTS)
        for number, process in application.shares.items():
            found = client.get("s", "somewhere", partition=number)
            assert found is not None
            assert found["partition"] == number
            assert application.asked_at()[process] == 1
        assert client.get("s", TEXTS[0]) is not None
        assert application.passed_on == []  # Where that key was says nothing of the rule.
        client.close()


def of_partition(reason: str) -> dict[str, Any]:
    """Return what is told of a partition that has no answer."""
    return {"partition": 1, "reason": reason}


PAGE = b"HTTP/1.1 %b\r\ncontent-length: 3\r\n\r\n<p>"


@pytest.mark.parametrize(
    ("instead", "is_left_alone"),
    [
        pytest.param(Last(), True, id="nothing"),
        pytest.param(Last(b"SSH-2.0-OpenSSH_9.6\r\n"), True, id="no HTTP"),
        pytest.param(Last(b"HTTP/1.1 200 OK\r\ncontent-length: 185\r\n\r\n{"), True, id="a part"),
        pytest.param(PAGE % b"200 OK", True, id="no JSON"),
        pytest.param(PAGE % b"404 No", True, id="a page that is not there"),
        pytest.param(PAGE % b"502 Bad", True, id="a proxy"),
        pytest.param(b"HTTP/1.1 302 F\r\nlocation: ftp://x\r\ncontent-length: 0\r\n\r\n", True),
        pytest.param(answer(200, {"other": 1}), True, id="no answer to such a question"),
        pytest.param(answer(404, {}), True, id="no such store"),
        pytest.param(answer(401, {}), True, id="another token"),
        pytest.param(answer(500, {}), True, id="an error"),
        pytest.param(answer(503, {}), True, id="too many connections"),
        pytest.param(answer(404, of_partition("DOES_NOT_EXIST")), False, id="no such partition"),
        pytest.param(answer(421, of_partition("NOT_PRESENT")), False, id="misdirected"),
        pytest.param(answer(503, of_partition("NOT_PRESENT")), False, id="moved"),
        pytest.param(answer(503, of_partition("NOT_ACTIVE")), False, id="restoring"),
        pytest.param(answer(500, of_partition("STORE_EXCEPTION")), False, id="a serde's error"),
    ],
)
def test_an_owner_that_does_not_answer_costs_no_answer(instead: bytes, is_left_alone: bool) -> None:
    with running(by_text) as application:
        client = warmed_up(application, TEXTS)
        application.instead[1] = instead
        check(client, TEXTS)
        if is_left_alone:
            application.asked_at()
            check(client, TEXTS)
            assert application.asked_at()[1] == 0
        del application.instead[1]
        check(client, TEXTS)
        application.passed_on.clear()
        check(client, TEXTS)
        at_owner = [key for key in TEXTS if application.shares[by_text(key)] == 1]
        assert application.passed_on == (at_owner if is_left_alone else [])
        client.close()


def test_the_url_has_the_last_word_where_an_owner_has_no_answer() -> None:
    with running(by_text) as application:
        client = warmed_up(application, TEXTS)
        key = next(key for key in TEXTS if application.shares[by_text(key)] == 1)
        application.instead[1] = answer(503, {"from": "owner"})
        application.instead[0] = answer(503, {"from": "url"})
        with pytest.raises(HttpQueryError) as refused:
            client.get("s", key)
        assert refused.value.answer == {"status": 503, "from": "url"}
        assert application.asked_at() == [1, 1, 0]
        client.close()


def test_a_key_that_its_owner_has_not_is_not_asked_for_again() -> None:
    """The owner has asked all other processes by then, as any process does."""
    with running(by_text) as application:
        client = warmed_up(application, TEXTS)
        application.absent = {f"absent {number}" for number in range(30)}
        for key in application.absent:
            assert client.get("s", key) is None
        counts = application.asked_at()
        assert (sum(counts), min(counts) > 0) == (30, True)
        client.close()


def test_missing_keys_say_nothing_of_who_has_a_partition() -> None:
    with running(by_text) as application, Client(application.url, asks_owners=True) as client:
        application.absent = {f"absent {number}" for number in range(30)}
        for _ in range(2):
            assert [client.get("s", key) for key in application.absent] == [None] * 30
            assert application.asked_at() == [30, 0, 0]


@pytest.mark.parametrize(
    "told",
    [
        *("127.0.0.1:{port}/x", "127.0.0.1:{port}?", "127.0.0.1:{port}#", "me@127.0.0.1:{port}"),
        *("127.0.0.1", "127.0.0.1:0", "a b:1", "[::1:1", "x:y", ""),
    ],
)
def test_an_owner_whose_address_is_none_is_not_asked(told: str) -> None:
    def answering(asked: Asked) -> bytes:
        if "limit=1" in asked.target:
            return answer(200, {"partitions": [], "elsewhere": [0]})
        return answer(200, {"value": 1, "partition": 0}, told.format(port=server.port))

    with scripted(answering) as server, Client(server.url, asks_owners=True) as client:
        for key in TEXTS:
            assert client.get("s", key) == {"value": 1, "partition": 0}
        assert len(server.asked) == len(TEXTS)
        assert all(asked.target.startswith("/v1/stores/s") for asked in server.asked)


@pytest.mark.parametrize(
    "counted",
    [
        pytest.param(answer(400, {}), id="no ranges"),
        pytest.param(Last(), id="nothing"),
        pytest.param(answer(200, {"partitions": 1, "elsewhere": []}), id="another form"),
        pytest.param(answer(200, {"partitions": [1], "elsewhere": [{}]}), id="no numbers"),
        pytest.param(answer(200, {"partitions": [], "elsewhere": [1, 2]}), id="not all"),
        pytest.param(answer(200, {"partitions": [], "elsewhere": []}), id="none"),
    ],
)
def test_a_store_whose_partitions_are_not_told_is_asked_at_the_url(counted: bytes) -> None:
    with running(by_text) as application:

        def answering(asked: Asked) -> bytes:
            return counted if "limit=1" in asked.target else application.answer(0, asked)

        with scripted(answering) as server, Client(server.url, asks_owners=True) as client:
            for _ in range(2):
                check(client, TEXTS)
        assert application.asked_at() == [0, 0, 0]
        ranges = [asked for asked in server.asked if asked.target == "/v1/stores/s?limit=1"]
        assert len(ranges) in (1, 2)  # Over a connection that had been closed it is asked again.


def test_who_is_sent_on_without_a_token_asks_owners_as_well() -> None:
    with running(by_text) as application:

        def sending_on(asked: Asked) -> bytes:
            return sent_on(f"{application.url}{asked.target}")

        with scripted(sending_on) as server, Client(server.url, asks_owners=True) as client:
            check(client, TEXTS)
            application.passed_on.clear()
            check(client, TEXTS)
        assert application.passed_on == []


def test_owners_are_sent_the_token() -> None:
    with running(by_text) as application:
        client = warmed_up(application, TEXTS, token="secret")
        check(client, TEXTS)
        tokens = {
            asked.headers["authorization"] for one in application.processes for asked in one.asked
        }
        assert (tokens, min(application.asked_at()) > 0) == ({"Bearer secret"}, True)
        client.close()


def test_a_client_that_was_pickled_learns_for_itself() -> None:
    with running(by_text) as application:
        client = warmed_up(application, TEXTS)
        again = pickle.loads(pickle.dumps(client))
        check(again, TEXTS)
        assert application.passed_on
        application.passed_on.clear()
        check(again, TEXTS)
        assert application.passed_on == []
        client.close()
        again.close()


def test_threads_are_answered_right_while_partitions_move_and_an_owner_comes_and_goes() -> None:
    wrong: list[object] = []
    done = threading.Event()
    with running(by_text) as application, Client(application.url, asks_owners=True) as client:

        def ask() -> None:
            try:
                for _ in range(10):
                    check(client, TEXTS)
            except (AssertionError, HttpQueryError) as error:
                wrong.append(error)

        def move() -> None:
            while not done.wait(0.01):
                application.shares = {n: (o + 1) % 3 for n, o in application.shares.items()}
                if application.instead.pop(2, None) is None:
                    application.instead[2] = Last()

        asking = [threading.Thread(target=ask) for _ in range(6)]
        moving = threading.Thread(target=move)
        for thread in (*asking, moving):
            thread.start()
        for thread in asking:
            thread.join(DEADLINE_S)
        done.set()
        moving.join(DEADLINE_S)
    assert wrong == []


def test_an_owner_that_cannot_be_reached_is_left_alone() -> None:
    (port,) = ports_in_a_row(1)

    def answering(asked: Asked) -> bytes:
        if "limit=1" in asked.target:
            return answer(200, {"partitions": [], "elsewhere": [0]})
        return answer(200, {"value": 1, "partition": 0}, f"127.0.0.1:{port}")

    with scripted(answering) as server, Client(server.url, asks_owners=True) as client:
        for key in TEXTS:
            assert client.get("s", key) == {"value": 1, "partition": 0}
        assert len(server.asked) == len(TEXTS) + 1


class Clock:
    """Stands still but where it is set."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def learned(owners: KnownOwners, key: str, owner: Owner | None, passed_on_to: str | None) -> None:
    found = {"partition": by_text(key)}
    owners.learn(asked_for("s", key, key, None), found, owner, passed_on_to)


def known(owners: KnownOwners) -> list[Owner | None]:
    return [owners.of(asked_for("s", key, key, None)) for key in TEXTS]


def anybody(place: str) -> bool:
    return True


def counted(clock: Clock) -> KnownOwners:
    """Return what knows how many partitions a store has, from three answers that say so on."""
    owners = KnownOwners(anybody, clock)
    for is_to_be in (False, False, True, False):
        assert owners.is_to_be_counted("s", {"partition": 0}, "a:1") == is_to_be
    owners.counted("s", {"partitions": [], "elsewhere": list(range(PARTITIONS))})
    return owners


def test_three_answers_show_how_keys_are_written() -> None:
    owners = counted(Clock())
    key = TEXTS[0]
    for _ in range(3):
        assert owners.of(asked_for("s", key, key, None)) is None
        learned(owners, key, None, "a:1")
    owner = owners.of(asked_for("s", key, key, None))
    assert owner is not None
    assert owner.place == "a:1"


def test_the_url_is_asked_again_who_has_a_partition_after_half_a_minute() -> None:
    """Who was said to have it may be cut off from the others, or of another application by now."""
    clock = Clock()
    owners = counted(clock)
    for key in TEXTS:
        learned(owners, key, None, "a:1")
    clock.now_s += 29
    for key, owner in zip(TEXTS, known(owners), strict=True):
        assert owner == Owner("a:1", 100.0)
        learned(owners, key, owner, "b:1")  # That it is elsewhere is its word, not the URL's.
    assert known(owners) == [Owner("b:1", 100.0)] * len(TEXTS)
    clock.now_s += 1
    assert known(owners) == [None] * len(TEXTS)
    for key in TEXTS:
        learned(owners, key, None, "b:1")
    assert known(owners) == [Owner("b:1", 130.0)] * len(TEXTS)


def is_learned_after(owners: KnownOwners, clock: Clock, seconds: float) -> bool:
    """Return whether a process is asked again once it is named then."""
    clock.now_s += seconds
    for key in TEXTS:
        learned(owners, key, None, "a:1")
    found = known(owners)
    assert found in ([None] * len(TEXTS), [Owner("a:1", clock.now_s)] * len(TEXTS))
    return found[0] is not None


def proven(owners: KnownOwners) -> object:
    owners.prove("a:1")
    return owners.proof_of("a:1")


@pytest.mark.parametrize("briefly", [False, True])
def test_an_owner_that_has_answered_before_is_asked_again_after_half_a_minute(
    briefly: bool,
) -> None:
    """So is one that is an application's, and has refused."""
    clock = Clock()
    owners = counted(clock)
    for _ in range(3):
        if briefly:
            owners.leave_alone("a:1", briefly=True)
        else:
            owners.refute("a:1", proven(owners))
        assert owners.proof_of("a:1") is None
        assert not is_learned_after(owners, clock, 29)
        assert is_learned_after(owners, clock, 1)


def test_an_owner_that_never_answers_is_asked_after_longer_and_longer_times() -> None:
    clock = Clock()
    owners = counted(clock)
    for minutes in (5, 10, 20, 40, 60, 60):
        owners.leave_alone("a:1")
        assert not is_learned_after(owners, clock, 60 * minutes - 1)
        assert is_learned_after(owners, clock, 1)
    owners.refute("a:1", proven(owners))  # It starts again.
    assert is_learned_after(owners, clock, 30)
    owners.leave_alone("a:1")
    assert not is_learned_after(owners, clock, 299)
    assert is_learned_after(owners, clock, 1)
