"""What is served, as one table, and its description for programs (OpenAPI).

Everything that answers may import it; it answers nothing itself.
"""
