# SPDX-License-Identifier: Apache-2.0
"""A model runner without a model: it keeps its own batch and block tables, as vLLM's does, from
SchedulerOutput alone, and samples a function of a request's tokens.

What a step samples is known when it is given, because nothing is read; when its reads and writes
happen is drawn by whoever drives.
"""

VOCABULARY, END = 6, 5
INVALID = VOCABULARY  # what is fed for a draft that nobody has proposed


def sampled_after(tokens):
    """@return the next token, a function of a few of those before"""
    mixed = tokens[-1] * 7 + tokens[0] * 3 + len(tokens) * 5 + tokens[len(tokens) // 2]
    return (mixed * 2654435761 >> 7) % (4 * VOCABULARY) % END if mixed % 41 else END


class Desync(Exception):
    """What the worker is told does not fit to what it was told before."""


class Held:
    """A request in the batch."""

    __slots__ = ("tokens", "prompt", "computed", "drafts")

    def __init__(self, tokens, prompt, computed):
        self.tokens, self.prompt, self.computed = list(tokens), prompt, computed
        self.drafts = []


class Step:
    """What was given to the worker, and what comes of it."""

    def __init__(self, number, out):
        self.number, self.out = number, out
        self.rows, self.fed, self.sampled, self.settled = [], {}, {}, []
        self.launched = self.ran = False
        self.report = None


class Worker:
    def __init__(self, options, draw):
        self.options, self.draw = options, draw
        self.batch, self.steps = {}, 0

    def given(self, out):
        """@return the step, whose rows are as the run has them"""
        step = Step(self.steps, out)
        self.steps += 1
        for name in (*out.finished_req_ids, *(out.preempted_req_ids or ())):
            self.batch.pop(name, None)
        rows = {}
        for new in out.scheduled_new_reqs:
            tokens = new.prefill_token_ids or new.prompt_token_ids
            held = Held(tokens, len(new.prompt_token_ids), new.num_computed_tokens)
            self.batch[new.req_id] = held
            rows[new.req_id] = {"tables": [list(ids) for ids in new.block_ids]}
        cached = out.scheduled_cached_reqs
        for name, blocks, computed, outputs in zip(
                cached.req_ids, cached.new_block_ids, cached.num_computed_tokens,
                cached.num_output_tokens):
            if name in cached.resumed_req_ids:  # the first runner alone
                self.batch[name] = Held(cached.all_token_ids[name], len(
                    cached.all_token_ids[name]) - outputs, computed)
                rows[name] = {"tables": [list(ids) for ids in blocks]}
                continue
            if name not in self.batch:
                raise Desync(f"the worker is to go on with {name} and has no table of it")
            if outputs < 0:
                raise Desync(f"the worker is told that {name} has {outputs} tokens of an answer")
            held = self.batch[name]
            # After a load that failed it goes back, and so do the tokens that came of it.
            held.computed = min(held.computed, computed)
            del held.tokens[held.prompt + outputs:]
            rows[name] = {"more": [list(ids) for ids in blocks]} if blocks else {}
        for name, count in out.num_scheduled_tokens.items():
            self.add_row(step, name, count, rows[name])
        return step

    def add_row(self, step, name, count, said):
        held, start = self.batch[name], self.batch[name].computed
        end, known = start + count, len(held.tokens)
        row = {"req": name, "start": start, "n": count} | said
        step.rows.append(row)
        drafts = self.drafts_of(step, name, held, end - max(known, start))
        step.fed[name] = held.tokens[start:end] + drafts
        if drafts:
            row["drafts"] = len(drafts)
        held.computed = end
        if end < known:
            return
        out = []
        for draft in (*drafts, None):
            token = sampled_after(held.tokens)
            out.append(token)
            held.tokens.append(token)
            if draft != token:
                break
        held.computed = len(held.tokens) - 1
        step.sampled[name] = out
        self.propose(held)

    def drafts_of(self, step, name, held, count):
        if count <= 0:
            return []
        told = step.out.scheduled_spec_decode_tokens.get(name, ())
        told = [each for each in told if each >= 0]
        proposed = held.drafts if self.options.asynchronous else told
        return (list(proposed) + [INVALID] * count)[:count]

    def propose(self, held):
        held.drafts, tokens = [], list(held.tokens) if self.options.drafts else ()
        for _ in range(self.options.drafts):
            token = sampled_after(tokens)
            if self.draw.random() < 0.3:
                token = self.draw.randrange(VOCABULARY)
            held.drafts.append(token)
            tokens.append(token)
