"""What users, the runtime and engines are promised, and what a store is asked to be.

`key_value`, `window`, `session` and `versioned` are what processors call, `state_store` is what the
runtime calls, `spec` what a kind says of its stores. Imports `accounting`
only; anybody may import it.
"""
