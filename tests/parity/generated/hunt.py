"""Hunts for cases of which pystreams makes something else than Kafka Streams.

    python -m tests.parity.generated.hunt --seeds 0:2000

needs Java 17 or later and Maven. Prints each difference with the smallest case that still has one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter

from tests.parity.generated.answer import answer
from tests.parity.generated.compare import differences
from tests.parity.generated.draw import draw
from tests.parity.generated.exclusions import excluded
from tests.parity.generated.kafka import KafkaStreams
from tests.parity.generated.shrink import shown_case, shrunk


def main() -> int:
    """Run the seeds; return 1 if any differed."""
    arguments = _arguments()
    first, last = map(int, arguments.seeds.split(":"))
    begin = time.monotonic()
    counts: Counter[str] = Counter()
    with KafkaStreams() as kafka:
        without = frozenset(filter(None, arguments.without.split(",")))
        cases = [draw(seed, without) for seed in range(first, last)]
        differing = []
        for case, java in zip(cases, kafka.answers(cases), strict=True):
            rule = excluded(case, java)
            if rule is not None:
                counts[f"excluded: {rule}"] += 1
                continue
            counts["refused by both" if "error" in java else "run"] += 1
            ours = answer(case)
            if differences(java, ours):
                differing.append(case)
                print(f"seed {case['seed']} differs", flush=True)
        for case in differing[: arguments.show]:
            small = shrunk(case, kafka) if arguments.shrink else case
            java = kafka.answer(small)
            print(f"\nseed {case['seed']}:\n{shown_case(small)}")
            print("\n".join(differences(java, answer(small))), flush=True)
    seconds = time.monotonic() - begin
    print(f"\n{last - first} seeds in {seconds:.0f} s, {len(differing)} differ")
    print(json.dumps(counts, indent=1))
    return 1 if differing else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:2000", help="FROM:TO")
    parser.add_argument("--show", type=int, default=5, help="how many differences to print")
    parser.add_argument("--without", default="", help="operations not to draw, with commas")
    parser.add_argument("--no-shrink", dest="shrink", action="store_false")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
