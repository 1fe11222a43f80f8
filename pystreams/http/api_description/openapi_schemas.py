"""The schemas of answers, as `/v1/openapi.json` has them (JSON Schema 2020-12).

They say what is always there, and of what type; more may be added.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer"}
_NUMBER: Schema = {"type": "number"}
_YES_OR_NO: Schema = {"type": "boolean"}


def _object(**properties: Schema) -> Schema:
    """Return the schema of an object that always has these."""
    return {"type": "object", "required": sorted(properties), "properties": properties}


def _list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def schema_named(name: str) -> Schema:
    """Return what refers to a schema of `SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def _or_null(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def _with_optional(schema: Schema, **properties: Schema) -> Schema:
    return {**schema, "properties": schema["properties"] | properties}


_HEALTH: Schema = {"type": "string", "description": "The reason, if not; else empty."}
_WINDOW = _object(start=_COUNT, end=_COUNT)
_WHERE: dict[str, Schema] = {
    "partition": {**_or_null(_COUNT), "description": "null: the whole of a global store."},
    "position": schema_named("Position"),
}
_RESTORE = {
    "restored_records": _COUNT,
    "remaining_records": {**_COUNT, "description": "At most: offsets of changelogs."},
    "records_per_s": _NUMBER,
    "left_s": {**_or_null(_NUMBER), "description": "null while nothing moves."},
}
_ENTRY = _with_optional(
    _object(value={}),
    key={},
    timestamp={**_COUNT, "description": "Of the value (ms)."},
    valid_to={**_or_null(_COUNT), "description": "Of a version: when the next one begins (ms)."},
    window=_WINDOW,
)

SCHEMAS: dict[str, Schema] = {
    "Problem": {
        **_with_optional(
            _object(status=_COUNT, detail=_TEXT),
            reason={**_TEXT, "description": "Why a partition did not answer, as KIP-796 has it."},
            partition=_or_null(_COUNT),
            position=schema_named("Position"),
            owner={**_TEXT, "description": "host:port of the process that has the partition."},
        ),
        "description": "What went wrong, and what to do (RFC 9457).",
    },
    "Alive": _object(alive=_YES_OR_NO, why=_HEALTH),
    "Ready": _object(ready=_YES_OR_NO, why=_HEALTH, troubles=_list(_TEXT)),
    "Description": {"type": "object", "required": ["openapi", "paths"]},
    "Topology": _object(description=_TEXT),
    "Config": {"type": "object", "description": "Values by the keys' names."},
    "Tasks": _list(schema_named("Task")),
    "Task": _object(
        task=_TEXT,
        thread=_TEXT,
        state=_TEXT,
        partitions=_list(_TEXT),
        processed_records=_COUNT,
        processed_per_s=_NUMBER,
        lag_records=_or_null(_COUNT),
        lag_ms={**_or_null(_COUNT), "description": "How old the oldest record that waits is."},
        lag_as_of_ms={**_COUNT, "description": "When was last looked for what waits (ms)."},
        progressed_ms={**_or_null(_COUNT), "description": "When it last processed something."},
        stream_time_ms=_COUNT,
        stores=_list(_TEXT),
    ),
    "Status": _object(
        application_id=_TEXT,
        version=_TEXT,
        at_ms=_COUNT,
        state=_TEXT,
        error=_or_null(_TEXT),
        uptime_s=_NUMBER,
        guarantee=_TEXT,
        threads=_COUNT,
        processed_records=_COUNT,
        processed_per_s=_NUMBER,
        dropped_records=_COUNT,
        calls_again=_COUNT,
        lag_records=_or_null(_COUNT),
        lag_ms=_or_null(_COUNT),
        lag_as_of_ms={**_or_null(_COUNT), "description": "Of the task it was longest ago for."},
        unread_partitions=_COUNT,
        troubles=_list(
            _object(
                trouble=_TEXT, of=_TEXT, why=_TEXT, since_ms=_COUNT, lasted_s=_NUMBER, stack=_TEXT
            )
        ),
        dead_letter_queue=_or_null(_TEXT),
        dead_letter_records=_or_null(_COUNT),
        dead_letters=_list(
            _object(topic=_TEXT, records=_COUNT, causes=_list(schema_named("DeadLetterCause")))
        ),
        commits=_COUNT,
        commit_interval_ms=_COUNT,
        e2e_latency_avg_ms=_or_null(_NUMBER),
        e2e_latency_max_ms=_or_null(_NUMBER),
        uncommitted_bytes=_COUNT,
        uncommitted_max_bytes=_COUNT,
        restore=_object(tasks=_COUNT, **_RESTORE),
        topics=_list(_object(topic=_TEXT, direction=_TEXT, records=_NUMBER, records_per_s=_NUMBER)),
        tasks=schema_named("Tasks"),
        standby_tasks=schema_named("Tasks"),
        processes={
            **_or_null(_list(schema_named("Process"))),
            "description": "Those of the group, this one first; null while it can't be described.",
        },
        subtopologies=_list({"type": "object"}),
        stores=_list(_object(store=_TEXT, task=_TEXT, restore=_or_null(_object(**_RESTORE)))),
    ),
    "Process": _object(
        process=_TEXT,
        host=_TEXT,
        address={**_or_null(_TEXT), "description": "host:port, its application.server."},
        is_here=_YES_OR_NO,
        threads=_COUNT,
        tasks=_list(_TEXT),
        topics=_list(_TEXT),
        runs_another_topology=_YES_OR_NO,
    ),
    "DeadLetterCause": _object(
        stage=_TEXT,
        where=_TEXT,
        error=_TEXT,
        stack=_TEXT,
        records=_COUNT,
        last_ms=_COUNT,
        task=_or_null(_TEXT),
        record=_or_null(_TEXT),
    ),
    "Stores": _list(
        _object(store=_TEXT, kind=_TEXT, engine=_TEXT, logged=_YES_OR_NO, asked_by=_list(_TEXT))
    ),
    "Position": {
        "type": "object",
        "description": "The last offset, by topic and partition.",
        "additionalProperties": {"type": "object", "additionalProperties": _COUNT},
    },
    "Entry": _ENTRY,
    "Value": {
        "description": "The value of a key; of a key in windows, sessions or versions its entries.",
        "anyOf": [
            _with_optional(
                _object(key={}, value={}, **_WHERE),
                timestamp=_COUNT,
                valid_to=_or_null(_COUNT),
            ),
            _object(key={}, entries=_list(schema_named("Entry")), more=_YES_OR_NO, **_WHERE),
        ],
    },
    "Range": _object(
        partitions=_list(_object(entries=_list(schema_named("Entry")), more=_YES_OR_NO, **_WHERE)),
        elsewhere=_list(_COUNT),
    ),
}
