// SPDX-License-Identifier: Apache-2.0
// What is the verb selftest now were options of check; for one version check takes them still.
#pragma once

namespace kvproof::bench {

/// Says on stderr what the old spelling is from now on, and becomes that program; returns if the
/// words of check have none. The program with the mutants is taken where it is beside this one.
void become_selftest(int argc, char** argv);

}  // namespace kvproof::bench
