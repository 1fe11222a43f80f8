"""Reads of other threads go over several portions in all these tests."""

from tests.portions import portions_of_two

__all__ = ["portions_of_two"]
