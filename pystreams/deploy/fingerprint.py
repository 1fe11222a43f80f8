"""What is to be known of a topology to tell what another one makes of its state, as plain JSON.

    {"format": 1,
     "stores": {"counts": {"kind": "window", "windows": {"type": "TimeWindows", ...}, ...}},
     "repartition_topics": {"by-name-repartition": {...}},
     "subtopologies": {"0": {"sources": [...], "sinks": [...], "stores": [...]}},
     "digest": "4-9f86d081884c7d65",
     "former_stores": {},
     "circles": []}

`pystreams describe --json` prints it, and an application keeps it beside its state. There,
`digest` tells topologies apart whose state differs, by stores and repartition topics without places
in the user's code; groups note it (`runtime.cluster.topology_note`). The number before its dash is
that of its form: digests of different forms can't be compared.
`former_stores` has what earlier versions have left: their changelogs may still be there. `circles`
tells the sinks whose records come back to them, for people.

`describe` adds what the start would say with the configuration: `refused`, and `doubts` where it
may be refused.

Names are without the application's id. A number of partitions is None where only a broker knows it.
What a user's functions do can't be seen, and is not in it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from pystreams.deploy.operator_facts import (
    Facts,
    is_global,
    is_windowed,
    join_of,
    places_of,
    windows_made_by,
    windows_of,
)
from pystreams.deploy.serde_formats import facts_of
from pystreams.serdes import Serde, filled, filled_value
from pystreams.stores.contracts.spec import StoreEngine, StoreSpec
from pystreams.topology.graph.naming import is_generated
from pystreams.topology.graph.nodes import ProcessorNode, SinkNode, SourceNode
from pystreams.topology.graph.topology import Topology
from pystreams.topology.operators.joins.foreign_key_join import SubscriptionReceiveOperator
from pystreams.topology.operators.records.distinct import DistinctOperator
from pystreams.topology.operators.tables.results import ResultsOperator
from pystreams.topology.plan.own_output import circles_of
from pystreams.topology.plan.partition_plan import PartitionPlan
from pystreams.topology.plan.topology_plan import TopologyPlan

FORMAT = 1
_DIGEST_FORM = 4
_NO_ID = "application"

Fingerprint = dict[str, Any]
"""What is known of a topology; see above."""


def fingerprint_of(
    topology: Topology,
    default_key_serde: Serde[Any] | None = None,
    default_value_serde: Serde[Any] | None = None,
) -> Fingerprint:
    """Return what is to be known of a topology.

    Args:
        default_key_serde: The configured `default.key.serde`; None where that is not known.
        default_value_serde: The configured `default.value.serde`; likewise.

    Raises:
        TopologyError: The topology can't run.
    """
    return _Reader(topology, default_key_serde, default_value_serde).read()


def with_partitions(
    fingerprint: Fingerprint, application_id: str, partitions: PartitionPlan
) -> Fingerprint:
    """Return a fingerprint with the partition counts that the broker has told.

    What the topology itself says of repartition topics is there as `declared_partitions`.
    """
    counts, tasks = partitions.num_partitions, partitions.num_tasks
    topics = {
        name: {
            **facts,
            "partitions": counts.get(f"{application_id}-{name}", facts["partitions"]),
            "declared_partitions": facts["partitions"],
        }
        for name, facts in fingerprint["repartition_topics"].items()
    }
    stores = {
        name: {**facts, "partitions": tasks.get(facts["subtopology"])}
        for name, facts in fingerprint["stores"].items()
    }
    return {**fingerprint, "repartition_topics": topics, "stores": stores}


class _Reader:
    def __init__(
        self, topology: Topology, key_serde: Serde[Any] | None, value_serde: Serde[Any] | None
    ) -> None:
        self._topology = topology
        self._plan = TopologyPlan(topology, _NO_ID)
        self._key_serde, self._value_serde = key_serde, value_serde
        self._shapes: dict[str, str] = {}
        self._topics: dict[str, frozenset[str]] = {}
        self._key_windows: dict[str, list[Facts]] = {}
        self._joins: dict[str, Facts] = {}

    def read(self) -> Fingerprint:
        topology, plan = self._topology, self._plan
        for name in topology.nodes:
            self._trace(name)
        stores: dict[str, Facts] = {}
        for part in plan.subtopologies:
            restored_from = plan.source_changelogs(part)
            for store in part.stores:
                stores[store] = self._store(store, part.id, restored_from.get(store))
        for store, topic in topology.global_stores.items():
            stores[store] = self._store(store, None, topic)
        found: Fingerprint = {
            "format": FORMAT,
            "stores": stores,
            "repartition_topics": {
                name: self._repartition(name) for name in topology.repartition_topics
            },
            "subtopologies": {
                str(part.id): self._subtopology(part.id) for part in plan.subtopologies
            },
        }
        return {
            **found,
            "digest": _digest_of(found),
            "former_stores": {},
            "circles": circles_of(topology),
        }

    # ------------------------------------------------------------------ stores

    def _store(self, name: str, subtopology: int | None, restored_from: str | None) -> Facts:
        builder = self._topology.stores[name]
        spec, retention = builder.spec, builder.spec.retention
        writers = self._writers(name)
        joined = next(filter(None, (self._joins[node] for node in writers)), {})
        return {
            "kind": spec.kind.name,
            "engine": _engine(spec, builder.engine),
            "logged": builder.logging and restored_from is None,
            "restored_from": self._unprefixed(restored_from),
            "generated": name in self._topology.generated_names,
            "subtopology": subtopology,
            "partitions": None,
            "timestamped": spec.engine_timestamped,
            **self._serdes(spec.key_serde, spec.value_serde),
            "windows": next(filter(None, map(self._windows, writers)), None),
            "key_windows": self._windows_in_keys(spec.key_serde, writers),
            "identity": next(filter(None, map(self._identity, writers)), None),
            "retention": None if retention is None else dataclasses.asdict(retention),
            "ttl_ms": spec.ttl_ms,
            "max_entries": spec.max_entries,
            "places": places_of(self._topology, writers, self._topics) or joined.get("places"),
            "required": joined.get("required"),
            "made_of": sorted(frozenset().union(*(self._topics[node] for node in writers))),
            "shape": _digest("store", *sorted(self._shapes[node] for node in writers)),
            "declared": self._topology.call_of_store(name).told().strip(" ()"),
        }

    def _serdes(self, key_serde: Serde[Any] | None, value_serde: Serde[Any] | None) -> Facts:
        value_serde = filled_value(value_serde, self._value_serde, self._key_serde)
        return {
            "key_serde": facts_of(filled(key_serde, self._key_serde)),
            "value_serde": facts_of(value_serde),
        }

    def _writers(self, store: str) -> list[str]:
        return [
            name
            for name, node in self._topology.nodes.items()
            if isinstance(node, ProcessorNode)
            and store in node.stores
            and store not in node.looks_into
        ]

    def _windows(self, node: str) -> Facts | None:
        found = self._topology.nodes[node]
        assert isinstance(found, ProcessorNode), f"{node} has a store"
        return windows_of(found.operator)

    def _identity(self, node: str) -> Facts | None:
        """Return what an operation makes its store's keys of, where that serde is not its own."""
        return {
            part: None if serde is None else facts_of(filled(serde, self._key_serde))
            for part, serde in self._key_parts(node).items()
        } or None

    def _key_parts(self, node: str) -> dict[str, Serde[Any] | None]:
        operator = self._topology.nodes[node].operator  # type: ignore[union-attr]
        unsaid = self._key_serde
        if isinstance(operator, DistinctOperator):
            by = None if operator.by is None else operator.by_serde
            return {"key": filled(operator.key_serde, unsaid), "by": by}
        if isinstance(operator, SubscriptionReceiveOperator):
            return {
                "foreign_key": filled(operator.foreign_key_serde, unsaid),
                "primary_key": filled(operator.primary_key_serde, unsaid),
            }
        return {}

    def _windows_in_keys(self, key_serde: Serde[Any] | None, nodes: list[str]) -> list[Facts]:
        """Return the windows of windowed keys that come to nodes; nothing of other keys.

        Their bytes tell neither the kind nor the size of their windows.
        """
        serdes = [key_serde]
        for node in nodes:
            if isinstance(self._topology.nodes[node], ProcessorNode):
                serdes += self._key_parts(node).values()
        if not any(is_windowed(serde) for serde in serdes):
            return []
        above = (self._topology.nodes[node].parents for node in nodes)
        return _united(self._key_windows[other] for parents in above for other in parents)

    # ------------------------------------------------------------------ topics and sub-topologies

    def _unprefixed(self, topic: str | None) -> str | None:
        return None if topic is None else topic.removeprefix(f"{_NO_ID}-")

    def _repartition(self, name: str) -> Facts:
        sinks = [
            node
            for node in self._topology.nodes.values()
            if isinstance(node, SinkNode) and node.topic == name
        ]
        writer = next(iter(sinks), None)
        reader = self._plan.subtopology_of_topic(self._plan.topic_name(name))
        unknown: Facts = {"key_serde": None, "value_serde": None}
        call = None if writer is None else self._topology.call_of(writer.name)
        return {
            "generated": name in self._topology.generated_names,
            "partitions": self._topology.repartition_topics[name].num_partitions,
            **(unknown if writer is None else self._serdes(writer.key_serde, writer.value_serde)),
            "key_windows": []
            if writer is None
            else self._windows_in_keys(writer.key_serde, [sink.name for sink in sinks]),
            "partitioner": any(sink.partitioner is not None for sink in sinks),
            "subtopology": None if reader is None else reader.id,
            "declared": "" if call is None else call.told().strip(" ()"),
        }

    def _subtopology(self, number: int) -> Facts:
        part = self._plan.by_id[number]
        nodes = [self._topology.nodes[name] for name in part.nodes]
        sources = [node for node in nodes if isinstance(node, SourceNode)]
        read = {topic for node in sources for topic in node.topics}
        read |= {node.pattern.pattern for node in sources if node.pattern is not None}
        written = {
            node.topic
            for node in nodes
            if isinstance(node, SinkNode) and isinstance(node.topic, str)
        }
        return {"sources": sorted(read), "sinks": sorted(written), "stores": list(part.stores)}

    # ------------------------------------------------------------------ what leads to a node

    def _trace(self, name: str) -> None:
        """Note what leads to a node: the user's topics, and the kinds of operations, as a hash.

        Numbers in generated names say nothing here: they are what moves.
        """
        node = self._topology.nodes[name]
        if isinstance(node, SourceNode):
            above = [
                other.name
                for other in self._topology.nodes.values()
                if isinstance(other, SinkNode)
                and other.topic in node.topics
                and other.topic in self._topology.repartition_topics
                and other.name in self._shapes
            ]
            own = set(node.topics) - self._topology.repartition_topics.keys()
            own |= set() if node.pattern is None else {node.pattern.pattern}
            kind = " ".join(("source", *sorted(own)))
        else:
            above, own = list(node.parents), set()
            kind = "sink" if isinstance(node, SinkNode) else _kind(node)
        shapes = sorted(self._shapes[other] for other in above)
        # A repartition is told by what leads to it: it comes and goes with optimizations.
        through = kind in {"sink", "source"} and len(shapes) == 1
        self._shapes[name] = shapes[0] if through else _digest(kind, *shapes)
        self._topics[name] = frozenset(own).union(*(self._topics[other] for other in above))
        leading = {other: self._topology.nodes[other] for other in above}
        self._joins[name] = join_of(node, leading, self._joins, self._topics)
        inherited = _united(self._key_windows[other] for other in above)
        self._key_windows[name] = windows_made_by(node) or inherited


