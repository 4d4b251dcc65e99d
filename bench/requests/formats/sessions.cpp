// SPDX-License-Identifier: Apache-2.0
// Sessions of kv-cache-tester: one JSON object for each session, with all its requests and those of
// its sub-agents; as published (hash_ids) or with its ids as runs of successive numbers.
//
// Model: ids are a session's own, so each session gets a range of its own. A session is held in
//        memory, as runs, while it is under way. How many are is LogOptions::sessions_at_once;
//        when one has asked its last request, the next of the file begins at that time.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "bench/requests/formats/id_layout.h"
#include "bench/requests/formats/json_line.h"
#include "bench/requests/formats/line_source.h"
#include "bench/requests/formats/log_readers.h"

namespace kvproof::bench {
namespace {

constexpr std::uint64_t kMaxId = (std::uint64_t{1} << 32) - 2;  // of a session
constexpr std::uint64_t kMaxBlockSize = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxSeconds = std::uint64_t{1} << 40;
constexpr std::uint32_t kOpen = ~std::uint32_t{0};  // an agent that is not known yet
constexpr std::string_view kObjects = "an array of objects";

enum SessionField : std::size_t { kBlockSize, kSessionRequests };
enum RequestField : std::size_t { kTime, kInput, kOutput, kHashIds, kRuns, kRequests };

struct SessionRequest {
  double seconds = 0;  // since the session began
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
  std::uint32_t agent = 0;   // 0 = the main one
  std::uint32_t parent = 0;  // the agent that spawned this one
  std::size_t first_run = 0;
  std::size_t num_runs = 0;
  std::vector<std::size_t> after;  // positions of earlier requests of the session
};

/// One session in memory: its requests in order of time, and which request waits for which.
struct Session {
  struct Run {  // num successive ids
    std::uint32_t first = 0;
    std::uint32_t num = 0;
  };
  std::vector<SessionRequest> requests;
  std::vector<Run> runs;
  std::uint64_t num_ids = 0;  // all ids are below

