# SPDX-License-Identifier: Apache-2.0
"""What is asked of an engine: sessions, each a list of turns (new tokens, length of the answer)."""

import itertools
import json
import random

UNIT = 32  # tokens that stand for one hash id of a log
ANSWER = 64  # tokens of the longest answer


def words(draw, length, repeats):
    """@return random tokens, the same few again and again if drafts are to be right"""
    few = [draw.randrange(3, 999) for _ in range(min(length, 12) if repeats else length)]
    return list(itertools.islice(itertools.cycle(few), length))


def chat(seed, repeats):
    """Yields sessions of several turns without end, which share a few system prompts."""
    draw = random.Random(seed)
    systems = [words(draw, draw.randrange(64, 300), repeats) for _ in range(4)]
    while True:
        start, turns = draw.choice(systems), []
        for _ in range(draw.randrange(1, 5)):
            turns.append((start + words(draw, draw.randrange(5, 150), repeats),
                          draw.randrange(8, ANSWER)))
            start = []
        yield turns


def read_log(path):
    """@return the rows of a request log in Mooncake's form, in order of time. Throws ValueError."""
    rows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                rows.append((float(row["timestamp"]), int(row["input_length"]),
                             int(row["output_length"]), [int(each) for each in row["hash_ids"]]))
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError(f"{path}: line {number}: expected timestamp, input_length, "
                                 f"output_length and hash_ids: {error}") from error
    rows = [row for row in sorted(rows, key=lambda row: row[0]) if row[1] > 0 and row[3]]
    if not rows:
        raise ValueError(f"{path}: no request with hash ids")
    return rows


def log(rows):
    """Yields a session of one turn for each row. A hash id becomes as many tokens as a block of
    the small engine has, and the lengths shrink with it; of long rows only the start is left."""
    size = max(-(-asked // len(ids)) for _, asked, _, ids in rows)
    for _, asked, answer, ids in rows:
        tokens = [token for each in ids[:30] for token in words(random.Random(each), UNIT, False)]
        yield [(tokens[:max(1, asked * UNIT // size)], max(1, min(ANSWER, answer * UNIT // size)))]


def sessions(load, seed, repeats):
    """@param load `chat`, or the path of a log"""
    return chat(seed, repeats) if load == "chat" else log(read_log(load))
