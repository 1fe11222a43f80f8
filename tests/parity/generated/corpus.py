"""The cases that are kept with Kafka Streams' answers, so that tests need no Java.

    python -m tests.parity.generated.corpus

chooses them anew, out of many seeds, and writes them; needs Java 17 or later and Maven.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.parity.generated.answer import answer
from tests.parity.generated.compare import differences
from tests.parity.generated.coverage import Case, covered
from tests.parity.generated.draw import draw
from tests.parity.generated.exclusions import excluded
from tests.parity.generated.kafka import KafkaStreams

FILE = Path(__file__).parents[1] / "golden" / "generated_cases.jsonl.gz"
LEAST = 600
_TIMES = 2


def read() -> list[tuple[Case, dict[str, Any]]]:
    """Return the kept cases, each with Kafka Streams' answer."""
    lines = gzip.decompress(FILE.read_bytes()).decode().splitlines()
    return [(content["case"], content["java"]) for content in map(json.loads, lines)]


def main() -> None:
    """Choose the cases and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:3000", help="FROM:TO, of those to choose from")
    first, last = map(int, parser.parse_args().seeds.split(":"))
    compared = list(_compared([draw(seed) for seed in range(first, last)]))
    kept = chosen([case for case, _ in compared])
    answers = {case["seed"]: java for case, java in compared}
    lines = [json.dumps({"case": case, "java": answers[case["seed"]]}) for case in kept]
    FILE.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    print(
        f"{len(kept)} of {len(compared)} cases that are compared, {FILE.stat().st_size // 1024} KiB"
    )


def _compared(cases: list[Case]) -> Iterator[tuple[Case, dict[str, Any]]]:
    """Return the cases that are compared and equal, with Kafka Streams' answers."""
    with KafkaStreams() as kafka:
        for case, java in zip(cases, kafka.answers(cases), strict=True):
            if "error" in java or excluded(case, java) is not None:
                continue
            if differences(java, answer(case)):
                print(f"seed {case['seed']} differs, and is left out", flush=True)
                continue
            yield case, java


def chosen(cases: list[Case]) -> list[Case]:
    """Return cases that cover what all cover, each thing by two of them if two do; small first."""
    parts = {case["seed"]: covered(case) for case in cases}
    sizes = {case["seed"]: len(json.dumps(case)) for case in cases}
    counts: Counter[str] = Counter()
    left = {case["seed"]: case for case in cases}
    kept: list[Case] = []

    def worth(seed: int) -> float:
        return sum(counts[part] < _TIMES for part in parts[seed]) / (sizes[seed] + 500)

    while left:
        best = max(left, key=worth)
        if worth(best) == 0 and len(kept) >= LEAST:
            break
        counts.update(parts[best])
        kept.append(left.pop(best))
    return sorted(kept, key=lambda case: int(case["seed"]))


if __name__ == "__main__":
    main()
