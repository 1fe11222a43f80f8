"""Answers every request with the same bytes: whoever asks it has the work of asking, and no more.

Runs until it is killed.
"""

from __future__ import annotations

import argparse
import selectors
import socket

_BODY = b'{"key":"key0000001","value":1,"timestamp":1,"partition":0,"position":{"input":{"0":1}}}'
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)


def serve(listening: socket.socket) -> None:
    """Answer for ever."""
    selector = selectors.DefaultSelector()
    selector.register(listening, selectors.EVENT_READ)
    while True:
        for found, _ in selector.select():
            ready = found.fileobj
            assert isinstance(ready, socket.socket)
            if ready is listening:
                connection, _ = listening.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(connection, selectors.EVENT_READ)
            elif ready.recv(1 << 16):
                ready.send(_ANSWER)
            else:
                selector.unregister(ready)
                ready.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    with socket.create_server(("127.0.0.1", parser.parse_args().port)) as listening:
        print("listening", flush=True)
        serve(listening)


if __name__ == "__main__":
    main()
