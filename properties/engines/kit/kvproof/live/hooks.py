# SPDX-License-Identifier: Apache-2.0
"""Puts calls of ours around methods of an engine."""

import functools


def around(owner, name, called):
    """Replaces a method, or a function of a module, once.

    @param called takes the original, and then what the original takes
    """
    original = getattr(owner, name, None)
    if original is None or hasattr(original, "kvproof"):
        return

    @functools.wraps(original)
    def method(*values, **named):
        return called(original, *values, **named)
    method.kvproof = True
    setattr(owner, name, method)


def guarded(method):
    """@return a method of ours in whose place the object is lost, where it raises: never the
    engine's trouble"""
    @functools.wraps(method)
    def called(self, *values):
        try:
            return method(self, *values)
        except Exception as error:
            self.lose(f"the recorder: {error!r}")
            return None
    return called
