"""Backfills: the same topology over history, on Spark, handing over to the live stream.

Reading order: `stages` (what runs after what), `rows` (what goes in and comes out), `order` (in
which order a task takes its records), `history_task` (a task over its history).
"""
