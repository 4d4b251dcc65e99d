// SPDX-License-Identifier: Apache-2.0
// Results as lines that are complete as soon as they are written, so that a run that is cut off
// leaves results.
//
// Line:    experiment <tab> name=value ... <tab> name=value,unit,min,max ... ; results.py makes a
//          result file of them.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "bench/kernels/device/device.h"

namespace kvproof::bench {

class Line {
 public:
  explicit Line(std::string_view experiment) : text_(experiment), metrics_() {}

  Line& with(std::string_view name, std::string_view value) {
    text_ += (parameters_++ == 0 ? "\t" : " ") + std::string(name) + "=" + std::string(value);
    return *this;
  }
  Line& with(std::string_view name, std::int64_t value) {
    return with(name, std::to_string(value));
  }
  Line& measured(std::string_view name, std::string_view unit, double value, double least,
                 double most) {
    char numbers[128];
    std::snprintf(numbers, sizeof(numbers), "%.9g,%s,%.9g,%.9g", value, std::string(unit).c_str(),
                  least, most);
    metrics_ += (metrics_.empty() ? "\t" : " ") + std::string(name) + "=" + numbers;
    return *this;
  }
  Line& measured(std::string_view name, std::string_view unit, double value) {
    return measured(name, unit, value, value, value);
  }
  Line& measured(std::string_view name, const Times& times) {
    return measured(name, "us", times.median, times.least, times.most);
  }
  void print() const {
    std::printf("%s%s\n", text_.c_str(), metrics_.c_str());
    std::fflush(stdout);
  }

 private:
  std::string text_, metrics_;
  int parameters_ = 0;
};

}  // namespace kvproof::bench
