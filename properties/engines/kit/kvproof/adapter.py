# SPDX-License-Identifier: Apache-2.0
"""The pipe: lines of JSON in, lines of JSON out."""

import json
import os
import sys
import traceback

PACKAGE = os.path.dirname(os.path.abspath(__file__))
SHOWN = set()  # where the exceptions were raised whose tracebacks are on stderr already


def place_of(error):
    """@return " (allocator.py:56 in take, called from adapter.py:17 admit)": the innermost and the
    outermost line of an exception outside of this package; empty if there is none. Its traceback
    goes to stderr, once for each place."""
    every = traceback.extract_tb(error.__traceback__)
    frames = [each for each in every
              if os.path.dirname(os.path.abspath(each.filename)) != PACKAGE]
    lines = (type(error), *((each.filename, each.lineno) for each in every))
    if lines not in SHOWN:
        SHOWN.add(lines)
        traceback.print_exception(type(error), error, error.__traceback__)
    if not frames:
        return ""
    names = [(f"{os.path.basename(each.filename)}:{each.lineno}", each.name)
             for each in (frames[-1], frames[0])]
    outer = "" if names[0] == names[1] else ", called from " + " ".join(names[1])
    return f" ({' in '.join(names[0])}{outer})"


def described(error):
    """@return what an exception says, and where it was raised"""
    return f"{type(error).__name__}: {error}{place_of(error)}"


class Adapter:
    """Turns lines of JSON into calls of an allocator, and its answers into lines of JSON."""

    known = ()  # operations, each a method: do_allocate(operation, request)
    requests = {}  # by name

    def begin(self, config):
        """Makes the allocator anew as a header asks for it.

        @param config the object "config" of the header
        @return what the adapter promises and which operations it knows, as a dict; or
                {"unsupported": True, "reason": text} for a configuration that it cannot build
        """
        raise NotImplementedError

    def perform(self, operation):
        """Performs one operation, {"op": name, ...}.

        @return its result, as the table of operations gives it. Throws NotImplementedError for
                what the allocator does not have.
        """
        if operation["op"] not in self.known:
            raise NotImplementedError(f"no {operation['op']}")
        request = self.requests.get(operation.get("req"))
        self.decline(self.why_not(operation, request))
        try:
            return getattr(self, "do_" + operation["op"])(operation, request)
        except NotImplementedError:
            raise
        except Exception as error:
            return {"error": described(error)}

    def why_not(self, operation, request):
        """@return why an operation of those that are known is not performed; empty if it is"""

    @staticmethod
    def decline(reason):
        if reason:
            raise NotImplementedError(reason)

    def state(self):
        """What can be seen of the allocator after an operation, as a dict."""
        raise NotImplementedError

    def events(self, operation):
        """What an operation announced, as in the trace format; None where nothing ever is."""

    def greet(self, header):
        """As begin, by the whole header."""
        return self.begin(header["config"])

    def answer(self, line):
        """@return the answer to one line, both as dicts"""
        if "kvproof_trace" in line:
            return self.greet(line)
        try:
            out = {"out": self.perform(line)}
        except NotImplementedError as error:
            return {"unsupported": True, "reason": str(error)}
        events = self.events(line)
        if events is not None:
            out["events"] = events
        return out | {"state": self.state()}

    def serve(self, lines=None, answers=None):
        """Answers every line, until there are no more. By default from stdin to stdout; whatever
        the allocator itself prints then goes to stderr."""
        if answers is None:
            answers = os.fdopen(os.dup(1), "w")
            os.dup2(2, 1)
        for line in sys.stdin if lines is None else lines:
            print(json.dumps(self.answer(json.loads(line))), file=answers, flush=True)
