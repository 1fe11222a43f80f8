"""A registry that keeps rules and the keys of fields, as Confluent's does, for what no other has.

It listens on loopback and speaks as much of Confluent's API as serializers ask for: subjects,
schemas by id and GUID, and `/dek-registry`. A schema that is registered without rules in a subject
that has some gets those of the version before; Protobuf is given as text unless a descriptor is
asked for.
"""

from __future__ import annotations

import base64
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

import orjson
from confluent_kafka.schema_registry import RuleSet

from tests.registry.rule_sets import BILL_PROTOBUF, BILL_TEXT

_USER = "ada:a secret of the registry"


class RulesRegistry:
    """Answers until it is left.

    Attributes:
        config: How a client reaches it.
        asked: The paths that it was asked for.
        keys_are_down: Whether it refuses to say anything of keys.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.keys_are_down = False
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}
        self._keys: dict[str, dict[str, Any]] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry._answer(self)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.config = {
            "url": f"http://127.0.0.1:{self._server.server_port}",
            "basic.auth.user.info": _USER,
            "max.retries": 0,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"] or 0))
        path = urlsplit(request.path)
        self.asked.append(path.path)
        expected = f"Basic {base64.b64encode(_USER.encode()).decode()}"
        status, answer = 401, {"error_code": 401, "message": "Unauthorized"}
        if request.headers["Authorization"] == expected:
            parts = [unquote(part) for part in path.path.strip("/").split("/")]
            form = parse_qs(path.query).get("format", [""])[0]
            status, answer = self._of(parts, orjson.loads(body) if body else None, form)
        data = orjson.dumps(answer)
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    def _of(self, parts: list[str], body: Any, form: str) -> tuple[int, dict[str, Any]]:
        match parts:
            case ["dek-registry", "v1", "keks", *names]:
                return self._key("/".join(names), body)
            case ["subjects", subject, "versions"]:
                number = self.register(subject, body)
                return 200, {"id": number, "guid": self._schemas[number - 1]["guid"]}
            case ["subjects", subject]:
                found = [
                    number
                    for number in self._subjects.get(subject, [])
                    if self._is_asked_for(self._schemas[number - 1], body)
                ]
                return self._version(subject, found[-1] if found else None, form)
            case ["subjects", subject, "versions", version]:
                numbers = self._subjects.get(subject, [])
                at = len(numbers) if version == "latest" else int(version)
                found_at = numbers[at - 1] if 0 < at <= len(numbers) else None
                return self._version(subject, found_at, form)
            case ["schemas", "ids", number]:
                return 200, self._shown(int(number), form)
            case ["schemas", "guids", guid]:
                guids = [schema["guid"] for schema in self._schemas]
                return 200, self._shown(guids.index(guid) + 1, form)
        raise AssertionError(parts)

    def register(self, subject: str, body: dict[str, Any]) -> int:
        """Return the id of a schema that a subject has now."""
        numbers = self._subjects.setdefault(subject, [])
        schema = dict(body)
        if numbers:
            before = self._schemas[numbers[-1] - 1]
            for part in ("metadata", "ruleSet"):
                schema.setdefault(part, before.get(part))
        for number in numbers:
            if _without_guid(self._schemas[number - 1]) == schema:
                return number
        self._schemas.append({**schema, "guid": str(uuid.uuid4())})
        numbers.append(len(self._schemas))
        return numbers[-1]

    @staticmethod
    def _is_asked_for(schema: dict[str, Any], body: dict[str, Any]) -> bool:
        texts = {BILL_TEXT: BILL_PROTOBUF}
        asked = texts.get(body["schema"], body["schema"])
        return bool(schema["schema"] == asked) and (
            "ruleSet" not in body or _rules(schema) == _rules(body)
        )

    def _version(self, subject: str, number: int | None, form: str) -> tuple[int, dict[str, Any]]:
        if number is None:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        version = self._subjects[subject].index(number) + 1
        about = {"subject": subject, "version": version, "id": number}
        return 200, {**self._shown(number, form), **about}

    def _shown(self, number: int, form: str) -> dict[str, Any]:
        schema = self._schemas[number - 1]
        if schema["schema"] == BILL_PROTOBUF and form != "serialized":
            return {**schema, "schema": BILL_TEXT}
        return schema

    def _key(self, name: str, body: Any) -> tuple[int, dict[str, Any]]:
        if self.keys_are_down:
            return 500, {"error_code": 50070, "message": "no keys today"}
        if body is not None:
            name = f"{name}/versions/{body['version']}" if name else body["name"]
            self._keys.setdefault(name, {"kekName": name.split("/")[0], **body, "ts": 0})
        if name not in self._keys:
            return 404, {"error_code": 40470, "message": "Key not found"}
        return 200, self._keys[name]


def _rules(schema: dict[str, Any]) -> RuleSet | None:
    found = schema.get("ruleSet")
    return None if found is None else RuleSet.from_dict(found)


def _without_guid(schema: dict[str, Any]) -> dict[str, Any]:
    return {part: said for part, said in schema.items() if part != "guid"}
