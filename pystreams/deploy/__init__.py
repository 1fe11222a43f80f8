"""Whether a deploy breaks state: what is to be known of a topology, and two of them compared.

`fingerprint` > `comparison` > `verdicts`. Plain values in, plain values out: no broker, no file.
Imports `topology` and what stands below it; the runtime and the command line import it.
"""
