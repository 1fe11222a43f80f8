"""What user code and the steps of a topology promise each other: processors, operators, extractors.

Imports nothing else of the topology; everybody may import it.
"""
