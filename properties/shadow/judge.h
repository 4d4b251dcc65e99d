// SPDX-License-Identifier: Apache-2.0
// Judges a run event by event: moves the shadow as the engine moves its cache, and asks the laws.
//
// Model:  only what changed is looked at anew. An entry of a request's table remembers the version
//         of its block at which its slots were found right, and the chain of a request is extended,
//         never computed again.
// Errors: a line that cannot be read is a TextError. Whatever an engine can do wrong is a finding,
//         at most a few of each law; what an event names and does not exist is left out of it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "properties/laws/laws.h"
#include "properties/shadow/events.h"
#include "properties/shadow/shadow.h"
#include "reference/layer_rules.h"
#include "reference/support/say.h"

namespace kvproof::live {

using properties::kRunLaws;
using properties::Law;
using properties::LawCount;

[[nodiscard]] consteval std::uint8_t at(std::string_view id) {
  return static_cast<std::uint8_t>(properties::find_law(id, kRunLaws) - kRunLaws.data());
}
/// The laws of a run, by their places in kRunLaws.
// clang-format off
enum LawId : std::uint8_t {
  kContent = at("S1"), kOverwritten = at("S2"), kSource = at("S3"), kTarget = at("S4"),
  kGivenBack = at("S5"), kOnce = at("S6"), kOrder = at("S7"), kHit = at("S8"),
  kPublished = at("S9"), kMirror = at("S10"), kTable = at("S11"), kDiscarded = at("S12"),
  kState = at("S13"), kAnswer = at("S14"), kHeld = at("S15"), kRaised = at("S16"),
  kExists = at("S17"), kEnds = at("L1"), kProgress = at("L2"), kDrain = at("L3"),
  kSettled = at("L4"),
};
// clang-format on

struct Found {
  LawId law = kContent;
  std::uint32_t event = 0;  // its line in the file, the header being the first
  std::string what;
  std::string req;                        // empty = about none
  std::optional<std::uint32_t> position;  // [tokens]
  std::optional<Place> place;
  std::string wrote;                // who wrote the slot, and when
  std::vector<std::string> before;  // the last events of the block
  std::optional<std::uint64_t> step;
  std::string known;  // the id of the row that explains it; empty = new
};

/// @return the id of the row that explains what was found; empty = none
using Knows = std::function<std::string(const Header&, LawId, std::string_view what)>;

class Judge {
 public:
  explicit Judge(const Header& header, Knows knows = {})
      : header_(header), knows_(std::move(knows)), shadow_(header) {
    for (const Group& group : header.groups) rules_.push_back(group.rules());
  }

  /// Its numbers are those of requests, tiers and groups that exist.
  void take(const Event& event);
  /// Behind a loss a line is counted and not judged. @throws TextError
  void take_line(std::string_view line);
  /// The last line was broken off.
  void tear() { torn_ = true; }

