// SPDX-License-Identifier: Apache-2.0
// What tests of the trace loaders share: all requests of a file, or the error it is refused with.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/trace_loaders.h"
#include "properties/traces/input_error.h"
#include "properties/traces/test_files.h"

namespace kvproof::bench {

inline std::vector<Request> all_of(const std::string& path, TraceOptions options = {}) {
  const auto source = open_trace(path, options);
  std::vector<Request> requests;
  for (Request request; source->next(request);) requests.push_back(request);
  return requests;
}

inline std::optional<properties::InputError> error_of(const std::string& path,
                                                      TraceOptions options = {}) {
  try {
    static_cast<void>(all_of(path, options));
  } catch (const properties::InputError& error) {
    return error;
  }
  return std::nullopt;
}

struct Malformed {
  std::string line;
  std::string field;
  std::string expected;  // a part of the message
};

/// Each line is wrong as line `number` of a file that begins with `head`, in every compression.
inline void expect_errors(const std::string& head, std::uint64_t number,
                          const std::vector<Malformed>& lines) {
  const properties::TemporaryFolder folder;
  for (const Malformed& malformed : lines) {
    const std::string bytes = head + malformed.line + "\n" + head;
    for (const std::string& stored : {bytes, properties::gzip(bytes), properties::zstd(bytes)}) {
      const std::string path = folder.write("trace", stored);
      const auto error = error_of(path);
      ASSERT_TRUE(error.has_value()) << malformed.line;
      EXPECT_EQ(error->file(), path);
      EXPECT_EQ(error->line(), number) << error->what();
      EXPECT_EQ(error->field(), malformed.field) << error->what();
      EXPECT_NE(error->expected().find(malformed.expected), std::string::npos)
          << error->what() << "\nhas no: " << malformed.expected;
    }
  }
}

}  // namespace kvproof::bench
