"""One module a sub-command of `pystreams`: its arguments, its help, its steps.

Only `main` imports from here, a module when its command is called for. Commands do not import each
other; what two of them need lives in the rooms below.
"""
