"""Kinds of stores, a folder each: its descriptor (`kind`), its stores, their bytes and reads.

A kind may import the rest of `stores`, but neither engines nor what puts stores together.
"""
