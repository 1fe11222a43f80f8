"""Options that several commands have, in groups, and what their texts mean.

A group reaches its command as one argument. Commands, processes and `application` import from here.
"""
