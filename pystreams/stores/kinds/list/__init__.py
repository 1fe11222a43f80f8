"""List stores: what an outer join of two streams holds back, a list of values under each key."""
