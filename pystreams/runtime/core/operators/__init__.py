"""What a task is for its operators: its context, punctuations, held records, portions of work.

The task and a global task import it; it knows neither, only queues, failures and settings.
"""
