"""Where the time of a backfill goes: Spark's account of its tasks, and ours within them.

One more run, in which the workers time their stages (apps/timed_worker.py: once a batch, so it
costs next to nothing) and Spark writes its event log. CPU time is what adds up: with more processes
than cores, wall-clock time is mostly waiting for each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness.backfill_stages import line_of
from benchmarks.harness.batch_programs import BatchBench
from benchmarks.harness.measurement import Input
from benchmarks.harness.process_tree import DRIVER, JVM, WORKERS


def profile(bench: BatchBench, source: Input) -> dict[str, Any]:
    """Run the backfill once more, timed.

    Returns:
        The profile, for the JSON file.
    """
    timings, events = bench.directory / "timings", bench.directory / "events"
    timings.mkdir(parents=True)
    events.mkdir()
    conf = [
        "spark.python.daemon.module=benchmarks.apps.timed_worker",
        "spark.eventLog.enabled=true",
        "spark.eventLog.compress=false",
        "spark.eventLog.rolling.enabled=false",
        f"spark.eventLog.dir=file://{events}",
    ]
    run = bench.backfill(source, "backfill-profile", conf, {"BENCHMARK_TIMINGS": str(timings)})
    in_workers, in_java = _worker_times(timings), _spark_stages(next(events.iterdir()))
    task_cpu_s = sum(stage["cpu_s"] for stage in in_java)
    measured_s = sum(cpu_s for cpu_s, _ in in_workers.values())
    lines = [
        *((f"Java, {stage['name']}", stage["cpu_s"], stage["wall_s"]) for stage in in_java),
        ("Java, beside the tasks", run.cpu_s_by_role.get(JVM, 0.0) - task_cpu_s, None),
        *((line_of(stage), *times) for stage, times in in_workers.items()),
        (line_of("beside the tasks"), run.cpu_s_by_role.get(WORKERS, 0.0) - measured_s, None),
        ("driver's Python", run.cpu_s_by_role.get(DRIVER, 0.0), None),
    ]
    return {
        "records": source.records,
        "seconds": run.seconds,
        "lines": [
            {"where": where, "cpu_us": max(cpu_s, 0.0) / source.records * 1e6, "wall_s": wall_s}
            for where, cpu_s, wall_s in lines
        ],
    }


def _worker_times(directory: Path) -> dict[str, tuple[float, float]]:
    """Return (CPU seconds, wall seconds) by stage, added up over all tasks."""
    found: dict[str, tuple[float, float]] = {}
    for file in directory.glob("*.json"):
        for stage, times in json.loads(file.read_text("utf-8")).items():
            cpu_s, wall_s = found.get(stage, (0.0, 0.0))
            found[stage] = (cpu_s + times["cpu_ns"] / 1e9, wall_s + times["wall_ns"] / 1e9)
    return dict(sorted(found.items(), key=lambda item: -item[1][0]))


def _spark_stages(log: Path) -> list[dict[str, Any]]:
    """Return name, CPU time of all tasks and time on the clock of each stage Spark ran."""
    stages: dict[int, dict[str, Any]] = {}
    for event in _events(log):
        if event["Event"] == "SparkListenerTaskEnd":
            metrics = event.get("Task Metrics") or {}
            cpu_s = metrics.get("Executor CPU Time", 0) / 1e9
            stage = stages.setdefault(event["Stage ID"], {"name": "", "cpu_s": 0.0, "wall_s": 0.0})
            stage["cpu_s"] += cpu_s
        elif event["Event"] == "SparkListenerStageCompleted":
            info = event["Stage Info"]
            stage = stages.setdefault(info["Stage ID"], {"name": "", "cpu_s": 0.0, "wall_s": 0.0})
            stage["name"] = f"tasks of Spark's stage {info['Stage ID']}"
            took_ms = info["Completion Time"] - info["Submission Time"]
            stage["wall_s"] = took_ms / 1000
    return [stages[number] for number in sorted(stages)]


def _events(log: Path) -> Iterator[dict[str, Any]]:
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
