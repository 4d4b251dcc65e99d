// SPDX-License-Identifier: Apache-2.0
// A heap of numbered items with a side array of their places, so that any item can be taken out or
// moved.
//
// Model:   a binary heap; the smallest key is on top, equal keys in no order. Nothing allocates
//          after construction.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace kvproof::bench {

template <class Key>
class BlockHeap {
 public:
  /// @param count the numbers are [0, count)
  explicit BlockHeap(std::uint32_t count) : places_(count, kOut), keys_(count) {
    heap_.reserve(count);
  }

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }
  [[nodiscard]] bool contains(std::uint32_t item) const { return places_[item] != kOut; }
  [[nodiscard]] std::uint32_t top() const { return heap_.front(); }
  [[nodiscard]] const Key& key(std::uint32_t item) const { return keys_[item]; }

  /// Adds an item, or gives it another key.
  void put(std::uint32_t item, const Key& key) {
    if (!contains(item)) {
      places_[item] = static_cast<std::uint32_t>(heap_.size());
      heap_.push_back(item);
    }
    keys_[item] = key;
    settle(places_[item]);
  }

  /// @pre contains(item)
  void remove(std::uint32_t item) {
    const std::uint32_t place = places_[item];
    const std::uint32_t last = heap_.back();
    heap_.pop_back();
    places_[item] = kOut;
    if (last == item) return;
    heap_[place] = last;
    places_[last] = place;
    settle(place);
  }

  /// @pre !empty()
  std::uint32_t pop() {
    const std::uint32_t item = top();
    remove(item);
    return item;
  }

 private:
  static constexpr std::uint32_t kOut = 0xffffffffU;

  [[nodiscard]] bool before(std::size_t a, std::size_t b) const {
    return keys_[heap_[a]] < keys_[heap_[b]];
  }

  void exchange(std::size_t a, std::size_t b) {
    std::swap(heap_[a], heap_[b]);
    places_[heap_[a]] = static_cast<std::uint32_t>(a);
    places_[heap_[b]] = static_cast<std::uint32_t>(b);
  }

  void settle(std::size_t at) {
    for (; at > 0 && before(at, (at - 1) / 2); at = (at - 1) / 2) exchange(at, (at - 1) / 2);
    while (true) {
      std::size_t least = at;
      for (const std::size_t child : {2 * at + 1, 2 * at + 2}) {
        if (child < heap_.size() && before(child, least)) least = child;
      }
      if (least == at) return;
      exchange(at, least);
      at = least;
    }
  }

  std::vector<std::uint32_t> heap_;
  std::vector<std::uint32_t> places_;  // shape [count]: where in the heap
  std::vector<Key> keys_;              // shape [count]
};

}  // namespace kvproof::bench
