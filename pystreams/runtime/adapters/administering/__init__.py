"""Topics, their settings and consumer groups, through librdkafka's admin client.

May import `connection` and `cluster`.
"""
