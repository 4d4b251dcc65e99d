# SPDX-License-Identifier: Apache-2.0
"""Lets vLLM's allocator be imported where torch is not installed.

torch, and the modules of vLLM that need it, become modules whose every name is a class that does
nothing. The modules of REAL, which hold the allocator, are always vLLM's own. Who needs more of
vLLM says which further modules are real, which of these are not, and what others must hold.
"""

import ast
import bisect
import hashlib
import importlib
import importlib.machinery
import importlib.util
import pickle
import sys

from kvproof.nothing import Finder

REAL = ("vllm.v1.core.", "vllm.v1.request", "vllm.v1.kv_cache_interface", "vllm.envs",
        "vllm.v1.kv_cache_spec_registry", "vllm.utils.math_utils", "vllm.utils.hashing",
        "vllm.distributed.kv_events")


def taken_alone(path, name):
    """@return a function of a module that needs more than the function does; None if it has none"""
    with open(path, encoding="utf-8") as source:
        tree = ast.parse(source.read())
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    for function in found:
        function.returns = None
        for argument in function.args.args:
            argument.annotation = None
    names = {"bisect": bisect}
    exec(compile(ast.Module(found, []), path, "exec"), names)
    return names.get(name)


class Replacements(Finder):
    """Finds torch and what needs it; the ordinary search finds the rest."""

    def __init__(self, real=(), unreal=(), holds=None):
        """@param real, unreal beginnings of names of modules, of which some are not real
        @param holds by the name of a module what it must hold"""
        super().__init__()
        self.real, self.unreal, self.held = (*REAL, *real), tuple(unreal), holds or {}
        self.tops = {"torch", "vllm"} | {name for name in self.held if "." not in name}

    def is_real(self, name):
        return name.startswith(self.real) and not name.startswith(self.unreal)

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in self.tops or self.is_real(name):
            return None
        real = importlib.machinery.PathFinder.find_spec(name, path) if top == "vllm" else None
        if top == "vllm" and real is None:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, origin=getattr(real, "origin", None),
                                              is_package=True)
        spec.submodule_search_locations = getattr(real, "submodule_search_locations", None) or []
        return spec

    def exec_module(self, module):
        super().exec_module(module)
        stand_in = module.__getattr__

        def attribute(name):
            full = f"{module.__name__}.{name}"
            return importlib.import_module(full) if self.is_real(full) else stand_in(name)

        module.__getattr__ = attribute
        # A few helpers, which lie beside others that need torch.
        module.ConstantList = lambda items: items
        module.length_from_prompt_token_ids_or_embeds = lambda tokens, _: len(tokens)
        if module.__name__ == "vllm.multimodal.utils":
            module.get_mm_features_in_window = taken_alone(
                module.__spec__.origin, "get_mm_features_in_window")
        module.cdiv = lambda a, b: -(a // -b)
        module.sha256 = lambda content: hashlib.sha256(
            pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)).digest()
        held = self.held.get(module.__name__, {})
        vars(module).update(held() if callable(held) else held)


def install(always=False, **named):
    """Does nothing where torch is at hand, if not always. Returns what was done, in words."""
    if not always and importlib.util.find_spec("torch") is not None:
        return "with torch"
    sys.meta_path.insert(0, Replacements(**named))
    return "torch replaced"
