"""All that is served, as one table: routes and what describes them (`openapi`) are made of it."""

from __future__ import annotations

from dataclasses import dataclass

from pystreams.http.api_description.parameters import ALWAYS

_STORE = ("store",)
_OF_A_STORE = (400, 404, 421, 500, 503)


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that can be asked.

    Attributes:
        path: Its path, as Starlette writes it.
        answer: The name of the answer's schema, or its media type where that is no JSON.
        in_query: The parameters that it knows in the query, some of them for some stores only.
        in_path: Those in its path.
        problems: With which statuses it is refused, beside those of all.
        is_open: Whether it is told to anybody who reaches it, with a token or without.
    """

    name: str
    path: str
    summary: str
    answer: str
    in_query: tuple[str, ...] = ()
    in_path: tuple[str, ...] = ()
    statuses: tuple[int, ...] = (200,)
    problems: tuple[int, ...] = ()
    is_open: bool = False

    @property
    def is_json(self) -> bool:
        """Whether the answer is JSON, by a schema."""
        return "/" not in self.answer


OPERATIONS = (
    Operation(
        "livez",
        "/livez",
        "Whether the process should go on; 503 with the reason if not.",
        "Alive",
        statuses=(200, 503),
        is_open=True,
    ),
    Operation(
        "readyz",
        "/readyz",
        "Whether all tasks of the process run; 503 with the reason if not.",
        "Ready",
        statuses=(200, 503),
        is_open=True,
    ),
    Operation("metrics", "/metrics", "All metrics, for Prometheus.", "text/plain"),
    Operation("openapi", "/v1/openapi.json", "This description.", "Description"),
    Operation(
        "status",
        "/v1/status",
        "State, rates, lag, commits, restore, topics, tasks and stores, a second old at most.",
        "Status",
    ),
    Operation("tasks", "/v1/tasks", "The tasks of the process.", "Tasks"),
    Operation("topology", "/v1/topology", "What `pystreams describe` prints.", "Topology"),
    Operation("config", "/v1/config", "The configuration; secrets are hidden.", "Config"),
    Operation("page", "/", "The page for people.", "text/html", is_open=True),
    Operation("style", "/page.css", "The page's style.", "text/css", is_open=True),
    Operation("script", "/page.js", "The page's script.", "text/javascript", is_open=True),
    Operation(
        "events",
        "/v1/events",
        "The parts of the page as they change, as server-sent events.",
        "text/event-stream",
        problems=(503,),
    ),
    Operation("stores", "/v1/stores", "The stores, and what each can be asked.", "Stores"),
    Operation(
        "entries",
        "/v1/stores/{store}",
        "A range, partition by partition.",
        "Range",
        in_path=_STORE,
        in_query=(*ALWAYS, "from", "to", "order", "limit", "time_from", "time_to"),
        problems=_OF_A_STORE,
    ),
    Operation(
        "value",
        "/v1/stores/{store}/{key:key}",
        "What a store has of a key.",
        "Value",
        in_path=(*_STORE, "key"),
        in_query=(*ALWAYS, "as_of", "time_from", "time_to"),
        problems=_OF_A_STORE,
    ),
)
