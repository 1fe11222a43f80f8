"""Tables, which become lists of cards on a phone."""

from __future__ import annotations

from collections.abc import Sequence

from pystreams.http.page.markup import Markup, element


def table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[int] = ()
) -> Markup:
    """Return a table; its cells know their titles, for phones."""
    kinds = ["numeric" if at in numeric else None for at in range(len(titles))]
    return element(
        "table",
        element(
            "thead",
            element(
                "tr",
                [
                    element("th", title, class_=kind, scope="col")
                    for title, kind in zip(titles, kinds, strict=True)
                ],
            ),
        ),
        element(
            "tbody",
            [
                element(
                    "tr",
                    [
                        element("td", cell, class_=kind, data_label=title)
                        for cell, title, kind in zip(row, titles, kinds, strict=True)
                    ],
                )
                for row in rows
            ],
        ),
    )
