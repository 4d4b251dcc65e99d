# SPDX-License-Identifier: Apache-2.0
"""What an allocator in Python needs to stand before `kvproof check --subject-command=...`.

Derive from Adapter, implement begin, perform and state, and end the program with

    Mine().serve()

EngineAdapter keeps the requests as well, and asks for what an engine does and shows. PageAdapter is
for engines that hand out token slots, RadixAdapter for those that keep a tree of tokens, and
PoolAdapter for stores of blocks that know no requests; pytest_plugin holds a fixture. The lines
that are read and written are described in share/kvproof/foreign/README.md of the installation,
properties/engines/kit/README.md of the sources.
"""

from kvproof.adapter import Adapter
from kvproof.engine import EngineAdapter
from kvproof.pool import PoolAdapter
from kvproof.radix import Node, PageAdapter, RadixAdapter
from kvproof.requests import Request

__all__ = ["Adapter", "EngineAdapter", "Node", "PageAdapter", "PoolAdapter", "RadixAdapter",
           "Request"]
