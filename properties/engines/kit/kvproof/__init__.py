# SPDX-License-Identifier: Apache-2.0
"""What an allocator in Python needs to stand before `kvproof check --subject-command=...`.

Derive from EngineAdapter, define its hooks, and end the program with

    Mine().serve()

kvproof keeps the book of the requests, and the engine keeps their tables. PageAdapter is for
engines that hand out token slots, RadixAdapter for those that keep a tree of tokens, and
PoolAdapter for stores of blocks that know no requests. Who answers operations, and keeps a book of
requests for that, derives from Adapter, with begin, perform and state. pytest_plugin holds a
fixture. The lines that are read and written are described in share/kvproof/foreign/README.md of the
installation, properties/engines/kit/README.md of the sources.
"""

from kvproof.adapter import Adapter
from kvproof.engine import EngineAdapter
from kvproof.pool import PoolAdapter
from kvproof.radix import Node, PageAdapter, RadixAdapter
from kvproof.requests import Request

__all__ = ["Adapter", "EngineAdapter", "Node", "PageAdapter", "PoolAdapter", "RadixAdapter",
           "Request"]
