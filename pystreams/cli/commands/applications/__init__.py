"""Commands for a running or stopped application: its run, its state, what it is asked."""
