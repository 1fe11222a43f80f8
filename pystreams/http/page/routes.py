"""What the page adds to the server: `/`, its style and script, and `/v1/events`."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from pystreams.http.hidden_secrets import secrets_of
from pystreams.http.page import sections, task_sections, trouble_sections
from pystreams.http.page.document import document
from pystreams.http.page.log_lines import last_lines
from pystreams.http.page.markup import Markup
from pystreams.http.page.topology_section import TopologySection
from pystreams.http.page.watchers import Frame, Watchers
from pystreams.http.snapshot import Snapshots
from pystreams.kernel.clock import SystemClock
from pystreams.runtime.application.client_state import State
from pystreams.runtime.application.kafka_streams import KafkaStreams
from pystreams.topology.plan.topology_plan import TopologyPlan

_STOPPED = {State.NOT_RUNNING.value, State.ERROR.value}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class PageEndpoints(NamedTuple):
    """What answers for the page.

    Attributes:
        by_name: By the names of operations.
        watchers: Those who watch it.
    """

    by_name: dict[str, Callable[[Request], Any]]
    watchers: Watchers


def page_endpoints(
    streams: KafkaStreams, snapshots: Snapshots, *, asks_for_token: bool
) -> PageEndpoints:
    """Return what answers for the page of an application."""
    page = _Page(streams, snapshots, asks_for_token=asks_for_token)
    watchers = Watchers(page.frame)
    by_name = {
        "page": page.whole,
        "style": _asset("page.css", "text/css"),
        "script": _asset("page.js", "text/javascript"),
        "events": watchers.events,
    }
    return PageEndpoints(by_name, watchers)


class _Page:
    """Renders the page of one application."""

    def __init__(
        self, streams: KafkaStreams, snapshots: Snapshots, *, asks_for_token: bool
    ) -> None:
        self._snapshots = snapshots
        self._asks_for_token = asks_for_token
        plan = TopologyPlan(streams.topology, streams.config.application_id)
        self._topology = TopologySection(plan)
        self._stores = [builder.spec for _, builder in sorted(streams.topology.stores.items())]
        self._lines, self._since_ms = last_lines(), SystemClock().now_ms()
        self._secrets = secrets_of(streams.config)

    def whole(self, _: Request) -> Response:
        """Answer with the page; without what it shows if there is a token."""
        if self._asks_for_token:
            text = document("pystreams", {}, asks_for_token=True)
        else:
            now = self._snapshots.latest()
            title = f"{now['application_id']} · {now['state']}"
            text = document(title, self._parts(now), asks_for_token=False)
        return Response(
            text, headers=_HEADERS | {"cache-control": "no-store"}, media_type="text/html"
        )

    def frame(self) -> Frame:
        """Return the parts of the page as they are now."""
        now = self._snapshots.latest()
        title = Markup(f"{now['application_id']} · {now['state']}")
        parts = {name: str(part) for name, part in self._parts(now).items()}
        return Frame(parts | {"title": title}, now["state"] in _STOPPED)

    def _parts(self, now: dict[str, Any]) -> dict[str, Markup]:
        return {
            "head": sections.head(now),
            "numbers": sections.numbers(now, self._topology.flow(now)),
            "troubles": trouble_sections.troubles(now),
            "restore": sections.restore(now),
            "topology": self._topology.draw(now),
            "tasks": task_sections.tasks(now),
            "processes": task_sections.processes(now),
            "stores": sections.stores(now, self._stores, linked=not self._asks_for_token),
            "query": sections.query_box(self._stores),
            "letters": trouble_sections.letters(now),
            "lines": sections.lines(self._lines.latest(self._secrets, self._since_ms)),
        }


def _asset(name: str, media_type: str) -> Callable[[Request], Any]:
    content = files("pystreams.http.page").joinpath("assets", name).read_bytes()

    async def answer(_: Request) -> Response:
        headers = _HEADERS | {"cache-control": "no-cache"}
        return Response(content, headers=headers, media_type=media_type)

    return answer
