"""The thread's part in its group: when it joins, who else is there, what nobody reads.

Asks the broker without waiting; the stream thread acts on what is seen.
"""
