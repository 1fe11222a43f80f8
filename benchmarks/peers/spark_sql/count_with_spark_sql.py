"""Counts the records of each key of a topic with Spark SQL alone; ends when it is done.

What it leaves out: the order of records, the state for a live application, and every count but the
last one. It is what Spark can do at most with this topic.
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--master", required=True)
    parser.add_argument("--jars", required=True)
    parser.add_argument("--scratch", required=True)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    spark = (
        SparkSession.builder.appName("count with Spark SQL")
        .master(options.master)
        .config("spark.jars", options.jars)
        .config("spark.local.dir", options.scratch)
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", options.bootstrap)
        .option("subscribe", options.input)
        .option("startingOffsets", "earliest")
        .load()
    )
    records.groupBy("key").count().write.parquet(options.output)
    spark.stop()


if __name__ == "__main__":
    main()
