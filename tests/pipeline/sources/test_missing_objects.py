"""Objects that are not stored: those that a later read misses alone are gone."""

from __future__ import annotations

import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.errors import ChangedError
from chunkfold.sources.missing_objects import missed_of, refuse_gone
from chunkfold.sources.opening import open_source

SOURCE = open_source(zarr.create_array({}, shape=(8, 10), chunks=(2, 2), dtype="i4"))
PLACES = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 4)))


@given(before=PLACES, now=PLACES)
def test_the_first_object_that_later_reads_alone_miss_is_named(before, now):
    gone = sorted(now - before)
    each = (missed_of(places, SOURCE.object_grid) for places in (before, now))
    if not gone:
        refuse_gone(SOURCE, *each)
        return
    with pytest.raises(ChangedError, match=rf"chunk 'c/{gone[0][0]}/{gone[0][1]}' changed"):
        refuse_gone(SOURCE, *each)
