"""Health, metrics, state and queries of a running application over HTTP (extra `http`).

A server in threads of its own, beside the stream threads. It shows what the application publishes
(`snapshot`), and asks its stores by `KafkaStreams.query`; it changes nothing. Needs Starlette and
uvicorn, which are imported with `pystreams.http.server`.
"""

NOT_INSTALLED = "HTTP needs more than the library alone: pip install 'pystreams-kafka[http]'"
"""What to say when `pystreams.http.server` can't be imported."""
