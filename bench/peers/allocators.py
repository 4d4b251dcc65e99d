# SPDX-License-Identifier: Apache-2.0
NAME, SENTENCE, PEERS = "allocators", "", ()


def cases(smoke):
    return []


def measure(cases, options):
    return []
