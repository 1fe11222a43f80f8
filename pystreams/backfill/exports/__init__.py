"""Results and state for other readers, as Parquet: data sets of backfills, exports of stores.

It may import `publishing`, `sources`, `staging`, `spark` and `plan`.
"""
