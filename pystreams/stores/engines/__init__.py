"""Engines: where committed bytes live. Each passes the same contract tests."""
