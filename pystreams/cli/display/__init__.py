"""What people see: tables, the live line, progress, log lines, diagrams and reference pages.

Imports nothing else of the command line. All other rooms may import from here.
"""
