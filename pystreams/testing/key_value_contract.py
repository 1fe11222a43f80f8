"""What a key-value store must keep to, beyond what every store must."""

from __future__ import annotations

from typing import Any

from pystreams.testing.store_contract import StateStoreContract, same


class KeyValueStoreContract(StateStoreContract):
    """Tests of one key-value store; see `StateStoreContract`.

    Spec: `KeyValueStore`.
    """

    def put_entry(self, store: Any, key: Any, value: Any) -> None:
        """Put."""
        store.put(key, value)

    def delete_entry(self, store: Any, key: Any) -> None:
        """Delete."""
        store.delete(key)

    def entries(self, store: Any) -> list[tuple[Any, Any]]:
        """Return what `all` gives."""
        return list(store.all())

    def entry(self, store: Any, key: Any) -> Any:
        """Return what `get` gives."""
        return store.get(key)

    def test_a_key_has_the_value_put_last(self) -> None:
        """Later writes replace earlier ones; None and `delete` remove a key."""
        store = self.open_store()
        key, other, *_ = self.keys
        first, second, *_ = self.values
        same(store.get(key), None, "get of a key never put")
        store.put(key, first)
        store.put(key, second)
        store.put(other, first)
        same(store.get(key), second, "get after two puts")
        store.put(key, None)
        same(store.get(key), None, "get after put(key, None)")
        same(store.delete(other), first, "what delete returns")
        same(store.get(other), None, "get after delete")
        same(store.delete(other), None, "what a second delete returns")

    def test_put_if_absent_and_put_all(self) -> None:
        """`put_if_absent` never replaces; `put_all` puts in order."""
        store = self.open_store()
        first, second, *_ = self.values
        same(store.put_if_absent(self.keys[0], first), None, "first put_if_absent")
        same(store.put_if_absent(self.keys[0], second), first, "second put_if_absent")
        store.put_all([(self.keys[1], first), (self.keys[0], None), (self.keys[1], second)])
        same(list(store.all()), [(self.keys[1], second)], "content after put_all")

    def test_ranges_are_inclusive_and_in_order_of_keys(self) -> None:
        """A range includes both ends; None leaves an end open; reverse turns the order round."""
        store = self.open_store()
        a, b, c, d, e = self.keys[:5]
        value = self.values[0]
        for key in (e, a, c):
            store.put(key, value)
        self.commit(store, 2)
        for key in (d, b):
            store.put(key, value)
        same(_keys(store.all()), [a, b, c, d, e], "all()")
        same(_keys(store.reverse_all()), [e, d, c, b, a], "reverse_all()")
        same(_keys(store.range(b, d)), [b, c, d], "range")
        same(_keys(store.reverse_range(b, d)), [d, c, b], "reverse_range")
        same(_keys(store.range(None, b)), [a, b], "range without start")
        same(_keys(store.range(d, None)), [d, e], "range without end")
        same(_keys(store.range(d, b)), [], "range whose start is above its end")

    def test_an_iterator_goes_on_over_writes_and_commits(self) -> None:
        """The owner may write and commit while it iterates."""
        store = self.open_store()
        first, second, *_ = self.values
        for key in self.keys[:5]:
            store.put(key, first)
        seen = []
        for offset, (key, _) in enumerate(store.all()):
            seen.append(key)
            store.put(key, second)
            self.commit(store, offset)
        same(seen, list(self.keys[:5]), "keys of an iteration with writes and commits")
        same({value for _, value in store.all()}, {second}, "values after it")


def _keys(entries: Any) -> list[Any]:
    return [key for key, _ in entries]
