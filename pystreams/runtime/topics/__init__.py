"""An application's topics on the cluster: checked, created, counted, recognised when recreated.

May import `core`, `cluster` and the ports.
"""
