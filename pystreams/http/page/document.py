"""The page as a whole: where its parts stand."""

from __future__ import annotations

from collections.abc import Mapping

from pystreams.http.page.markup import Markup, element, joined

PARTS = (
    *("head", "numbers", "troubles", "restore"),
    *("topology", "tasks", "processes", "stores", "query", "letters", "lines"),
)
_TITLES = {
    "topology": "Topology",
    "tasks": "Tasks",
    "stores": "Stores",
    "lines": "Last warnings and errors",
}


def document(title: str, parts: Mapping[str, Markup], *, asks_for_token: bool) -> str:
    """Return the page.

    Args:
        title: What the browser's tab says.
        parts: What `PARTS` hold; those that are missing come later.
        asks_for_token: Whether what is shown is for those who have the token.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("link", rel="icon", href="data:,"),
        element("link", rel="stylesheet", href="page.css"),
        element("script", src="page.js", defer=True),
    )

    def part(name: str) -> Markup:
        return element("div", parts.get(name), id=name)

    body = element(
        "body",
        element("p", id="connection", role="status", hidden=True),
        _token_form() if asks_for_token else None,
        element(
            "main",
            element("header", part("head")),
            part("numbers"),
            part("troubles"),
            part("restore"),
            _section("topology", part("topology")),
            _section("tasks", part("tasks"), part("processes")),
            _section(
                "stores",
                part("stores"),
                part("query"),
                element("pre", id="answer", role="status", hidden=True),
            ),
            part("letters"),
            _section("lines", part("lines")),
            id="shown",
            hidden=asks_for_token,
        ),
    )
    return "<!doctype html>\n" + element("html", head, body, lang="en")


def _section(name: str, *children: Markup) -> Markup:
    return element("section", element("h2", _TITLES[name]), joined(children))


def _token_form() -> Markup:
    return element(
        "form",
        element("h1", "pystreams"),
        element(
            "label",
            "Token",
            element("input", type="password", name="token", autocomplete="off", required=True),
        ),
        element("button", "Show"),
        element("p", id="refused", role="alert"),
        element("noscript", "With a token the page needs JavaScript; /v1/status does not."),
        id="token",
    )
