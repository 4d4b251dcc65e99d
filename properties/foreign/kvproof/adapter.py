# SPDX-License-Identifier: Apache-2.0
"""The pipe: lines of JSON in, lines of JSON out."""

import json
import os
import sys


class Adapter:
    """Turns lines of JSON into calls of an allocator, and its answers into lines of JSON."""

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
        raise NotImplementedError

    def state(self):
        """What can be seen of the allocator after an operation, as a dict."""
        raise NotImplementedError

    def answer(self, line):
        """@return the answer to one line, both as dicts"""
        if "kvproof_trace" in line:
            return self.begin(line["config"])
        try:
            return {"out": self.perform(line), "state": self.state()}
        except NotImplementedError as error:
            return {"unsupported": True, "reason": str(error)}

    def serve(self, lines=None, answers=None):
        """Answers every line, until there are no more. By default from stdin to stdout; whatever
        the allocator itself prints then goes to stderr."""
        if answers is None:
            answers = os.fdopen(os.dup(1), "w")
            os.dup2(2, 1)
        for line in sys.stdin if lines is None else lines:
            print(json.dumps(self.answer(json.loads(line))), file=answers, flush=True)
