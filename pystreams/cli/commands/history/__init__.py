"""Commands that run on Spark: over history, and over the state of an application."""
