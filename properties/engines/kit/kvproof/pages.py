# SPDX-License-Identifier: Apache-2.0
"""Engines that hand out slots of tokens, in pages of self.size; a page is a block of kvproof's."""

from kvproof.engine import EngineAdapter


class PageAdapter(EngineAdapter):
    def pages(self, slots):
        """@return the pages of slots. They must lie in their pages as tokens lie in a sequence."""
        slots = [int(slot) for slot in slots]
        for at, slot in enumerate(slots):
            if slot % self.size != at % self.size or slot // self.size != slots[
                    at - at % self.size] // self.size:
                raise ValueError(f"token {at} lies in slot {slot}: no page of {self.size}")
        return [slot // self.size for slot in slots[::self.size]]