  [[nodiscard]] const Header& header() const { return header_; }
  /// Events that name requests are made with these.
  [[nodiscard]] Names& names() { return names_; }
  [[nodiscard]] const std::vector<Found>& findings() const { return findings_; }
  [[nodiscard]] const LawCount& count(std::size_t law) const { return counts_[law]; }
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] std::uint32_t events() const { return event_; }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  [[nodiscard]] std::uint64_t requests() const { return asked_.size(); }
  [[nodiscard]] bool ran() const { return last_ran_.has_value(); }
  /// @return from where on events are missing, and why; empty = none are
  [[nodiscard]] const std::string& lost() const { return lost_; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  [[nodiscard]] bool torn() const { return torn_; }
  /// @return whether a run without findings holds
  [[nodiscard]] bool can_tell() const { return ran() && lost_.empty(); }
  /// @return for how many tokens of requests that have ended there is memory
  [[nodiscard]] std::size_t room_of_gone() const;

  // slots.cpp: what an operation on an allocator does to slots, and no event of a run says

  /// Positions [from, to) of a request, in the blocks that a table of a group names.
  struct Part {
    std::uint32_t request = 0;
    std::uint32_t group = 0;
    std::uint32_t tier = 0;
    std::span<const BlockId> table;
    std::uint32_t from = 0;
    std::uint32_t to = 0;
  };
  /// The block is handed out: what it held is gone.
  void clear(Place at);
  /// What was written there as drafts, or loaded, is what its tokens write.
  void know(const Part& part);
  /// It must be there.
  void look(LawId law, const Part& part);

 private:
  struct Entry {  // of a table
    std::uint32_t block = 0;
    std::uint32_t version = 0;  // of the block when its slots were right
    std::uint32_t until = 0;    // up to that position [tokens]
  };
  struct Table {
    std::vector<Entry> entries;
    std::uint32_t named = 0;   // from this entry on each is a block of the pool
    std::uint32_t right = 0;   // before this entry all were right
    std::uint64_t looked = 0;  // disturbed_ when it was last looked at
  };
  using Tables = std::vector<Table>;  // one a group
  struct Use {                        // what a row reads and writes of one group
    std::uint32_t from = 0;           // the first position that it reads
    std::uint32_t first = 0;          // the entry of the table with that position
    std::uint32_t writes = 0;         // the first entry that it writes
    std::uint32_t stop = 0;           // behind the last
  };
  struct Row {
    std::shared_ptr<Tables> tables;  // as they were at the dispatch, or longer
    std::uint32_t request = 0;
    std::uint32_t incarnation = 0;
    std::uint32_t turn = 0;
    std::uint32_t start = 0;
    std::uint32_t n = 0;
    std::uint32_t drafts = 0;
    std::uint32_t dispatched = 0;  // event
    bool failed = false;           // it read what failed to load
    bool own = false;              // these tables are the worker's own, and not what it was given
    const Use* uses = nullptr;     // one a group, kept by its step
  };
  struct Asked {  // a request
    Identity base = 0;
    std::vector<Identity> chain;  // of the prefix that ends with each position
    std::uint32_t known = 0;      // of these tokens the control thread has; the rest was fed
    std::uint32_t incarnation = 0;
    std::uint32_t turn = 0;  // of a session
    std::uint32_t computed = 0;
    bool live = true;
    bool late = false;       // answers are of a row that was dispatched before a preemption
    bool forgotten = false;  // it ended, and its chain is gone
    std::shared_ptr<Tables> tables;
    std::vector<TokenId> answers;  // sampled
    std::uint32_t taken = 0;       // of these
    std::optional<event::Hit> hit;
    const std::vector<TokenId>* fed = nullptr;       // to the step that runs now
    const std::vector<event::Sent>* sent = nullptr;  // by its slot mapping
    const Row* row = nullptr;                        // of the step that retires now
  };
  struct Step {
    std::uint64_t number = 0;
    bool ran = false;
    std::vector<Row> rows;
    std::vector<Use> uses;  // shape [rows * groups], with those of rows that are not run
    std::vector<event::BlockCopy> copies;
    std::vector<std::uint32_t> idle;  // requests whose rows are not run
  };
  struct Transfer {
    event::Start given;
    std::uint32_t number = 0;
    std::uint32_t incarnation = 0;
    std::uint64_t begun = 0;  // steps
    std::vector<bool> moved;  // shape [pairs]
  };
  struct Published {
    std::uint32_t group = 0;
    Identity identity = kUnwritten;  // 0 = of tokens that are still to come
    std::uint32_t request = 0;
    std::uint32_t to = 0;
    bool awaited = false;  // its writer is in flight
  };
  /// Who writes, for the laws about writing.
  struct Writer {
    std::uint32_t number = 0;  // as in Slot::writer
    std::optional<std::uint32_t> request;
    std::uint32_t own = 0;  // entries of tables by which it holds the block
    Did did = Did::row;
  };

  struct Holder {  // of a block
    std::uint32_t request = 0;
    std::uint32_t group = 0;
    std::uint32_t entry = 0;
  };
  struct About {  // what a finding is about
    const Asked* asked = nullptr;
    std::optional<Place> place = {};
    const Slot* slot = nullptr;
    std::optional<std::uint32_t> position = {};
    std::string_view req = {};  // the name of one that never arrived
  };

  // steps.cpp
  void take(const event::Dispatch& event);
  void take(const event::Run& event);
  void take(const event::Retire& event);
  void take_answer(const Row& row, const std::vector<TokenId>& tokens);
  void set_tables(const event::Row& row, Asked& asked);
  void put_tables_back(Asked& asked);
  [[nodiscard]] std::uint32_t first_read(std::uint32_t group, std::uint32_t computed) const;
  [[nodiscard]] Use use_of(const event::Row& row, std::uint32_t group) const;
  [[nodiscard]] static Place place_of(const Row& row, std::uint32_t group, std::uint32_t entry) {
    return {0, (*row.tables)[group].entries[entry].block};
  }
  /// @return whether its request is still in the batch as it was at the dispatch
  [[nodiscard]] bool in_batch(const Row& row) const {
    const Asked& asked = asked_[row.request];
    return asked.live && asked.incarnation == row.incarnation;
  }
  [[nodiscard]] bool uses(const Row& row, Place at) const;
  void count_writes(const Row& row, std::int32_t change);
  [[nodiscard]] bool plan(Step& step, const event::Row& row);
  void append(Table& table, std::uint32_t block) const;
  [[nodiscard]] bool covered(const Row& row, std::uint32_t group);
  [[nodiscard]] bool shared(const Row& row, std::uint32_t group, std::uint32_t entry) const;
  void check_hit(Asked& asked, const Row& row);
  [[nodiscard]] std::deque<Step>::iterator find_step(std::uint64_t number, bool to_run);
  void run(Step& step, const event::Run& event);
  void copy(const event::BlockCopy& copy);
  void feed(const Row& row);
  void write_row(const Row& row);
  void write_state(const Row& row, std::uint32_t group, const Writer& writer);
  void read_row(Row& row);
  void read_attention(Row& row, std::uint32_t group);
  [[nodiscard]] bool read_entry(Row& row, std::uint32_t group, std::uint32_t entry,
                                std::uint32_t until, bool current);
  void read_state(Row& row, std::uint32_t group);
  [[nodiscard]] bool read_block(const Row& row, Place at);
  void misread(Row& row, std::uint32_t group, Place at, const Slot& slot, std::uint32_t position);
  void spoil(Row& row);
  void cut(Asked& asked, std::uint32_t length);

  // worker.cpp
  [[nodiscard]] bool has_row(const Step& step, std::uint32_t request, const char* field);
  void take_tables(Step& step, const event::Run& event);
  void take_slots(Step& step, const event::Run& event);
  void check_slot(const Row& row, const event::Sent& sent);
  void write_by_slots(const Row& row, std::uint32_t group, const Writer& writer);
  [[nodiscard]] static const event::Sent* sent_of(const Asked& asked, std::uint32_t group,
                                                  std::uint32_t position);
  [[nodiscard]] std::string blame(const Row& row, std::uint32_t group,
                                  std::uint32_t position) const;

  // writes.cpp
  void write(Place at, std::uint32_t group, std::uint32_t first, std::span<const Identity> content,
             const Writer& writer);
  [[nodiscard]] std::vector<Holder> holders_of(std::uint32_t block) const;
  void check_overwritten(Place at, std::uint32_t group, std::uint32_t first,
                         std::span<const Identity> content);
  void check_users(Place at, std::uint32_t first, std::span<const Identity> content,
                   const Writer& writer);
  [[nodiscard]] Slot* slot_of(const Part& part, std::uint32_t position);
  [[nodiscard]] bool wants_other(const Row& row, Place at, std::uint32_t group, std::uint32_t first,
                                 std::span<const Identity> content) const;
  void check_steps(Place at, std::uint32_t group, std::uint32_t first,
                   std::span<const Identity> content, const Writer& writer);

  // transfers.cpp
  void take(const event::Start& event);
  void take(const event::Move& event);
  void take(const event::Settle& event);
  [[nodiscard]] bool has_pair(const Transfer& transfer, std::size_t pair);
  void move(Transfer& transfer, std::size_t pair);
  void lose(Transfer& transfer, const event::Settle& event);
  void fail(Transfer& transfer, std::size_t pair);
  [[nodiscard]] Transfer* find_transfer(const std::string& name);

  // claims.cpp
  void take(const event::Request& event);
  void take(const event::Tokens& event);
  void take(const event::Leave& event);
  void take(const event::Hit& event);
  void take(const event::Publish& event);
  void take(const event::Queue& event);
  void take(const event::Reset& event);
  void take(const event::Raised& event);
  void withdraw(const event::Publish& event, Identity identity);
  void look_at_published(bool next_step);
  void look_at(Place at, bool next_step);
  void doubt(Place at);
  [[nodiscard]] bool check_published(Place at, Published& key, bool next_step);
  void forget();
  [[nodiscard]] bool in_flight(std::uint32_t request) const;

  // liveness.cpp
  void begin();
  void take(const event::Lost& event);
  void take(const event::Quiet& event);
  void take(const event::End& event);
  void count_step(const event::Dispatch& event);
  template <class... Parts>
  void report(LawId law, const About& about, const Parts&... what) {
    if (++counts_[law].reported <= kFew || knows_) tell(law, about, say(what...));
  }
  /// Keeps a few that are new, and a few that are known.
  void tell(LawId law, const About& about, std::string what);
  [[nodiscard]] std::string writer_of(const Slot& slot) const;
  [[nodiscard]] std::string at_event(std::uint32_t event) const;
  [[nodiscard]] const std::string& name_of(const Asked& asked) const;
  [[nodiscard]] static std::uint64_t key_of(Place at) {
    return (std::uint64_t{at.tier} << 32U) | at.block;
  }
  [[nodiscard]] bool is_null(std::uint32_t block) const {
    return header_.null_block && block == kNullBlock;
  }
  /// @return whether it is the null block or lies outside of the pool: nobody holds it
  [[nodiscard]] bool is_none(std::uint32_t block) const {
    return is_null(block) || block >= header_.tiers[0].blocks;
  }

  static constexpr std::uint64_t kFew = 3;  // of each law

  Header header_;
  std::vector<GroupConfig> rules_;  // one a group: which tokens are read
  Knows knows_;
  Names names_;
  Shadow shadow_;
  std::vector<Asked> asked_;
  std::vector<std::uint32_t> alive_;  // requests, in the order of their arrival
  std::deque<std::pair<std::uint32_t, std::size_t>> gone_;  // requests, tokens of their chains
  std::size_t gone_tokens_ = 0;
  std::deque<Step> steps_in_flight_;
  std::deque<Transfer> transfers_;
  std::vector<std::string> transfer_names_;
  std::unordered_map<std::uint64_t, std::vector<Published>> published_;
  std::vector<Place> doubtful_;  // published blocks that changed or wait for their writers
  std::uint64_t disturbed_ = 0;  // how often a block of a table was written by others than its row
  std::vector<Place> spoiled_;
  std::vector<Identity> scratch_, content_;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> ran_;  // event, step
  std::uint32_t event_ = 1;                                   // the header is the first line
  std::uint64_t steps_ = 0;
  std::optional<std::uint64_t> last_dispatched_, last_ran_;
  std::optional<std::uint64_t> quiet_;  // steps when arrivals and faults stopped
  std::uint64_t empty_ = 0;             // steps without rows in a row
  std::optional<std::uint64_t> step_now_;
  bool ended_ = false;
  bool torn_ = false;
  std::string lost_;
  std::uint64_t dropped_ = 0;                       // events
  std::array<LawCount, kRunLaws.size()> counts_{};  // reported: of them all
  std::vector<Found> findings_;
};

}  // namespace kvproof::live
