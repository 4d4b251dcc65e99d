// SPDX-License-Identifier: Apache-2.0
// The events of a run: what crosses the interfaces of a scheduler, its worker and its connectors.
//
// Source: README.md beside this file, whose table says what each member means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "reference/config.h"
#include "reference/ids.h"

namespace kvproof::live {

struct Tier {
  std::string name;
  std::uint32_t blocks = 0;
};

struct Group {
  std::uint32_t block_size = 1;  // [tokens]
  std::uint32_t window = 0;      // [tokens], 0 = a row reads all that is before it
  bool state = false;            // a block holds the state of a prefix, not one slot a token
  bool in_place = false;         // a row reads the state in the entry in which it writes it

  /// What says which tokens its layers read (reference/layer_rules.h).
  [[nodiscard]] constexpr GroupConfig rules() const {
    const LayerKind tokens = window > 0 ? LayerKind::sliding_window : LayerKind::full;
    return {state ? LayerKind::mamba : tokens, block_size, false, window};
  }
};

struct Header {
  std::string engine;
  std::string seed;
  std::vector<Tier> tiers;
  std::vector<Group> groups;
  bool null_block = false;
  std::uint32_t depth = 1;
  std::uint32_t patience = 1;  // [steps]
};

/// A block of a tier. Steps read and write tier 0.
struct Place {
  std::uint32_t tier = 0;
  std::uint32_t block = 0;
};

/// The requests in the order of their arrival. An event names one by its number.
class Names {
 public:
  /// A name that comes again means the new request from here on.
  std::uint32_t add(const std::string& name);
  /// @return nothing if it has not arrived
  [[nodiscard]] std::optional<std::uint32_t> find(const std::string& name) const;
  [[nodiscard]] const std::string& of(std::uint32_t request) const { return names_[request]; }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<std::string> names_;
};

using BlockLists = std::vector<std::vector<std::uint32_t>>;  // one a group
template <class Value>
using PerRequest = std::vector<std::pair<std::uint32_t, Value>>;
using TokensOf = PerRequest<std::vector<TokenId>>;

namespace event {

struct Request {
  std::uint32_t req = 0;  // the number of those before it
  std::vector<TokenId> tokens;
  std::string keys;
};
struct Tokens {
  std::uint32_t req = 0;
  std::optional<std::uint32_t> length;  // given for the next turn of a session
  std::vector<TokenId> append;
};
struct Row {
  std::uint32_t req = 0;
  std::uint32_t start = 0;
  std::uint32_t n = 0;
  std::uint32_t drafts = 0;  // of these tokens
  enum class Tables { as_before, appended, replaced } told = Tables::as_before;
  BlockLists tables;
};
struct BlockCopy {
  std::uint32_t group = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};
struct Dispatch {
  std::uint64_t step = 0;
  std::vector<Row> rows;
  std::vector<BlockCopy> copies;
  std::vector<std::uint32_t> left_out;  // requests whose rows cannot be
};
struct Sent {  // the write of a position, by the slot mapping
  std::uint32_t group = 0;
  std::uint32_t position = 0;
  std::uint32_t block = 0;
  std::uint32_t offset = 0;
};
struct Run {
  std::uint64_t step = 0;
  TokensOf inputs;
  std::vector<BlockCopy> copies;  // that the worker decided, after those of the dispatch
  PerRequest<BlockLists> tables;  // of rows whose worker has another table than was dispatched
  PerRequest<std::vector<Sent>> slots;
};
struct Retire {
  std::uint64_t step = 0;
  TokensOf sampled;
  std::vector<std::uint32_t> discarded;
};
enum class Kind : std::uint8_t { load, store, send, receive };
struct Start {
  std::string transfer;
  Kind kind = Kind::load;
  std::vector<Place> from;  // empty for receive
  std::vector<Place> to;    // empty for send
  std::uint32_t group = 0;
  std::optional<std::uint32_t> req;
  std::optional<std::uint64_t> after;
  std::optional<std::uint32_t> carries;  // whose tokens a receive brings, from `first` on, if known
  std::uint32_t first = 0;
  bool keeps = false;  // what is written into `from` may be what is there already
};
struct Move {
  std::string transfer;
  std::vector<std::uint32_t> pairs;
};
enum class Ended : std::uint8_t { done, failed, abandoned };
struct Settle {
  std::string transfer;
  Ended outcome = Ended::done;
  std::vector<std::uint32_t> failed;
};
enum class Way : std::uint8_t { preempt, finish, abort };
struct Leave {
  Way way = Way::finish;
  std::uint32_t req = 0;
};
struct Hit {
  std::uint32_t req = 0;
  std::uint32_t tokens = 0;
  std::string transfer;  // empty = they are there already
};
struct Publish {
  bool published = true;  // or withdrawn
  Place place;
  std::uint32_t group = 0;
  std::uint32_t req = 0;
  std::uint32_t to = 0;
};
struct Queue {
  bool freed = true;  // or taken
  std::uint32_t tier = 0;
  std::vector<std::uint32_t> blocks;
};
struct Reset {
  std::vector<std::uint32_t> tiers;
};
struct Raised {
  std::string what;
};
struct Lost {
  std::uint64_t events = 0;  // 0 = it is not known how many
  std::string what;
};
struct Quiet {};
struct End {
  std::vector<std::optional<std::uint32_t>> free;  // nothing where it is more than there are
  std::vector<std::uint32_t> unfinished;
};

}  // namespace event

using Event =
    std::variant<event::Request, event::Tokens, event::Dispatch, event::Run, event::Retire,
                 event::Start, event::Move, event::Settle, event::Leave, event::Hit, event::Publish,
                 event::Queue, event::Reset, event::Raised, event::Lost, event::Quiet, event::End>;

/// A number or a name of an event that cannot be: a block outside of its pool, a request that never
/// arrived. What it stands in is left out of the event.
struct Stray {
  std::string what;
  std::string req;  // empty = of none
};

struct ReadEvent {
  std::optional<Event> event;  // nothing where nothing is left of it
  std::optional<std::uint64_t> step;
  std::vector<Stray> strays;  // the first 16
};

/// Lines are read strictly, because a word that is not understood may be the one that matters:
/// broken syntax, an unknown operation or member, one that is absent and a value of another kind
/// are refused by name. A block that does not exist is the one behind the last of its tier.
/// @throws TextError
[[nodiscard]] Header parse_run_header(std::string_view line);
[[nodiscard]] ReadEvent parse_event(std::string_view line, const Header& header, Names& names);

/// Of a line behind a loss no more is asked than that it is an object: what it names may be lost.
/// @return how many more events it says are lost @throws TextError
[[nodiscard]] std::uint64_t parse_behind_loss(std::string_view line);

}  // namespace kvproof::live
