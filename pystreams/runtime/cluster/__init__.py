"""What the cluster knows of an application: committed offsets, its group, internal topics.

Values and formats, no requests. Imports nothing else of the runtime; everybody may import it.
"""
