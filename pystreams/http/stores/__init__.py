"""State over HTTP: a question is read, answered here or by the process that has the key.

Imported by what serves; knows the guard and the parameters of an address.
"""
