# SPDX-License-Identifier: Apache-2.0
"""What takes the place of what an engine imports although it is not installed, or is not to run:
modules of which every name is a class that does nothing."""

import importlib.abc
import importlib.machinery


class Kind(type):
    """Of a class: any name that Python does not reserve is an attribute that does nothing, too."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return kind(name)

    def __call__(cls, *values, **named):
        """As a decorator it leaves what it decorates."""
        if "decorates" in vars(cls) and len(values) == 1 and callable(values[0]) and not named:
            return values[0]
        return super().__call__(*values, **named)


class Nothing(metaclass=Kind):
    """What a module would have held: it can be called, derived from and asked for anything."""

    def __init__(self, *_, **__):
        pass

    def __class_getitem__(cls, _):
        return cls

    def __call__(self, *values, **named):
        return kind("made")(*values, **named)

    def __getattr__(self, name):
        return getattr(Nothing, name)


def kind(name):
    """@return a class that does nothing"""
    return Kind(name, (Nothing,), {"decorates": True})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules that a method `lacks` says, by their names."""

    def __init__(self, holds=()):
        """@param holds what they hold all the same"""
        self.holds = holds

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(
            name, self, is_package=True) if self.lacks(name) else None

    def exec_module(self, module):
        def attribute(name):
            if name.startswith("__"):
                raise AttributeError(name)
            setattr(module, name, kind(name))  # one type, however often asked
            return vars(module)[name]

        module.__getattr__ = attribute
        vars(module).update(self.holds)
