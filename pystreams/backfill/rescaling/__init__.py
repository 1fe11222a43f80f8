"""The state of a stopped application, moved to other partition counts.

It may import `publishing`, `sources`, `staging`, `spark` and `plan`.
"""
