"""`pystreams run --backfill`: a backfill first, when there is one to do, then the stream.

The backfill is `pystreams backfill` in a process of its own. What Spark leaves behind (a Java
process, large libraries) ends with it, and the application runs as if somebody else had done it.
Here it is only found out whether there is one to do, and told what comes of it.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pystreams.cli.backfill_options import FOR_RUN_OPTION, staging_path

if TYPE_CHECKING:
    from pystreams.backfill.need import BackfillNeed
    from pystreams.cli.loading import LoadedTopology
    from pystreams.cli.run import RunOptions
    from pystreams.config import StreamsConfig

ABOVE_RECORDS = 1_000_000
"""What a live start reads in about the time that Spark takes to start."""


@dataclass(frozen=True, slots=True)
class FirstBackfill:
    """What the command line said of a backfill before the run.

    Attributes:
        backfill: Whether there may be one.
        backfill_above: With no more records waiting there is none; None for the default.
        backfill_output: Where its results are staged and kept; None for a directory that goes.
        master: Spark's master.
        spark_conf: Configuration of Spark, as `KEY=VALUE`.
    """

    backfill: bool
    backfill_above: int | None
    backfill_output: Path | None
    master: str | None
    spark_conf: tuple[str, ...]

    def check(self) -> None:
        """Refuse options that would have no effect.

        Raises:
            UsageError: They would.
        """
        given = {
            "--backfill-above": self.backfill_above is not None,
            "--backfill-output": self.backfill_output is not None,
            "--master": self.master is not None,
            "--spark-conf": bool(self.spark_conf),
        }
        for name, is_given in given.items():
            if is_given and not self.backfill:
                raise click.UsageError(f"{name} is for --backfill: add it, or leave {name} out")

    def do(
        self,
        options: RunOptions,
        loaded: LoadedTopology,
        config: StreamsConfig,
        log_level: str,
        *,
        is_readable: bool,
    ) -> int | None:
        """Do the backfill, if there is one to do.

        Args:
            options: How the application is run.
            loaded: Its topology.
            config: Its configuration.
            log_level: The least level of the log.
            is_readable: Whether the log is for readers, or JSON.

        Returns:
            What this process is to end with; None to go on and stream.

        Raises:
            StreamsError: As `need.Lookout.need`.
        """
        from pystreams.cli.processes import run_before
        from pystreams.loggers import get_logger

        log = get_logger("pystreams.cli")
        output = staging_path(self.backfill_output, config.application_id)
        need = self._need(loaded, config, output)
        if not need.is_needed:
            log.info("no backfill before the run", why=need.why, lag_records=need.lag_records)
            if self.backfill_output is None and output.exists():
                log.warning("results of an earlier backfill are not needed any more", path=output)
            return None
        log.info("a backfill first", why=need.why, lag_records=need.lag_records, results=output)
        command = self.command(options, log_level, need, is_readable=is_readable)
        # Its tables are not what the application prints.
        code = run_before(command, stdout=2 if is_readable else subprocess.DEVNULL)
        if code is None:
            log.info("the backfill is done, and the application goes on behind it")
        return code

    def _need(self, loaded: LoadedTopology, config: StreamsConfig, output: Path) -> BackfillNeed:
        from pystreams.backfill.need import Lookout
        from pystreams.config import clients
        from pystreams.runtime.adapters.factory import ConfluentClients
        from pystreams.topology.plan import TopologyPlan

        consumer = clients.consumer_config(config)
        plan = TopologyPlan(loaded.topology, config.application_id)
        admin = ConfluentClients(config).admin()
        lookout = Lookout(plan, admin, str(consumer["auto.offset.reset"]))
        above = ABOVE_RECORDS if self.backfill_above is None else self.backfill_above
        return lookout.need(above, output)

    def command(
        self, options: RunOptions, log_level: str, need: BackfillNeed, *, is_readable: bool
    ) -> list[str]:
        """Return the command line of the backfill: the same application, and Spark's options."""
        words = [sys.executable, "-m", "pystreams", "backfill", options.topology, FOR_RUN_OPTION]
        words += ["--log-level", log_level, "--log-format", "console" if is_readable else "json"]
        words += ["--dev"] if options.dev else []
        words += [word for setting in options.settings for word in ("-c", setting)]
        words += ["--config", str(options.config_file)] if options.config_file else []
        words += ["--master", self.master] if self.master is not None else []
        words += [word for setting in self.spark_conf for word in ("--spark-conf", setting)]
        words += ["--output", str(self.backfill_output)] if self.backfill_output else []
        words += ["--publish-outputs"] if need.with_outputs else []
        # The application runs right here: it need not restore what is on this machine.
        words += ["--seed-state"]
        for partition, offset in need.starts.items():
            words += ["--start", f"{partition.topic}:{partition.partition}={offset}"]
        return words
