"""Asks a running application for its stores over HTTP; needs nothing but Python itself.

    from pystreams.client import Client

    with Client("http://127.0.0.1:8080") as client:
        client.get("counts", "alice")  # {"key": "alice", "value": 3, "partition": 0, ...}
        for entry in client.range("counts"):
            print(entry["key"], entry["value"])

Reading order: `client`, `keys`, `owner_questions`, `owners`, `owner_choice`, `redirects`,
`kept_connections`, `proxies`.
"""

from pystreams.client.client import Client, cut_short, in_partitions
from pystreams.client.errors import HttpQueryError

__all__ = ["Client", "HttpQueryError", "cut_short", "in_partitions"]
