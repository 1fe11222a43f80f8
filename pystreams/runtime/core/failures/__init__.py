"""What becomes of a record that fails: who is told, what is logged, where its bytes go.

Used by the task and its operators; knows no queue and no task.
"""