  /// Sorts the requests by time and fills in `after`: the rule of Request::after.
  void order();
};

void Session::order() {
  std::stable_sort(requests.begin(), requests.end(),
                   [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  struct Agent {
    std::size_t last_seen = kNone;   // its latest request so far
    std::size_t remaining = 0;       // requests to come
    std::vector<std::size_t> ended;  // last requests of its sub-agents that it has not joined yet
  };
  std::vector<Agent> agents(1);
  for (const SessionRequest& request : requests) {
    const std::size_t highest = std::max(request.agent, request.parent);
    if (agents.size() <= highest) agents.resize(highest + 1);
    ++agents[request.agent].remaining;
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    SessionRequest& request = requests[i];
    Agent& agent = agents[request.agent];
    Agent& parent = agents[request.parent];
    const bool is_first = agent.last_seen == kNone;
    const std::size_t before = is_first ? parent.last_seen : agent.last_seen;
    if (before != kNone) request.after.push_back(before);
    request.after.insert(request.after.end(), agent.ended.begin(), agent.ended.end());
    agent.ended.clear();
    agent.last_seen = i;
    if (--agent.remaining == 0 && request.agent != 0) parent.ended.push_back(i);
  }
}

/// The lists of fields; the list of a request contains itself, for sub-agents.
struct Fields {
  explicit Fields(const LogOptions& options)
      : request{{{"t", JsonKind::real, "a number of seconds >= 0", kMaxSeconds},
                 {"in", JsonKind::integer, "an integer number of tokens", max_tokens(options),
                  false},
                 {"out", JsonKind::integer, "an integer number of tokens", max_tokens(options),
                  false},
                 {"hash_ids", JsonKind::integers, "an array of integers from 0 to 2^32 - 2", kMaxId,
                  false},
                 {"runs", JsonKind::integers, "an array of integers from 0 to 2^32 - 2", kMaxId,
                  false},
                 {"requests", JsonKind::objects, kObjects, 0, false, &requests}}},
        requests(request),
        session{{{"block_size", JsonKind::integer, "an integer number of tokens", kMaxBlockSize},
                 {"requests", JsonKind::objects, kObjects, 0, true, &requests}}} {}
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;

  static std::uint64_t max_tokens(const LogOptions& options) {
    return static_cast<std::uint64_t>(options.max_tokens);
  }

  std::array<JsonField, 6> request;
  JsonFields requests;
  std::array<JsonField, 2> session;
};

/// Appends the requests of a line to a session, in the order of the line.
class SessionBuilder final : public JsonVisitor {
 public:
  explicit SessionBuilder(Session& session) : session_(session) {}

  void begin_object(std::size_t /*depth*/) override {
    first_inside_.push_back(session_.requests.size());
  }

  std::string end_object(std::size_t /*depth*/, const JsonObject& object) override {
    const std::size_t first = first_inside_.back();
    first_inside_.pop_back();
    if (object.has(kRequests)) {
      close_sub_agent(first, object.real(kTime));
      return {};
    }
    if (!object.has(kInput) || !object.has(kOutput)) {
      return "the fields in and out, or requests of a sub-agent, found neither";
    }
    if (object.has(kHashIds) == object.has(kRuns)) return "one field hash_ids or runs";
    SessionRequest request;
    request.seconds = object.real(kTime);
    request.input_tokens = object.integer(kInput);
    request.output_tokens = object.integer(kOutput);
    request.agent = request.parent = kOpen;
    request.first_run = session_.runs.size();
    std::string expected;
    if (object.has(kHashIds)) {
      append_ids(object.list(kHashIds));
    } else {
      expected = append_runs(object.list(kRuns));
    }
    request.num_runs = session_.runs.size() - request.first_run;
    session_.requests.push_back(std::move(request));
    return expected;
  }

 private:
  /// Times inside count from its own time, and requests without an agent belong to it.
  void close_sub_agent(std::size_t first, double seconds) {
    const std::uint32_t number = ++num_sub_agents_;
    for (std::size_t i = first; i < session_.requests.size(); ++i) {
      SessionRequest& request = session_.requests[i];
      request.seconds += seconds;
      if (request.agent == kOpen) {
        request.agent = number;
      } else if (request.parent == kOpen) {
        request.parent = number;
      }
    }
  }

  void append_ids(const std::vector<std::uint64_t>& ids) {
    const std::size_t first = session_.runs.size();
    for (const std::uint64_t id : ids) {
      if (session_.runs.size() > first &&
          session_.runs.back().first + session_.runs.back().num == id) {
        ++session_.runs.back().num;
      } else {
        session_.runs.push_back({static_cast<std::uint32_t>(id), 1});
      }
      session_.num_ids = std::max(session_.num_ids, id + 1);
    }
  }

  std::string append_runs(const std::vector<std::uint64_t>& runs) {
    if (runs.size() % 2 != 0) {
      return "runs as pairs of a first id and a length, found " + std::to_string(runs.size()) +
             " numbers";
    }
    for (std::size_t i = 0; i < runs.size(); i += 2) {
      const std::uint64_t end = runs[i] + runs[i + 1];
      if (end > kMaxId + 1)
        return "runs of ids below 2^32 - 1, found one up to " + std::to_string(end);
      session_.runs.push_back(
          {static_cast<std::uint32_t>(runs[i]), static_cast<std::uint32_t>(runs[i + 1])});
      session_.num_ids = std::max(session_.num_ids, end);
    }
    return {};
  }

  Session& session_;
  std::vector<std::size_t> first_inside_;  // for each open object, the requests before it
  std::uint32_t num_sub_agents_ = 0;
};

class SessionSource final : public LineSource {
 public:
  SessionSource(std::unique_ptr<LineReader> reader, std::string_view first_line,
                const LogOptions& options)
      : LineSource(std::move(reader), first_line, options),
        fields_(options),
        reader_(fields_.session) {
    info_.format = "kv_cache_tester_sessions";
    info_.sessions = true;
    begin_session(0);
  }

 protected:
  bool read(Request& request) override {
    if (const std::size_t slot = current_; slot < active_.size() && active_[slot].is_over()) {
      const double seconds = active_[slot].arrival_of_last();
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(slot));
      if (!file_ended_) begin_session(seconds);
    }
    while (!file_ended_ && active_.size() < options().sessions_at_once) begin_session(0);
    if (active_.empty()) return false;
    current_ = 0;
    for (std::size_t i = 1; i < active_.size(); ++i) {
      if (active_[i].arrival() < active_[current_].arrival()) current_ = i;
    }
    produce(active_[current_], request);
    return true;
  }

  void on_numbered(Request& request) override {
    active_[current_].indices.push_back(request.index);
  }

 private:
  struct Active {
    Session session;
    std::uint64_t number = 0;
    std::uint64_t first_id = 0;          // of its range
    double begin = 0;                    // arrival of its first request
    std::size_t next = 0;                // position
    std::vector<std::uint64_t> indices;  // shape [next], of its requests in the source

    [[nodiscard]] bool is_over() const { return next == session.requests.size(); }
    [[nodiscard]] double at(std::size_t position) const {
      return begin + (session.requests[position].seconds - session.requests.front().seconds);
    }
    [[nodiscard]] double arrival() const { return at(next); }
    [[nodiscard]] double arrival_of_last() const { return at(session.requests.size() - 1); }
  };

  /// Reads the next session that has a request, if there is one.
  void begin_session(double seconds) {
    Active active;
    active.begin = seconds;
    std::string_view line;
    do {
      if (!next_line(line)) {
        file_ended_ = true;
        return;
      }
      active.session = read_session(line);
      active.number = next_session_++;
      active.first_id = next_id_;
      next_id_ += active.session.num_ids;
    } while (active.session.requests.empty());
    active_.push_back(std::move(active));
  }

  Session read_session(std::string_view line) {
    Session session;
    SessionBuilder builder(session);
    const JsonObject& object =
        reader_.read(line, lines(), static_cast<std::size_t>(options().max_tokens), &builder);
    check_block_size(object.integer(kBlockSize));
    for (SessionRequest& request : session.requests) {
      check_ids(session, request);
      if (request.agent == kOpen) request.agent = 0;
      if (request.parent == kOpen) request.parent = 0;
    }
    std::erase_if(session.requests, [this](const SessionRequest& request) {
      Request lengths;
      lengths.input_tokens = request.input_tokens;
      lengths.output_tokens = request.output_tokens;
      return leaves_out(lengths);
    });
    session.order();
    return session;
  }

  void check_block_size(std::int64_t size) {
    if (size == 0) lines().fail("block_size", "at least one token, found 0");
    if (info_.ids_block_size == 0) info_.ids_block_size = size;
    if (size == info_.ids_block_size) return;
    lines().fail("block_size", std::to_string(info_.ids_block_size) +
                                   " as on the lines before, found " + std::to_string(size));
  }

  void check_ids(const Session& session, const SessionRequest& request) const {
    std::uint64_t ids = 0;
    for (std::size_t i = 0; i < request.num_runs; ++i) {
      ids += session.runs[request.first_run + i].num;
    }
    const IdLayout layout{info_.ids_block_size, false};
    if (ids == static_cast<std::uint64_t>(layout.num_ids(request.input_tokens))) return;
    lines().fail("requests", layout.wanted(request.input_tokens, "in") + ", found " +
                                 std::to_string(ids) + " at " + shortest(request.seconds) + " s");
  }

  static void produce(Active& active, Request& request) {
    const SessionRequest& from = active.session.requests[active.next];
    clear(request);
    request.arrival_seconds = active.arrival();
    request.input_tokens = from.input_tokens;
    request.output_tokens = from.output_tokens;
    request.session = active.number;
    request.agent = from.agent;
    for (const std::size_t position : from.after) {
      request.after.push_back(active.indices[position]);
    }
    for (std::size_t i = 0; i < from.num_runs; ++i) {
      const Session::Run& run = active.session.runs[from.first_run + i];
      for (std::uint64_t id = 0; id < run.num; ++id) {
        request.block_ids.push_back(active.first_id + run.first + id);
      }
    }
    ++active.next;
  }

  Fields fields_;
  JsonLineReader reader_;
  std::vector<Active> active_;  // in the order in which they began
  std::size_t current_ = 0;     // of active_, the one that the latest request came from
  bool file_ended_ = false;
  std::uint64_t next_session_ = 0;
  std::uint64_t next_id_ = 0;
};

}  // namespace

bool looks_like_sessions(std::string_view first_line) {
  const std::vector<std::string> names = json_field_names(first_line);
  return std::find(names.begin(), names.end(), "requests") != names.end();
}

std::unique_ptr<RequestSource> open_sessions(std::unique_ptr<LineReader> lines,
                                             std::string_view first_line,
                                             const LogOptions& options) {
  return std::make_unique<SessionSource>(std::move(lines), first_line, options);
}

}  // namespace kvproof::bench
