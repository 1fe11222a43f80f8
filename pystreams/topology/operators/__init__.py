"""What each operation does with a record: operators, made into one task's steps by `attach`.

Frozen descriptions that know no topics and no graph; the graph's nodes hold them. Rooms:
`records`, `joins` and `windows`, and `tables` with what both of these look into; what stands beside
them serves several.
"""
