# SPDX-License-Identifier: Apache-2.0
"""What the recorder of transformers makes of indices, with stand-ins for its cache."""

import unittest
from types import SimpleNamespace as Thing

from kvproof.live.transformers import Layout, Row

PAGE, WINDOW = 4, 6  # tokens
FULL = {"tokens_per_page": PAGE, "blocks_per_sector": 3, "block_physical_stride": 8,
        "write_trash_index": 24, "block_table": {"a": [6, 8, 7]}}
RING = {"tokens_per_page": PAGE, "blocks_per_sector": 1, "block_physical_stride": 24,
        "write_trash_index": 24, "block_table": {"a": [3, 4]}, "sliding_window": WINDOW}
LAYOUT = Layout(Thing(num_sectors=4, cache_allocators={"full": Thing(**FULL),
                                                       "ring": Thing(**RING)}))


def row(start, *indices):
    """@return a row of one token"""
    state = Thing(request_id="a", position_offset=start + 1)
    future = Thing(state=state, query_length=1, has_new_token=True)
    return Row(LAYOUT, "a", future, [tuple(map(iter, each)) for each in indices])


class TransformersLive(unittest.TestCase):
    # Position 7 lies in the second page, and in slot 1 of the ring, which holds 2 to 6 before.
    FULL = [67], [*range(48, 52), *range(64, 68)]
    RING = [73], [74, 75, 96, 97, 72, 1]

    def test_what_follows_the_tables_is_not_told(self):
        told = row(7, self.FULL, self.RING)
        self.assertEqual((told.slots, told.read, told.misread), ([], told.tables, None))

    def test_blocks_of_two_types_meet_in_a_sector(self):
        self.assertEqual(LAYOUT.ids(0, 6)[0], LAYOUT.ids(1, 2)[0])

    def test_a_stray_write_is_told(self):
        self.assertEqual(row(7, ([59], self.FULL[1]), self.RING).slots,
                         [[0, 7, LAYOUT.ids(0, 7)[0], 3]])
        self.assertEqual(row(7, self.FULL, ([74], self.RING[1])).slots,
                         [[1, 7, LAYOUT.ids(1, 3)[2], 0]])

    def test_a_stray_read_is_told(self):
        told = row(7, (self.FULL[0], [56, *self.FULL[1][1:]]), self.RING)
        self.assertEqual(told.read[0][0], LAYOUT.ids(0, 7)[0])
        self.assertIsNotNone(row(7, (self.FULL[0], [49, *self.FULL[1][1:]]), self.RING).misread)


if __name__ == "__main__":
    unittest.main()
