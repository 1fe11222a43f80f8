"""Interactive queries: questions to the stores of this instance, answered partition by partition.

`queries` has what can be asked, `results` what comes back, `execution` puts one to one store.
Spec: KIP-796 (Interactive Query v2), KIP-892 "Interactive Queries".
"""
