"""State stores: they buffer until the commit and remember their offsets.

Read `contract` and `api` (what stores promise), `spec` (what a user asks for, and what a kind says
of its stores), `buffered` (the dirty map: record cache and transaction in one), `typed_state_store`
(serdes on top of it), a folder of `kinds`, then `build` (which puts an engine below) and
`factories` (what users call).
"""
