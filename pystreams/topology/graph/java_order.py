"""The order in which Java's collections iterate, for texts that must equal Kafka Streams'.

`Topology.describe()` of Kafka Streams prints sets: `HashSet`s of names, and `TreeSet`s of nodes
whose comparator looks at sizes that still change while the set is filled. Both orders are
determined by the names alone and are reproduced here; nothing else depends on them.

Source: OpenJDK 17, `java.lang.String.hashCode`, `java.util.HashMap`, `java.util.TreeMap` (the
red-black insertion of Cormen, Leiserson, Rivest).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

_FIRST_CAPACITY = 16
_LOAD_FACTOR = 0.75

Compare = Callable[[str, str], int]


def hash_order(names: Iterable[str]) -> list[str]:
    """Return names in the order in which a Java `HashSet` holds them, once each."""
    distinct = list(dict.fromkeys(names))
    capacity = _FIRST_CAPACITY
    while len(distinct) > capacity * _LOAD_FACTOR:
        capacity *= 2

    def bucket(name: str) -> int:
        code = _hash_code(name)
        return (code ^ (code >> 16)) & (capacity - 1)

    # Within a bucket the order of insertion holds: sorting is stable.
    return sorted(distinct, key=bucket)


def _hash_code(text: str) -> int:
    """Return `String.hashCode` as an unsigned 32-bit number."""
    code = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code


class _TreeNode:
    """A node of the tree; `sides` holds its left and its right child."""

    __slots__ = ("black", "name", "parent", "sides")

    def __init__(self, name: str, parent: _TreeNode | None) -> None:
        self.name = name
        self.parent = parent
        self.sides: list[_TreeNode | None] = [None, None]
        self.black = parent is None

    def side(self) -> int:
        """Return 0 for a left child, 1 for a right one; it must have a parent."""
        assert self.parent is not None, "the root is nobody's child"
        return 0 if self.parent.sides[0] is self else 1


class InsertionOrderedTree:
    """A Java `TreeSet`: compares only at insertion, so a comparator that changes is allowed.

    Args:
        compare: Below 0 when the first name comes first, 0 when they are equal.
    """

    def __init__(self, compare: Compare) -> None:
        self._compare = compare
        self._root: _TreeNode | None = None

    def add(self, name: str) -> None:
        """Insert a name unless an equal one is met on the way down."""
        if self._root is None:
            self._root = _TreeNode(name, None)
            return
        node = self._root
        while True:
            order = self._compare(name, node.name)
            if order == 0:
                return
            side = 0 if order < 0 else 1
            child = node.sides[side]
            if child is None:
                break
            node = child
        node.sides[side] = added = _TreeNode(name, node)
        self._restore_colours(added)

    def __iter__(self) -> Iterator[str]:
        """Iterate from left to right."""
        return self._walk(self._root)

    def _walk(self, node: _TreeNode | None) -> Iterator[str]:
        if node is not None:
            yield from self._walk(node.sides[0])
            yield node.name
            yield from self._walk(node.sides[1])

    def _restore_colours(self, node: _TreeNode) -> None:
        """Make the tree red-black again after inserting a red node."""
        while node.parent is not None and not node.parent.black:
            parent = node.parent
            grandparent = parent.parent
            assert grandparent is not None, "a red node is never the root"
            side = parent.side()
            uncle = grandparent.sides[1 - side]
            if uncle is not None and not uncle.black:
                parent.black = uncle.black = True
                grandparent.black = False
                node = grandparent
                continue
            if node.side() != side:
                self._rotate(parent, side)
                node, parent = parent, node
            parent.black = True
            grandparent.black = False
            self._rotate(grandparent, 1 - side)
        assert self._root is not None, "something was inserted"
        self._root.black = True

    def _rotate(self, node: _TreeNode, side: int) -> None:
        """Move a node down to `side`; its child of the other side takes its place."""
        child = node.sides[1 - side]
        assert child is not None, "a rotation needs a child to lift"
        inner = child.sides[side]
        node.sides[1 - side] = inner
        if inner is not None:
            inner.parent = node
        child.parent = node.parent
        if node.parent is None:
            self._root = child
        else:
            node.parent.sides[node.side()] = child
        child.sides[side] = node
        node.parent = child
