"""Which items (ranks, groups, pairs) each element covers, as arrays that answer in microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from argus.topology.axes import Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class Incidence:
    """Items × elements, both ways, in compressed rows.

    `item_elements[item_ptr[i]:item_ptr[i + 1]]` are the elements over item i, ascending;
    `element_items` the other way round. `kinds` is each element's kind.
    """

    ids: tuple[str, ...]
    kinds: tuple[str, ...]
    num_items: int
    item_ptr: Ints
    item_elements: Ints
    element_ptr: Ints
    element_items: Ints

    @cached_property
    def index(self) -> dict[str, int]:
        """Place of each element by id."""
        return {element: i for i, element in enumerate(self.ids)}

    @cached_property
    def sizes(self) -> Ints:
        """Items under each element. (element,)"""
        return np.diff(self.element_ptr)

    @cached_property
    def same(self) -> tuple[Ints, Ints]:
        """Class of each element, equal for elements that cover the same items, and one element per class."""
        keys = np.random.default_rng(0).integers(1, 1 << 62, size=(self.num_items, 2), dtype=np.int64)
        running = np.zeros((len(self.element_items) + 1, 2), np.int64)
        np.cumsum(keys[self.element_items], axis=0, out=running[1:])  # wraps around, which is harmless
        sums = running[self.element_ptr[1:]] - running[self.element_ptr[:-1]]
        stamp = np.column_stack([sums, self.sizes])
        _, first, number = np.unique(stamp, axis=0, return_index=True, return_inverse=True)
        return number.reshape(-1).astype(np.int64), first.astype(np.int64)

    @cached_property
    def classes(self) -> tuple[Ints, Ints]:
        """Elements sorted by class and where each class starts: members of class c lie between."""
        number, first = self.same
        order = np.argsort(number, kind="stable").astype(np.int64)
        starts = np.searchsorted(number[order], np.arange(len(first) + 1)).astype(np.int64)
        return order, starts

    def items_of(self, element: int) -> Ints:
        """Items under an element, ascending."""
        return self.element_items[self.element_ptr[element] : self.element_ptr[element + 1]]

    def elements_of(self, item: int) -> Ints:
        """Elements over an item."""
        return self.item_elements[self.item_ptr[item] : self.item_ptr[item + 1]]

    def count(self, items: Ints) -> Ints:
        """How many of the items each element covers. (element,)"""
        return np.bincount(gather(self.item_ptr, self.item_elements, rows=items), minlength=len(self.ids))

    def items_under(self, elements: Ints) -> Ints:
        """Distinct items under any of the elements, ascending."""
        return distinct(gather(self.element_ptr, self.element_items, rows=elements))

    def elements_equal_to(self, element_class: int) -> Ints:
        """Every element of a class."""
        order, starts = self.classes
        return order[starts[element_class] : starts[element_class + 1]]


def gather(ptr: Ints, values: Ints, *, rows: Ints) -> Ints:
    """The values of several compressed rows, one after the other."""
    lengths = ptr[rows + 1] - ptr[rows]
    total = int(lengths.sum())
    if not total:
        return np.empty(0, np.int64)
    ends = np.cumsum(lengths)
    offsets = np.repeat(ptr[rows] - (ends - lengths), lengths)
    return np.asarray(values[np.arange(total) + offsets], np.int64)


def distinct(values: Ints) -> Ints:
    """The distinct values, ascending; faster than hashing for the millions of a large fleet."""
    ordered = np.sort(values)
    if not len(ordered):
        return ordered
    return np.asarray(ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])], np.int64)


def without(values: Ints, known: Ints) -> Ints:
    """The distinct values that are not among `known`, which ascends."""
    fresh = distinct(values)
    at = np.minimum(np.searchsorted(known, fresh), len(known) - 1)
    return np.asarray(fresh[known[at] != fresh], np.int64)


def compress_rows(rows: Ints, values: Ints, *, num_rows: int) -> tuple[Ints, Ints]:
    """Compressed rows of (row, value) pairs, values ascending within a row, pairs once."""
    if not len(rows):
        return np.zeros(num_rows + 1, np.int64), np.empty(0, np.int64)
    span = int(values.max()) + 1
    keys = distinct(rows * span + values)
    ptr = np.searchsorted(keys, np.arange(num_rows + 1) * span)
    return ptr.astype(np.int64), (keys % span).astype(np.int64)


def incidence(
    items: Ints, elements: Ints, *, num_items: int, ids: Sequence[str], kinds: Sequence[str]
) -> Incidence:
    """Incidence of (item, element) pairs; elements that cover nothing are kept."""
    item_ptr, item_elements = compress_rows(items, elements, num_rows=num_items)
    element_ptr, element_items = compress_rows(elements, items, num_rows=len(ids))
    return Incidence(
        ids=tuple(ids),
        kinds=tuple(kinds),
        num_items=num_items,
        item_ptr=item_ptr,
        item_elements=item_elements,
        element_ptr=element_ptr,
        element_items=element_items,
    )
