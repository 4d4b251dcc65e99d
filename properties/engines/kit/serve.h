// SPDX-License-Identifier: Apache-2.0
// The other end of the pipe: serves a shared library, or an implementation of ours, line by line.
#pragma once

#include <string>

namespace kvproof::properties {

/// Answers the lines on stdin until they end. @param what the path of a library, or a name in
/// optimized/subjects.h. @return the exit code
int serve(const std::string& what);

}  // namespace kvproof::properties
