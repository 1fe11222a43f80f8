"""Where a history comes from: archives, and Kafka through its own client or Spark's connector.

A source gives a `history.History`. It may import `spark` and `plan`; it knows nothing of staging or
tasks.
"""