def _united(lists: Iterable[list[Facts]]) -> list[Facts]:
    """Return all windows of some lists, each once, in an order of their own."""
    found = {json.dumps(windows, sort_keys=True): windows for each in lists for windows in each}
    return [found[text] for text in sorted(found)]


def former_stores(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Facts]:
    """Return the stores of tasks or of a process that were there once, and are not in the newer.

    What tasks have left of a store stays where it is while that is a global one.
    """
    former, stores = old.get("former_stores", {}), new["stores"]
    last = {
        name: facts
        for name, facts in old["stores"].items()
        if name not in former or not is_global(facts) or is_global(former[name])
    }
    return {
        name: facts
        for name, facts in {**former, **last}.items()
        if name not in stores or (is_global(stores[name]) and not is_global(facts))
    }


def comparable(digest: str, other: str) -> bool:
    """Return whether two digests are of one form: an earlier pystreams made them of more."""
    return digest.rpartition("-")[0] == other.rpartition("-")[0]


def _engine(spec: StoreSpec, engine: StoreEngine | None) -> str:
    if spec.engine_factory is not None or engine is None:
        return "custom"
    return engine.value


def _kind(node: ProcessorNode) -> str:
    operator = node.operator
    if isinstance(operator, ResultsOperator):
        operator = operator.operator
    name = "" if is_generated(node.name) else node.name
    return f"{type(operator).__name__} {name}"


def _digest_of(found: Fingerprint) -> str:
    """Return what tells it from others: the same on each host, and wherever its code stands."""
    stores, topics = found["stores"], found["repartition_topics"]
    kept = {
        "stores": {name: _digested(name, stores) for name in stores},
        "repartition_topics": {name: _without(facts, "declared") for name, facts in topics.items()},
    }
    return f"{_DIGEST_FORM}-{_digest(str(FORMAT), json.dumps(kept, sort_keys=True))}"


def _digested(name: str, stores: Mapping[str, Facts]) -> Facts:
    """Return what the digest has of a store.

    Operations above it count only where they tell whether it has moved to this name.
    """
    facts = stores[name]
    alike = (
        (other["kind"], other["made_of"]) == (facts["kind"], facts["made_of"])
        for other in stores.values()
        if other is not facts
    )
    if facts["generated"] or any(alike):
        return _without(facts, "declared")
    return _without(facts, "declared", "shape")


def _without(facts: Facts, *left_out: str) -> Facts:
    return {key: value for key, value in facts.items() if key not in left_out}


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
