"""Joins: streams with streams, streams with tables, tables with tables and by foreign keys."""
