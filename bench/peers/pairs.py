# SPDX-License-Identifier: Apache-2.0
"""Rows of results, one for each pair of case and peer."""

from device.peers import metric, turns  # noqa: F401


def measured(experiment, case, peer, ours, theirs, unit, binds="", **parameters):
    """A pair that was measured in the same rounds.

    @param ours, theirs what it took in each round, in `unit`
    @param binds why ours is slower, said only where it is
    """
    ratio = metric([a / b for a, b in zip(ours, theirs, strict=True)], "ratio")
    parameters = {"peer": peer, "case": case, **parameters}
    if ratio["value"] > 1:
        parameters["binds"] = binds or "not known"
    return {"experiment": experiment, "parameters": parameters, "metrics": {
        "ours_over_peer": ratio, "time": metric(ours, unit), "peer_time": metric(theirs, unit)}}


def not_comparable(experiment, case, peer, reason, **parameters):
    """A pair of which there is no ratio, and why."""
    return {"experiment": experiment, "metrics": {}, "parameters": {
        "peer": peer, "case": case, "not_comparable": reason[:900], **parameters}}
