"""Declares tables and what is made of one: its store, new values, a suppression."""
