// SPDX-License-Identifier: Apache-2.0
// A value whose copies share one object until one of them is changed. The exhaustive search copies
// a history for every operation that it tries, and few operations change these parts of it.
#pragma once

#include <memory>
#include <utility>

namespace kvproof::properties {

template <class T>
class SharedValue {
 public:
  explicit SharedValue(T value = {}) : value_(std::make_shared<T>(std::move(value))) {}

  [[nodiscard]] const T& operator*() const { return *value_; }
  [[nodiscard]] const T* operator->() const { return value_.get(); }

  /// The value of this copy alone.
  [[nodiscard]] T& change() {
    if (value_.use_count() > 1) value_ = std::make_shared<T>(std::as_const(*value_));
    return *value_;
  }

 private:
  std::shared_ptr<T> value_;
};

}  // namespace kvproof::properties
