# SPDX-License-Identifier: Apache-2.0
"""Lets an engine's allocator be imported where its other halves are not installed."""

import importlib.machinery
import os
import sys
import types


def bare_package(name, folder):
    """A package without its __init__, which would import the whole engine."""
    module = types.ModuleType(name)
    module.__path__ = [folder]
    sys.modules[name] = module


class Nothing(type):
    """A class that does nothing, as are all its attributes."""

    def __new__(cls, name="Nothing", bases=(), names=()):
        return super().__new__(cls, name, bases, dict(names))

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name)

    def __call__(cls, *arguments, **named):
        if len(arguments) == 1 and callable(arguments[0]) and not named:
            return arguments[0]  # a decorator
        return cls


class Absent(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name)


def absent(*names):
    """Modules of which every name is a class that does nothing."""
    for name in names:
        module = Absent(name)
        module.__path__ = []
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        sys.modules[name] = module


def checkout(default=""):
    """The folder of the engine: the first argument, or KVPROOF_CHECKOUT."""
    folder = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("KVPROOF_CHECKOUT", default)
    sys.path.insert(0, folder)
    return folder
