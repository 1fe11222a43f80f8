"""The staging directory: who may work in it, what it holds, and what is wrong with it.

Reads and writes files, and needs no Spark. It may import `plan`.
"""
