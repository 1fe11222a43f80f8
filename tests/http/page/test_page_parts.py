"""What the page is made of: markup, the picture of a topology, the last lines of the log."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import structlog

from pystreams import JoinWindows, StreamsBuilder, StreamsConfig, serdes
from pystreams.cli.display.logs import configure_logging
from pystreams.http.hidden_secrets import secrets_of
from pystreams.http.page import sections, task_sections
from pystreams.http.page.edge_flows import edge_flows
from pystreams.http.page.log_lines import LastLines
from pystreams.http.page.markup import element
from pystreams.http.page.topology_picture import Flow, picture
from pystreams.http.page.topology_section import TopologySection
from pystreams.http.page.watchers import Frame, Watchers
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.user_tracebacks import traceback_field
from pystreams.runtime.core.failures.error_context import ErrorContext
from pystreams.runtime.core.failures.error_handlers import log_and_continue
from pystreams.topology.plan.topology_plan import TopologyPlan

SECRET = "correct-horse"  # An invented one.


def test_names_of_users_are_text_and_no_markup() -> None:
    shown = element("td", "<script>alert(1)</script>", data_label='"><b>')
    assert shown == (
        '<td data-label="&quot;&gt;&lt;b&gt;">&lt;script&gt;alert(1)&lt;/script&gt;</td>'
    )


def test_tasks_kept_warm_are_shown_with_what_they_lack() -> None:
    def standby(task: str, lag: int | None) -> dict[str, Any]:
        thread = "app-StreamThread-2"
        return {
            "task": task,
            "state": "standby",
            "lag_records": lag,
            "lag_as_of_ms": 0,
            "thread": thread,
        }

    rows = [standby("0_1", 0), standby("0_2", 1234), standby("0_3", None)]
    now = {"at_ms": 0, "state": "RUNNING", "tasks": [], "standby_tasks": rows}
    shown = str(task_sections.tasks(now))

    for told in ("0_1", "standby, warm", "standby, 1,234 behind", "StreamThread-2"):
        assert told in shown


NUMBERS: dict[str, Any] = {
    "at_ms": 100_000,
    "commit_latency_p99_ms": None,
    "commit_interval_ms": 100,
    "lag_records": 0,
    "processed_per_s": 0.0,
    "unread_partitions": 0,
    "uncommitted_bytes": 0,
    "uncommitted_max_bytes": 0,
    "processed_records": 1200,
    "dropped_records": 0,
    "calls_again": 0,
    "commits": 3,
    "lag_ms": 0.0,
    "lag_as_of_ms": 99_900,
    "e2e_latency_avg_ms": None,
    "e2e_latency_max_ms": None,
}


def test_functions_that_are_called_again_are_counted_beside_the_records() -> None:
    shown = sections.numbers({**NUMBERS, "calls_again": 7}, (0, 0))

    assert "1,200 processed, 7 calls again" in shown
    assert "again" not in sections.numbers(NUMBERS, (0, 0))


@pytest.mark.parametrize(
    ("lag", "rate", "told"),
    [
        (None, 0.0, "not known for 12 s"),
        (5, 0.0, "20 s old; nothing is processed; as of 12 s ago"),
        (5, 1.0, "20 s old; about 5.0 s at this rate; in part as of 12 s ago"),
    ],
)
def test_a_lag_that_nobody_has_looked_for_lately_says_so(
    lag: int | None, rate: float, told: str
) -> None:
    shown = {"lag_records": lag, "lag_ms": 20_000 if lag else None, "processed_per_s": rate}

    assert told in sections.numbers({**NUMBERS, **shown, "lag_as_of_ms": 88_000}, (0, 0))
    fresh = sections.numbers({**NUMBERS, **shown}, (0, 0))
    assert told not in fresh
    assert "as of" not in fresh


# ---------------------------------------------------------------------- the picture


def joined_topology() -> StreamsBuilder:
    builder = StreamsBuilder()
    left, right = (
        builder.stream(topic, key_serde=serdes.STRING, value_serde=serdes.STRING)
        for topic in ("left", "right")
    )
    pairs = left.filter(lambda _, value: bool(value)).join(
        right,
        lambda first, second: first + second,
        JoinWindows.of_time_difference_with_no_grace(1000),
    )
    pairs.to("pairs", key_serde=serdes.STRING, value_serde=serdes.STRING)
    left.merge(right).to("all", key_serde=serdes.STRING, value_serde=serdes.STRING)
    return builder


def test_a_picture_has_each_node_once_beside_the_others_and_sources_left_of_sinks() -> None:
    (part,) = joined_topology().build().describe().subtopologies
    drawn = ET.fromstring(picture(part.nodes, Flow(), {}))
    boxes = {
        title.split(",")[0]: tuple(
            float(rect.attrib[side]) for side in ("x", "y", "width", "height")
        )
        for group in drawn.iter("g")
        for title in [group.findtext("title") or ""]
        for rect in group.iter("rect")
    }
    assert boxes.keys() == {node.name for node in part.nodes}
    for name, (x, y, width, height) in boxes.items():
        for other, (other_x, other_y, other_width, other_height) in boxes.items():
            apart = (
                x + width < other_x
                or other_x + other_width < x
                or y + height < other_y
                or other_y + other_height < y
            )
            assert apart or name == other, f"{name} lies on {other}"
    edges = [(node, successor) for node in part.nodes for successor in node.successors]
    assert all(boxes[node.name][0] < boxes[successor][0] for node, successor in edges)
    assert len(list(drawn.iter("path"))) >= len(edges)


def test_a_picture_says_what_flows_and_the_real_names_of_topics() -> None:
    (part,) = joined_topology().build().describe().subtopologies
    source = next(node for node in part.nodes if node.topics == ("left",))
    flow = Flow(
        rates={(source.name, source.successors[0]): "12/s"},
        lags={source.name: "lag 7"},
        slowest=source.successors[0],
    )
    drawn = picture(part.nodes, flow, {"left": "application-left"})
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
    assert {"12/s", "lag 7"} <= set(texts)
    assert drawn.count('class="processor slowest"') == 1
    assert "application-left" in texts
    assert "all" in texts


def merged_topology() -> StreamsBuilder:
    """Return one with ways of several lengths to a node."""
    builder = StreamsBuilder()
    one, two, three = (
        builder.stream(topic, key_serde=serdes.STRING, value_serde=serdes.STRING)
        for topic in ("one", "two", "three")
    )
    longest = one.map_values(str.lower).map_values(str.upper).map_values(str.lower)
    merged = longest.merge(two.map_values(str.upper)).merge(three)
    merged.merge(two).to("all", key_serde=serdes.STRING, value_serde=serdes.STRING)
    return builder


@pytest.mark.parametrize("declared", [joined_topology, merged_topology])
def test_no_rate_of_an_edge_lies_on_another(declared: Callable[[], StreamsBuilder]) -> None:
    (part,) = declared().build().describe().subtopologies
    edges = [(node.name, successor) for node in part.nodes for successor in node.successors]
    flow = Flow(rates={edge: f"{number}/s" for number, edge in enumerate(edges, 10)})
    texts = [
        (float(text.attrib["x"]), float(text.attrib["y"]), text.attrib["text-anchor"])
        for text in ET.fromstring(picture(part.nodes, flow, {})).iter("text")
        if text.attrib["class"] == "rate"
    ]
    assert len(texts) == len(edges)
    # As the page has them, four letters are 26 wide at most, and 12 high.
    boxes = [(x - (26 if anchor == "end" else 13), y) for x, y, anchor in texts]
    for number, (x, y) in enumerate(boxes):
        for other_x, other_y in boxes[:number]:
            assert abs(x - other_x) >= 26 or abs(y - other_y) >= 12, (edges[number], boxes)


def test_each_source_says_what_waits_in_its_topics() -> None:
    section = TopologySection(TopologyPlan(joined_topology().build(), "app"))
    part = {
        "subtopology": 0,
        "tasks": 2,
        "lag_records": 1_240,
        "nodes": {},
        "in": {},
        "out": {},
        "lags": {"left": 1_234, "right": 6},
    }

    shown = section.draw({"subtopologies": [part], "topics": []})

    assert [lag for lag in ("lag 1,234<", "lag 6<") if lag in shown] == ["lag 1,234<", "lag 6<"]
    assert "2 tasks · lag 1,240" in shown


def test_what_goes_along_an_edge_follows_from_what_is_counted_at_topics() -> None:
    builder = StreamsBuilder()
    text: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
    kept = builder.stream("in", **text).peek(print).filter(lambda _, value: bool(value))
    kept.map_values(str.upper).to("out", **text)
    topology = builder.build()
    (part,) = topology.describe().subtopologies
    operators = {name: getattr(node, "operator", None) for name, node in topology.nodes.items()}
    source, peek, kept_node, mapped, sink = sorted(
        (node.name for node in part.nodes), key=lambda name: name[-10:]
    )

    flows = edge_flows(part.nodes, operators, {source: 10.0, sink: 4.0}, {})

    assert flows == {
        (source, peek): 10.0,
        (peek, kept_node): 10.0,
        (kept_node, mapped): 4.0,
        (mapped, sink): 4.0,
    }
    assert edge_flows(part.nodes, operators, {}, {}) == {}


def test_edges_into_a_node_behind_several_have_the_rates_that_were_counted() -> None:
    topology = joined_topology().build()
    section = TopologySection(TopologyPlan(topology, "app"))
    (part,) = topology.describe().subtopologies
    merge = next(node for node in part.nodes if node.name.startswith("KSTREAM-MERGE"))
    ways = sorted(merge.predecessors)
    assert all("JOIN" in way for way in ways)

    def drawn(**given: float) -> list[str]:
        node = {"records_per_s": 7.0, "busy_share": None, "records_per_s_from": given}
        row = {
            "subtopology": 0,
            "tasks": 1,
            "lag_records": 0,
            "nodes": {merge.name: node},
            "in": {},
            "out": {},
            "lags": {},
        }
        text = section.draw({"subtopologies": [row], "topics": []})
        return re.findall(r'class="rate"[^>]*>([^<]*)<', text)

    assert sorted(drawn(**dict(zip(ways, (5.0, 2.0), strict=True)))) == ["2.0/s", "5.0/s", "7.0/s"]
    assert sorted(drawn(**{ways[0]: 7.0})) == ["0/s", "7.0/s", "7.0/s"]
    # Who gave it the rest is not known.
    assert drawn(**{ways[0]: 5.0, "": 2.0}) == []


# ---------------------------------------------------------------------- the log


@pytest.fixture
def kept() -> Iterator[LastLines]:
    logger, lines = logging.getLogger("pystreams"), LastLines()
    logger.addHandler(lines)
    yield lines
    logger.removeHandler(lines)


@pytest.mark.parametrize("configured", [False, True], ids=["a program's", "the command's"])
def test_last_lines_are_kept_however_logging_is_set_up(kept: LastLines, configured: bool) -> None:
    if configured:
        configure_logging("info", "json")
    log = get_logger("pystreams.tests")
    log.info("nothing to see")
    for number in range(25):
        log.warning("record dropped", offset=number)
    lines = kept.latest([])
    assert len(lines) == 20
    assert "record dropped" in lines[0].event
    assert "offset=24" in f"{lines[0].event} {lines[0].details}"
    assert lines[0].level == "warning"


def test_secrets_of_the_configuration_are_not_shown(kept: LastLines) -> None:
    config = StreamsConfig.of(
        {"application.id": "a", "bootstrap.servers": "b:1", "sasl.password": SECRET}
    )
    get_logger("pystreams.tests").error(f"refused {SECRET}", ssl="ssl.key.password=abc")
    (line,) = kept.latest(secrets_of(config))
    shown = f"{line.event} {line.details}"
    assert "refused (hidden)" in shown
    assert SECRET not in shown
    assert "abc" not in shown


@pytest.mark.parametrize("configured", [False, True], ids=["a program's", "the command's"])
def test_a_stack_that_was_logged_stands_elsewhere(kept: LastLines, configured: bool) -> None:
    if configured:
        configure_logging("info", "json")
    get_logger("pystreams.tests").warning("stands still", of="thread-1", stack="  File x, line 7")
    (line,) = kept.latest([])
    assert "of=" in f"{line.event} {line.details}"
    assert "line 7" not in f"{line.event} {line.details}"


def test_of_a_traceback_the_last_line_is_kept(kept: LastLines) -> None:
    for _ in range(2):
        try:
            raise ValueError("no number")
        except ValueError:
            get_logger("pystreams.tests").exception("stream thread failed")
        configure_logging("info", "json")
    assert structlog.is_configured()
    assert [line.details for line in kept.latest([])] == ["ValueError: no number"] * 2


@pytest.mark.parametrize("configured", [False, True], ids=["a program's", "the command's"])
def test_what_a_line_says_of_its_error_is_shown_once(kept: LastLines, configured: bool) -> None:
    if configured:
        configure_logging("info", "json")
    skipped = ValueError("order 7 has 'no' pieces")
    try:
        raise skipped
    except ValueError as error:
        log_and_continue(ErrorContext("processing", node="price", offset=7), error)
    get_logger("pystreams.tests").warning("failed", error="another one", **traceback_field(skipped))
    other, line = kept.latest([])
    assert f"{line.event} {line.details}".count("pieces") == 1
    assert "ValueError: order 7 has" in f"{line.event} {line.details}"
    assert "another one" in f"{other.event} {other.details}"
    assert other.details.endswith("ValueError: order 7 has 'no' pieces")


# ---------------------------------------------------------------------- those who watch


class Browser:
    """One who watches: takes events at once, or never."""

    def __init__(self, *, slow: bool = False) -> None:
        self.taken: list[bytes] = []
        self.has_taken = asyncio.Event()
        self._slow = slow

    async def receive(self) -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, message: Any) -> None:
        if self._slow:
            await asyncio.Event().wait()
        self.taken.append(message["body"])
        self.has_taken.set()


def test_slow_watchers_are_let_go_and_others_go_on_on_the_same_frames() -> None:
    rendered = 0
    slow, quick, late = Browser(slow=True), Browser(), Browser()

    def render() -> Frame:
        nonlocal rendered
        rendered += 1
        return Frame({"head": "always", "numbers": str(rendered)}, is_last=rendered == 20)

    async def watch() -> None:
        watchers = Watchers(render, every_s=0.001)
        watching = [
            asyncio.ensure_future(watchers.serve(browser.receive, browser.send))
            for browser in (slow, quick)
        ]
        await asyncio.wait_for(watching[0], 60)  # It is let go, long before the last frame.
        assert rendered < 20
        watching.append(asyncio.ensure_future(watchers.serve(late.receive, late.send)))
        await asyncio.wait_for(asyncio.gather(*watching), 60)

    asyncio.run(watch())
    assert slow.taken == []
    assert quick.taken[0] == b'data: {"head":"always","numbers":"1"}\n\n'
    assert quick.taken[1:-1] == [
        f'data: {{"numbers":"{number}"}}\n\n'.encode() for number in range(2, 21)
    ]
    assert quick.taken[-1] == b""
    assert b"always" in late.taken[0]
    assert rendered == 20


def test_who_watches_is_told_of_the_end_before_the_server_closes() -> None:
    state = "RUNNING"
    browser = Browser()

    async def watch() -> None:
        nonlocal state
        watchers = Watchers(lambda: Frame({"head": state}, is_last=False), every_s=3600)
        watching = asyncio.ensure_future(watchers.serve(browser.receive, browser.send))
        await browser.has_taken.wait()
        state = "ERROR"
        await asyncio.wait_for(watchers.close(), 60)
        await asyncio.wait_for(watching, 60)

    asyncio.run(watch())
    frames = [b'data: {"head":"RUNNING"}\n\n', b'data: {"head":"ERROR"}\n\n', b""]
    assert browser.taken == frames


def test_who_watches_is_let_go_when_nothing_can_be_shown(kept: LastLines) -> None:
    def render() -> Frame:
        raise ValueError("no such number")

    async def watch() -> None:
        browser = Browser()
        await asyncio.wait_for(Watchers(render).serve(browser.receive, browser.send), 60)
        assert browser.taken == []

    asyncio.run(watch())
    (line,) = kept.latest([])
    assert "the page can't be shown" in line.event
    assert line.details == "ValueError: no such number"
