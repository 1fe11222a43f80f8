"""The topology of count_app.py over history, with the calls that a notebook or Airflow makes.

`stage` runs it on Spark; `publish` fills the changelogs and hands the group over, as
`pystreams backfill` does after each other. That command would with `--output` also write a typed
data set, which no other program here makes.
"""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.apps.count_app import count_topology
from pystreams import backfill
from pystreams.cli.options.values import pairs


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0])
@click.argument("step", type=click.Choice(["stage", "publish"]))
@click.option("--input", "source", required=True, help="Topic to read.")
@click.option("--output", "sink", required=True, help="Topic of the counts.")
@click.option("--staging", type=click.Path(path_type=Path), required=True, help="Directory.")
@click.option("--master", required=True, help="Spark's master.")
@click.option("--spark-conf", multiple=True, metavar="KEY=VALUE", help="Spark's configuration.")
@click.option("-c", "settings", multiple=True, metavar="KEY=VALUE", help="The application's.")
def main(
    step: str,
    source: str,
    sink: str,
    staging: Path,
    master: str,
    spark_conf: tuple[str, ...],
    settings: tuple[str, ...],
) -> None:
    """Run a step."""
    topology = count_topology(source, sink, operators=0)
    config = pairs(settings, "-c")
    if step == "publish":
        backfill.publish(topology, config, output=staging)
    else:
        conf = pairs(spark_conf, "--spark-conf")
        backfill.run(topology, config, output=staging, master=master, spark_conf=conf)


if __name__ == "__main__":
    main()
