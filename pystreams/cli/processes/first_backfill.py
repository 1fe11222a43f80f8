"""`pystreams run --backfill`: a backfill first, when there is one to do, then the stream.

The backfill is `pystreams backfill` in a process of its own. What Spark leaves behind (a Java
process, large libraries) ends with it, and the application runs as if somebody else had done it.
This module only finds out whether there is one to do, and says what comes of it.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pystreams.cli.options.backfill import FOR_RUN_OPTION, staging_path
from pystreams.cli.options.groups import ApplicationOptions, LogOptions, SparkOptions, grouped
from pystreams.kernel.loggers import get_logger

if TYPE_CHECKING:
    from pystreams.backfill.first_backfill import BackfillNeed
    from pystreams.cli.application.topology_loader import LoadedTopology
    from pystreams.config import StreamsConfig

ABOVE_RECORDS = 1_000_000
"""What a live start reads in about the time that Spark takes to start."""

_log = get_logger("pystreams.cli")


@dataclass(frozen=True, slots=True)
class FirstBackfillOptions:
    """Whether there is a backfill before the run, and what becomes of its results.

    Attributes:
        backfill_above: With this many records waiting, or fewer, there is none.
        backfill_output: Where its results are staged and kept; None for a directory that goes.
    """

    backfill: bool = False
    backfill_above: int | None = None
    backfill_output: Path | None = None

    def check(self, spark: SparkOptions) -> None:
        """Refuse options that would have no effect.

        Raises:
            UsageError: One of them would have none.
        """
        given = {
            "--backfill-above": self.backfill_above is not None,
            "--backfill-output": self.backfill_output is not None,
            "--master": spark.master is not None,
            "--spark-conf": bool(spark.spark_conf),
        }
        for name, is_given in given.items():
            if is_given and not self.backfill:
                raise click.UsageError(f"{name} is for --backfill: add it, or leave {name} out")


first_backfill_options = grouped(
    "backfill",
    FirstBackfillOptions,
    click.option(
        "--backfill",
        is_flag=True,
        help="Where the application has not run yet, and much waits for it: first run it over what "
        "is there on Spark, as `pystreams backfill --publish-outputs` does, then go on live.",
    ),
    click.option(
        "--backfill-above",
        type=click.IntRange(0),
        metavar="N",
        help="For --backfill: with N records or fewer waiting, start live. "
        f"Default: {ABOVE_RECORDS:,}.",
    ),
    click.option(
        "--backfill-output",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="For --backfill: stage its results here and keep them. "
        "Default: <application.id>-backfill here, removed once it is published.",
    ),
)


@dataclass(frozen=True, slots=True)
class FirstBackfill:
    """The backfill of an application that is then run."""

    application: ApplicationOptions
    options: FirstBackfillOptions
    spark: SparkOptions
    log: LogOptions

    def do(
        self, loaded: LoadedTopology, config: StreamsConfig, stop_timeout_s: float
    ) -> int | None:
        """Do the backfill, if there is one to do.

        Returns:
            What this process is to end with; None to go on and stream.

        Raises:
            StreamsError: As `first_backfill.Lookout.look`.
        """
        from pystreams.cli.processes.children import run_before

        output = staging_path(self.options.backfill_output, config.application_id)
        need = self._need(loaded, config, output)
        if not need.is_needed:
            _log.info("no backfill before the run", why=need.why, lag_records=need.lag_records)
            if self.options.backfill_output is None and output.exists():
                _log.warning("results of an earlier backfill are not needed any more", path=output)
            return None
        _log.info("a backfill first", why=need.why, lag_records=need.lag_records, results=output)
        # Its tables are not what the application prints.
        stdout = 2 if self.log.is_readable else subprocess.DEVNULL
        code = run_before(self.command(need), stdout=stdout, stop_timeout_s=stop_timeout_s)
        if code is None:
            _log.info("the backfill is done, and the application goes on behind it")
        return code

    def _need(self, loaded: LoadedTopology, config: StreamsConfig, output: Path) -> BackfillNeed:
        from pystreams.backfill.first_backfill import Lookout
        from pystreams.config import clients
        from pystreams.runtime.adapters.client_factory import ConfluentClients
        from pystreams.topology.plan.topology_plan import TopologyPlan

        consumer = clients.consumer_config(config)
        plan = TopologyPlan(loaded.topology, config.application_id)
        admin = ConfluentClients(config).admin()
        lookout = Lookout(plan, admin, str(consumer["auto.offset.reset"]))
        above = self.options.backfill_above
        return lookout.look(ABOVE_RECORDS if above is None else above, output)

    def command(self, need: BackfillNeed) -> list[str]:
        """Return the command line of the backfill: the same application, and Spark's options."""
        application, output = self.application, self.options.backfill_output
        log_format = "console" if self.log.is_readable else "json"
        words = [sys.executable, "-m", "pystreams", "backfill", application.topology]
        words += [FOR_RUN_OPTION, "--log-level", self.log.log_level, "--log-format", log_format]
        words += ["--dev"] if application.dev else []
        words += [word for setting in application.settings for word in ("-c", setting)]
        words += ["--config", str(application.config_file)] if application.config_file else []
        words += ["--master", self.spark.master] if self.spark.master is not None else []
        words += [word for setting in self.spark.spark_conf for word in ("--spark-conf", setting)]
        words += ["--output", str(output)] if output else []
        words += ["--publish-outputs"] if need.with_outputs else []
        # The application runs right here: it need not restore what is on this machine.
        words += ["--seed-state"]
        for partition, offset in need.starts.items():
            words += ["--start", f"{partition.topic}:{partition.partition}={offset}"]
        return words
