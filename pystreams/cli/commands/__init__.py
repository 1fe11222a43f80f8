"""One module a sub-command of `pystreams`: its arguments, its help, its steps.

Rooms: `development` (before an application runs), `applications` (one that runs, or has run),
`records` (in topics), `history` (on Spark).

Only `main` imports from here, a module when its command is called for. Commands do not import each
other; what two of them need lives in the rooms below.
"""
