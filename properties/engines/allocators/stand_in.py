# SPDX-License-Identifier: Apache-2.0
"""Lets an engine's allocator be imported where its other halves are not installed."""

import importlib.util
import os
import sys
import types

from kvproof.nothing import Finder


def bare_package(name, folder):
    """A package without its __init__, which would import the whole engine."""
    module = types.ModuleType(name)
    module.__path__ = [folder]
    sys.modules[name] = module


def importer():
    """@return the name of the module that imports something right now"""
    between = ("importlib", "_frozen_", "kvproof.nothing", __name__)
    frame = sys._getframe(1)
    while frame and frame.f_globals.get("__name__", "").startswith(between):
        frame = frame.f_back
    return frame.f_globals.get("__name__", "") if frame else ""


class Replacements(Finder):
    """Finds modules that are absent on purpose; and, where it is asked last, whatever the engine
    imports although it is not installed."""

    def __init__(self, names=(), given=(), engine=""):
        super().__init__(given)
        self.names, self.engine = names, engine

    def lacks(self, name):
        above, _, _ = name.rpartition(".")
        missing = self.engine and (
            isinstance(getattr(sys.modules[above], "__loader__", None), Finder) if above else
            name not in sys.stdlib_module_names
            and importer().partition(".")[0] == self.engine)
        return missing or any(name == known or name.startswith(known + ".") for known in self.names)


def absent(*names, **given):
    """Modules, and whatever lies below them, of which every name is a class that does nothing, but
    for those that are given."""
    sys.meta_path.insert(0, Replacements(names, given))


# The modules of an engine that stay out: they need a device, or all of it.
WITHOUT = {
    "atom": ("config",),
    "lightllm": (
        "common.basemodel", "common.kv_trans_kernel", "distributed", "server.core",
        "server.multimodal_params", "server.pd_io_struct", "utils.config_utils",
        "utils.custom_kernel_utis", "utils.dist_utils", "utils.envs_utils", "utils.infer_utils",
        "utils.log_utils", "utils.profile_max_tokens"),
    "minisgl": ("kernel", "attention", "moe"),
    "sglang": ("kernels", *("srt." + name for name in (
        "configs", "constrained", "distributed", "function_call",
        "hardware_backend", "layers", "lora", "model_executor", "multimodal", "observability",
        "parser", "sampling", "speculative")))}


def engine(name, folder=None, bare=("",), **given):
    """Makes the package of an engine importable, as far as its allocator goes.

    @param folder where it lies in the checkout, which is the first argument or KVPROOF_CHECKOUT;
                  None: it is installed
    @param bare   packages whose __init__ is not run; "" is the engine itself
    @param given what the modules that stay out hold all the same
    """
    if folder is None:
        top = importlib.util.find_spec(name).submodule_search_locations[0]
    else:
        checkout = sys.argv[1] if len(sys.argv) > 1 else os.environ["KVPROOF_CHECKOUT"]
        top = os.path.join(checkout, folder, name)
    for package in bare:
        bare_package(".".join(filter(None, (name, package))),
                     os.path.join(top, *package.split(".")))
    absent(*(f"{name}.{module}" for module in WITHOUT.get(name, ())), **given)
    sys.meta_path.append(Replacements(engine=name))
    if folder is not None and "" not in bare:
        spec = importlib.util.spec_from_file_location(name, os.path.join(top, "__init__.py"))
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])


def torch_without_device():
    """Tensors of a device, and those in pinned memory, lie in ordinary memory instead."""
    import torch

    def here(make):
        def made(*shape, device=None, pin_memory=False, **named):
            return make(*shape, **named)
        return made
    for name in ("empty", "zeros", "ones", "arange", "tensor", "full"):
        setattr(torch, name, here(getattr(torch, name)))
    for move in ("cpu", "cuda", "pin_memory"):  # which makes a copy where there is a device
        setattr(torch.Tensor, move, lambda self, *_, **__: self.clone())
