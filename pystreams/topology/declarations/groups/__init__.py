"""Declares aggregations: of groups, of their windows, of several groups into one table."""
