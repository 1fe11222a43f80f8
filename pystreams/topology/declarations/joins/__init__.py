"""Declares joins: of streams, of streams with tables, of tables by their keys or a foreign key."""
