"""What lies beside the data on the disk: offsets, positions, checkpoint files; and how it goes.

May import `contracts`.
"""
