"""Operators: the pure logic of each DSL operation, one closure a record."""
