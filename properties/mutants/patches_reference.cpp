// SPDX-License-Identifier: Apache-2.0
// The list of source patches to reference/: an id is that of a row of mutants.h, which says what is
// wrong and where it was reported.
#include "properties/mutants/museum_faults.h"
#include "properties/mutants/patch.h"

namespace kvproof::properties {
namespace {

constexpr const char* kPool = "block_pool.cpp";
constexpr const char* kCache = "prefix_cache.cpp";
constexpr const char* kGroup = "layer_group.cpp";
constexpr const char* kSearch = "prefix_search.cpp";
constexpr const char* kManager = "cache_manager.cpp";
constexpr const char* kSharing = "cache_manager_sharing.cpp";
constexpr const char* kTiers = "cache_manager_tiers.cpp";

// Places that several bugs change.
constexpr const char* kRefusesFree =
    "expects(ref_cnt_[block] > 0, Breach::not_held, \"release of a block that nobody holds\");";
constexpr const char* kReleasesNull =
    "std::list<BlockId> back; for (BlockId block : blocks) {"
    " `if (block == kNullBlock) continue;`";
constexpr const char* kSide = "`(to_front ? front : back)`.push_back(block);";
constexpr const char* kTouchesHit = "pool.touch({read.begin(), read.end()});";
constexpr const char* kRecycles = "`` pool.release(unread);";
constexpr const char* kHashesAdapter =
    "if (!extra.lora.empty()) out.push_back(\"lora:\" + extra.lora);";
constexpr const char* kHashesPath =
    "if (!extra.lora_path.empty()) out.push_back(\"path:\" + extra.lora_path);";
constexpr const char* kHashesSalt =
    "if (start == 0 && !extra.salt.empty()) out.push_back(\"salt:\" + extra.salt);";
constexpr const char* kHashesItem =
    "out.push_back(type + std::to_string(shift) + \":\" + item.id);";
constexpr const char* kHasNamed =
    "book_->name(parent, std::span(r.tokens).subspan(start, unit), std::move(extra))); ``";
constexpr const char* kHasKey =
    "const bool has ="
    " `std::ranges::find(carried, key(r, g, hit_end(r, g, i))) != carried.end()`;";
constexpr const char* kFits = "if (`need(r, use_hit, demand)` + watermark + reserved >";
constexpr const char* kRefuses = "> pool_.num_free()) `return refuse();` note_states(r, demand);";
constexpr const char* kCounts = "if (args.use_lookup && idle && !resumed) count(r, use_hit);";
constexpr const char* kBasis =
    "const std::uint64_t processed ="
    " `demand.computed - std::min<std::uint64_t>(args.in_flight, demand.computed)`;";
constexpr const char* kFinishes = "`` release_tables(r); release_host(r); requests_.erase(o.req);";
constexpr const char* kFrees = "`` release_tables(r); release_host(r); r.computed = 0;";
constexpr const char* kEvicts = "pool_.evict(o.blocks);";
constexpr const char* kShares = "out.push_back(static_cast<std::uint32_t>(`shared`));";
constexpr const char* kReleasesTable =
    "pool_.release({table.blocks.rbegin(), table.blocks.rend()}); table = {};";
constexpr const char* kBeforeTable =
    "`` pool_.release({table.blocks.rbegin(), table.blocks.rend()}); table = {};";
constexpr const char* kPublishes = "`` blocks.push_back(block); keys.push_back(own);";
constexpr const char* kPublished = "`` table.published = to;";
constexpr const char* kPins = "`pool_.touch(o.blocks);` leases_.emplace(";
constexpr const char* kUnpins =
    "`pool_.release({at->second.rbegin(), at->second.rend()});` leases_";
constexpr const char* kSwappedOut =
    "`pool_.release({table.blocks.rbegin(), table.blocks.rend()});` table.blocks.clear();"
    " table.hit";
constexpr const char* kTwin =
    "const auto twin = carried == nullptr ? std::nullopt : to.cache().find(`*carried`);";
constexpr const char* kIndexes = "`` out.index.resize(pool.cache().entries().size());";
constexpr const char* kObserves = "return patched::observe_cache(pool.cache(), out);";
// A bug that asks for more than is there gets an error, as in an engine.
constexpr const char* kTakes = "`` std::vector<BlockId> out; out.reserve(n);";
constexpr const char* kChecks = "expects(n <= num_free(), Breach::capacity, \"no free blocks\");";

// Where, then by what it is replaced.
// clang-format off
constexpr Patch kReferencePatches[] = {
    // References and the free list.
    {"B001", kSharing, "`` table.hit.clear(); pool_.touch(table.blocks);",
     "pool_.touch(table.hit);"},
    {"B002", kPool, "`` queue_.splice(queue_.begin(), front);",
     "for (std::list<BlockId>* side : {&front, &back}) {"
     " for (const BlockId block : std::list<BlockId>(*side)) {"
     " side->insert(side->end(), static_cast<std::size_t>(std::ranges::count(blocks, block) - 1),"
     " block); } }"},
    {"B003", kSharing, kPins, "for (const BlockId block : o.blocks) {"
     " const PrefixKey* carried = pool_.cache().key_of(block);"
     " pool_.touch({carried == nullptr ? block : pool_.cache().find(*carried).value_or(block)});"
     " }"},
    {"B004", kPool, "queue_.remove(block);", ""},
    {"B005", kTiers, kSwappedOut, "const bool fits = std::ranges::all_of( table.blocks,"
     " [&](BlockId block) { return block < host_.num_blocks(); });"
     " (fits ? host_ : pool_).release({table.blocks.rbegin(), table.blocks.rend()});"},
    {"B005", kPool, kRefusesFree, ""},
    {"B006", kPool, kReleasesNull, "if (block == kNullBlock) { back.push_back(block); continue; }"},
    {"B007", kManager, kFinishes, "for (const GroupTable& table : r.groups) {"
     " Blocks& finished = patched::memory().of_name[o.req];"
     " finished.insert(finished.end(), table.blocks.rbegin(), table.blocks.rend()); }"},
    {"B007", kManager, "Result CacheManager::perform(const op::Free& o) { ``",
     "if (patched::memory().of_name.contains(o.req) && !requests_.contains(o.req)) {"
     " pool_.release(std::exchange(patched::memory().of_name[o.req], {})); return {}; }"},
    {"B007", kPool, kRefusesFree, ""},
    {"B009", kTiers, kSwappedOut, "patched::memory().count = 1;"
     " pool_.release({table.blocks.rbegin(), table.blocks.rend()}); patched::memory().count = 0;"},
    {"B009", kPool, kReleasesNull, "if (block == kNullBlock) { if (patched::memory().count == 1)"
     " back.push_back(block); continue; }"},
    {"B010", kGroup, "unread.push_back(std::exchange(table.blocks[at - 1], kNullBlock));",
     "unread.push_back(table.blocks[at - 1]); break;"},
    {"B011", kSharing, kPins, ""},
    {"B011", kSharing, kUnpins, ""},
    {"B012", kSharing, kUnpins, "for (const BlockId block : at->second) {"
     " if (pool_.ref_cnt(block) > 1) pool_.release({block}); }"
     " pool_.release({at->second.rbegin(), at->second.rend()});"},
    {"B014", kPool, "ref_cnt_[block] = 1;", ""},

    // Keys.
    {"B015", kCache,
     "return `names_.try_emplace({parent, std::move(own), std::move(extra)}, next).first->second`;",
     "patched::truncated(names_.try_emplace({parent, std::move(own), std::move(extra)},"
     " next).first->second)"},
    {"B016", kCache, "`` const auto at = blocks_.find(key);",
     "for (const auto& [other, copies] : blocks_) { const bool same_bucket"
     " = other.content % 16 == key.content % 16; if (other.group == key.group"
     " && same_bucket) return copies.front(); }"},
    {"B016", kManager, kHasKey, "true"},
    {"B018", kCache, kHashesItem, "const bool image = std::string_view(type) == \"mm:\";"
     " out.push_back(type + std::to_string(shift) + \":\" + (image ? patched::tail_of(item.id)"
     " : item.id));"},
    {"B019", kCache, "add_overlapping(\"mm:\", extra.mm);", ""},
    {"B020", kCache, kHashesItem, "const bool image = std::string_view(type) == \"mm:\";"
     " out.push_back(type + std::to_string(image ? 0 : shift) + \":\" + item.id);"},
    {"B021", kCache, kHashesAdapter, "if (!extra.lora.empty()) { out.push_back(\"lora:\""
     " + extra.lora.substr(0, extra.lora.find('@'))); }"},
    {"B021", kCache, kHashesPath, ""},
    {"B023", kManager, kHasNamed, "patched::name_without({\"lora:\", \"path:\"}, *book_, r,"
     " parent, start, unit, unit_extra(r.extra, start, start + unit + ahead));"},
    {"B023", kTiers, kTwin, "patched::named_alike(to.cache(), *carried)"},
    {"B024", kManager, kHasNamed,
     "patched::name_without({\"\"}, *book_, r, parent, start, unit, {});"},
    {"B024", kTiers, kTwin, "patched::named_alike(to.cache(), *carried)"},
    {"B025", kManager, kHasNamed, "patched::name_without({\"lora:\", \"path:\"}, *book_, r,"
     " parent, start, unit, unit_extra(r.extra, start, start + unit + ahead));"},
    {"B025", kManager, "`` return tokens <= hashed && pool_.cache().find(key(r, g, tokens))",
     "if (tokens <= hashed && tokens <= config_.groups[g].block_size) {"
     " return pool_.cache().find(patched::named_alike(pool_.cache(), key(r, g,"
     " tokens))) .has_value(); }"},
    {"B025", kManager, "blocks[i] = *pool_.cache().find(`key(r, g, hit_end(r, g, i))`);",
     "i > 0 ? key(r, g, hit_end(r, g, i)) : patched::named_alike(pool_.cache(), key(r, g,"
     " hit_end(r, g, i)))"},
    {"B025", kManager, kHasKey, "std::ranges::any_of(carried, [&](const PrefixKey& found) {"
     " return patched::memory().other_name[found.content] == patched::memory().other_name[key(r,"
     " g, hit_end(r, g, i)).content]; })"},
    {"B026", kCache, kHashesAdapter, ""},
    {"B026", kCache, kHashesPath, ""},
    {"B027", kCache, kHashesAdapter, "if (!extra.lora.empty()) out.push_back(extra.lora);"},
    {"B027", kCache, kHashesSalt,
     "if (start == 0 && !extra.salt.empty()) out.push_back(extra.salt);"},
    {"B028", kCache, "add_overlapping(`\"embeds:\"`, extra.embeds);", "\"mm:\""},
    {"B029", kCache, kHashesSalt, ""},
    {"B030", kManager, kHasNamed, "patched::name_without({\"layout:\"}, *book_, r, parent, start,"
     " unit, unit_extra(r.extra, start, start + unit + ahead));"},
    {"B030", kTiers, kTwin, "patched::named_alike(to.cache(), *carried)"},
    {"B031", kManager, "`` add_tokens(arrived, o.tokens);",
     "arrived.extra.salt += \"of \" + o.req;"},

    // The life of an index entry.
    {"B032", kPool, "residency_[block] = {step_, step_}; `forget(block);`", ""},
    {"B033", kPool, "residency_[block] = {step_, step_}; `forget(block);`",
     "patched::memory().count = 1; static_cast<void>(cache_.erase(block));"
     " patched::memory().count = 0;"},
    {"B033", kCache, "keys_of_.erase(block); ``", "if (patched::memory().count == 1) return keys;"},
    {"B033", kManager, kIndexes, kObserves},
    {"B034", kCache, "keys_of_.erase(block);", ""},
    {"B034", kManager, kIndexes, kObserves},
    {"B035", kPool, "cache_.insert(keys[i], blocks[i]);",
     "if (!cache_.find(keys[i])) cache_.insert(keys[i], blocks[i]);"},
    {"B036", kPool, "events_.emplace_back(event::Removed{key.group, block, key.prefix_tokens});",
     "const BlockId named = cache_.find(key).value_or(block);"
     " events_.emplace_back(event::Removed{key.group, named, key.prefix_tokens});"},
    {"B037", kSharing,
     "if (`carried != nullptr && carried->prefix_tokens >= own.prefix_tokens`) continue;", "false"},
    {"B037", kManager, kIndexes, kObserves},
    {"B038", kManager, kHasNamed, "patched::memory().other_name[r.contents.back()] = parent;"},
    {"B038", kPool, "events_.emplace_back(event::Removed{key.group, block, key.prefix_tokens});",
     "if (patched::parent_is_cached(cache_, key)) { events_.emplace_back(event::Removed{key.group,"
     " block, key.prefix_tokens}); }"},
    {"B040", kGroup, "append(out.blocks, taken); `` return out; } // The last 1 + speculative",
     "if (table.published == table.blocks.size() - taken.size()) {"
     " table.published = static_cast<std::uint32_t>(table.blocks.size()); }"},
    {"B041", kManager, kFinishes, "for (GroupTable& table : r.groups) {"
     " table.blocks.resize(std::min<std::size_t>(table.blocks.size(),"
     " table.published.value_or(0))); }"},
    {"B042", kSharing, kPublished,
     "if (!blocks.empty() && to > 2 && pool_.num_free() < 2) pool_.evict({table.blocks[0]});"},
    {"B043", kGroup, kRecycles, "patched::memory().marked.insert(unread.begin(), unread.end());"},
    {"B043", kPool, "residency_[block] = {step_, step_}; `forget(block);`",
     "if (patched::memory().marked.erase(block) == 0) forget(block);"},

    // Lookups and locks.
    {"B044", kSearch,
     "while (end + block_size <= limits.tokens && cached(end + block_size)) end += block_size;",
     "for (std::uint64_t at = block_size; at <= limits.tokens; at += block_size) {"
     " if (cached(at)) end = at; }"},
    {"B044", kSearch, "return {`Pattern(ceil_div(end, block_size), true)`, end, found};",
     "[&] { Pattern hit; for (std::uint64_t at = block_size; at <= end;"
     " at += block_size) hit.push_back(cached(at)); return hit; }()"},
    {"B045", kGroup, kTouchesHit,
     "pool.touch({read.begin(), read.empty() ? read.end() : read.end() - 1});"},
    {"B049", kSharing, "return `ceil_div<std::size_t>(o.tokens, config_.groups[g].block_size)`; };",
     "o.tokens / config_.groups[g].block_size"},
    {"B050", kSharing, kPublishes, "if (const auto copy = pool_.cache().find(own);"
     " copy && *copy != block) { pool_.release({block}); continue; }"},
    {"B240", kGroup, kRecycles, "auto& given = patched::memory().of_table[&table];"
     " given.insert(given.end(), unread.begin(), unread.end());"},
    {"B240", kManager, "`` add_tokens(arrived, o.tokens);",
     "for (const GroupTable& table : arrived.groups) patched::memory().of_table.erase(&table);"},
    {"B240", kManager, kFrees, "for (const GroupTable& table : r.groups) {"
     " pool_.release(std::exchange(patched::memory().of_table[&table], {})); }"},
    {"B240", kPool, kRefusesFree, ""},

    // The last token and the ends of blocks.
    {"B051", kManager,
     "hit = {static_cast<std::uint32_t>(found.tokens), {found.read}, {found.found}}; ``",
     "const bool whole = only.kind == LayerKind::full && !only.eagle && (limit"
     " + 1) % only.block_size == 0 && found.tokens == limit / only.block_size * only.block_size"
     " && cached(0, limit + 1); if (whole) { hit.tokens = static_cast<std::uint32_t>(limit);"
     " hit.patterns[0].push_back(true); hit.found[0] = limit + 1; }"},
    {"B052", kManager, "std::min<std::uint64_t>(`r.tokens.size() - 1`, o.max_tokens",
     "r.tokens.size()"},
    {"B054", kManager, "const std::uint64_t main = std::min(`total` + args.new_tokens, limit);",
     "r.computed"},
    {"B055", kManager,
     "expects(has, Breach::stale_lookup, \"a looked-up block has lost its content\");", ""},
    {"B056", kManager, "`` add_tokens(arrived, o.tokens);",
     "patched::memory().lost.erase(&arrived);"},
    {"B056", kManager, ".slots = `std::min(main + args.lookahead, limit)`,",
     "patched::inflated(std::min(main + args.lookahead, limit), &r,"
     " config_.groups.front().block_size)"},
    {"B056", kSharing, "table.erase(end, table.end()); ``",
     "std::uint32_t& lost = patched::memory().lost[&r];"
     " if (lost + 1 < config_.groups[g].block_size) ++lost;"},

    // Admission.
    {"B057", kManager, "`` if (need(r, use_hit, demand) + watermark + reserved >",
     "for (const GroupTable& table : r.groups) { if (demand.starts"
     " && use_hit) pool_.touch(table.hit); }"},
    {"B057", kGroup, kTouchesHit, ""},
    {"B058", kGroup, "+ copies + `revived`;", "demand.capped ? revived : 0"},
    {"B058", kPool, kTakes, kChecks},
    {"B059", kGroup, "+ copies + `revived`;", "demand.capped ? 0 : revived"},
    {"B060", kTiers, "if (missing + `static_cast<std::size_t>(revived)` > to.num_free())",
     "&to == &pool_ ? 0 : static_cast<std::size_t>(revived)"},
    {"B060", kPool, kTakes, kChecks},
    {"B061", kManager, kFits, "std::min(need(r, use_hit, demand), static_cast<std::int64_t>("
     " args.new_tokens * r.groups.size() / config_.groups.front().block_size))"},
    {"B061", kPool, kTakes, kChecks},
    {"B062", kManager, kFits, "std::max(need(r, use_hit, demand),"
     " static_cast<std::int64_t>(ceil_div<std::uint64_t>( args.new_tokens + args.lookahead,"
     " config_.groups.front().block_size)))"},
    {"B063", kManager, kFits, "std::int64_t{0}"},
    {"B063", kPool, "`` const BlockId block = queue_.front();",
     "if (queue_.empty()) { out.push_back(kNullBlock); continue; }"},
    {"B065", kManager, "all.slots = all.main = `r.tokens.size()`;",
     "demand.computed + args.new_tokens"},
    {"B067", kSharing, "if (o.n > `pool_.num_free()`) return Refused{}; Blocks blocks",
     "std::ranges::count_if(pool_.queue(), [&](BlockId block) {"
     " return pool_.cache().key_of(block) == nullptr; })"},
    {"B068", kGroup, "return `demand.capped && cap_` ?", "false"},

    // Eviction order.
    {"B070", kSharing, kReleasesTable, "pool_.release(table.blocks); table = {};"},
    {"B071", kManager, "Granted granted = grow(r, demand); ``",
     "for (const GroupTable& table : r.groups) { if (demand.starts"
     " && use_hit) pool_.touch(table.hit); }"},
    {"B071", kGroup, kTouchesHit, ""},
    {"B071", kPool, kTakes, kChecks},
    {"B073", kGroup, "`` pool.touch({read.begin(), read.end()});",
     "patched::memory().marked.insert(read.begin(), read.end());"},
    {"B073", kPool, "`` ref_cnt_[block] = 1;", "patched::memory().marked.erase(block);"},
    {"B073", kPool, kSide, "to_front || patched::memory().marked.contains(block) ? front : back"},
    {"B074", kManager, kRefuses, "patched::head_to_tail(pool_.queue()); return refuse();"},
    {"B075", kManager, kEvicts, "for (std::size_t i = 0; i < o.blocks.size(); ++i) {"
     " pool_.evict({o.blocks[i]}); if (pool_.ref_cnt(o.blocks[i]) > 0) ++i; }"},
    {"B076", kManager, kEvicts,
     "pool_.evict(o.blocks); pool_.evict({pool_.queue().begin(), pool_.queue().end()});"},
    {"B078", kGroup, "`` pool.touch({read.begin(), read.end()});",
     "if (group_.kind == LayerKind::sliding_window) {"
     " patched::memory().marked.insert(read.begin(), read.end()); }"},
    {"B078", kPool, "`` ref_cnt_[block] = 1;", "patched::memory().marked.erase(block);"},
    {"B078", kPool, kSide, "to_front || patched::memory().marked.contains(block) ? front : back"},
    {"B079", kPool, kSide, "order_ != FreeOrder::prepend && to_front ? front : back"},
    {"B080", kTiers, "`` if (missing + static_cast<std::size_t>(revived) > to.num_free())",
     "if (missing + static_cast<std::size_t>(revived) > to.num_free()) { to.touch(found);"
     " to.release(found); }"},

    // Sliding windows.
    {"B081", kManager, kBasis, "demand.main"},
    {"B082", kManager, kBasis, "demand.computed + args.lookahead"},
    {"B084", kGroup,
     "`recyclable_tokens(config_.profile, group_, computed) / block_size`, length);",
     "ceil_div(recyclable_tokens(config_.profile, group_, computed), block_size)"},
    {"B085", kSharing, "if (`block == kNullBlock` || !mask.keeps(i, boundaries)) continue;",
     "false"},
    {"B086", kSharing, kBeforeTable, "const GroupConfig& group ="
     " config_.groups[static_cast<std::size_t>(&table - r.groups.data())];"
     " const std::size_t gone = skipped_tokens(group, r.tokens.size()) / group.block_size;"
     " std::fill_n(table.blocks.begin(), std::min(table.blocks.size(), gone), kNullBlock);"},
    {"B087", kSharing, kPublishes, "if (const auto copy = pool_.cache().find(own);"
     " copy && *copy != block) { for (auto& [name, other] : requests_) {"
     " std::ranges::replace(other.groups[group].blocks, *copy, block); } }"},

    // Groups.
    {"B089", kSearch, "k.hit.read.resize(ceil_div<std::uint64_t>(hit, k.group->block_size));",
     "if (&k == &kin.front()) { k.hit.read.resize(ceil_div<std::uint64_t>(hit,"
     " k.group->block_size)); }"},
    {"B090", kSearch, "const bool drop_last = `k.eagle && !k.verified`;", "k.eagle"},
    {"B090", kSearch, "const bool margin = `drop_last` && !(", "drop_last && !k.verified"},
    {"B092", kSharing, "const CacheMask mask = `cache_mask(config_, config)`;",
     "patched::shifted(cache_mask(config_, config))"},
    {"B093", kSearch, "std::uint64_t current = hit; for (Kin& k : kin) { ``", "current = hit;"},
    {"B094", kSearch, "std::uint64_t current = hit; for (Kin& k : kin) { ``", "current = hit;"},
    {"B094", kSearch, "`` out.tokens = static_cast<std::uint32_t>(hit);", "hit = out.longest;"},
    {"B095", kSearch, "if (`drop_last && k.hit.tokens > current`) {", "false"},
    {"B097", kTiers, "if (!ok) { `pool_.release({table.blocks.rbegin(), table.blocks.rend()});`",
     "if (g == 0) pool_.release({table.blocks.rbegin(), table.blocks.rend()});"},

    // Publication and drafts.
    {"B098", kManager, "config_.groups[g].kind == LayerKind::mamba && `!hit.empty()` &&", "false"},
    {"B099", kManager, "if (`!args.delay_cache`) publish(", "true"},
    {"B101", kPool, "const BlockId block = `queue_.front()`;",
     "!out.empty() && out.back() + 1 < num_blocks() ? BlockId(out.back() + 1) : queue_.front()"},
    {"B101", kPool, "queue_.pop_front();", "queue_.remove(block);"},
    {"B102", kGroup, "const std::uint64_t want = wanted(demand); ``",
     "const std::uint64_t used = ceil_div<std::uint64_t>(demand.computed, group_.block_size);"
     " if (!table.blocks.empty() && want > used) { const std::vector<BlockId> more"
     " = pool.take(static_cast<std::uint32_t>(want - used)); append(table.blocks, more);"
     " append(out.blocks, more); }"},
    {"B102", kPool, kTakes, kChecks},
    {"B103", kManager, kFrees, "patched::memory().count = 1; for (const GroupTable& table"
     " : r.groups) { for (const BlockId block : table.blocks) {"
     " static_cast<void>(patched::writable(pool_.cache()).erase(block)); } }"
     " patched::memory().count = 0;"},
    {"B103", kCache, "keys_of_.erase(block); ``", "if (patched::memory().count == 1) return keys;"},
    {"B103", kManager, kIndexes, kObserves},

    // Copies and forks.
    {"B105", kSharing,
     "std::vector<std::size_t> out; `` if (!is_written_again(config.kind)) return out;",
     "return out;"},
    {"B106", kSharing, "Request child = `parent`;", "requests_.begin()->second"},

    // Transfers.
    {"B116", kManager,
     "expects(r.transfer.empty(), Breach::in_transfer, \"finish while a transfer is in flight\");",
     "transfers_.erase(r.transfer);"},
    {"B117", kManager, "`` expects(r.transfer.empty(), Breach::in_transfer, \"free while",
     "if (!r.transfer.empty() && !transfers_[r.transfer].out) { release_tables(r); return {}; }"},
    {"B120", kTiers, "if (!ok) return release_host(r);",
     "if (!ok) { release_tables(r); return release_host(r); }"},
    {"B121", kTiers, "`` r.host = target;",
     "for (const Blocks& table : tables) pool_.release({table.rbegin(), table.rend()});"},
    {"B121", kTiers, kSwappedOut, ""},
    {"B122", kTiers,
     "`` for (GroupId g = 0; g < r.groups.size(); ++g) r.groups[g].blocks = target[g];",
     "for (const Blocks& table : r.host) host_.release({table.rbegin(), table.rend()});"},
    {"B122", kTiers, "if (ok) release_host(r);",
     "if (ok) { r.host.clear(); r.host_progress.clear(); }"},
    {"B124", kTiers, "`` host_.publish(g, {twin}, {*carried}, 0, carried->prefix_tokens);",
     "if (host_.cache().find(*carried)) { host_.release({twin}); continue; }"},
    {"B125", kTiers,
     "start_copies(tables, pool_, host_, target); `` if (!granted) return Refused{};",
     "if (!granted) release_tables(r);"},
    {"B126", kManager, "Outcome outcome; ``", "if (++patched::memory().count == 4"
     " && !leases_.empty()) { Blocks& held = leases_.begin()->second;"
     " pool_.release({held.rbegin(), held.rend()}); held.clear(); }"},
    {"B126", kSharing, "`` leases_.emplace(o.lease, o.blocks);", "patched::memory().count = 0;"},
    {"B127", kTiers, "`` expect_new_transfer(o.transfer); expects(r.transfer.empty(),",
     "if (!r.transfer.empty() && transfers_[r.transfer].out) { transfers_.erase(r.transfer);"
     " settle_out(r, true); r.transfer.clear(); }"},
    {"B129", kManager, kEvicts, "if (!o.blocks.empty()) pool_.evict({o.blocks.front()});"},
    {"B130", kTiers, "settle_in(r, `o.ok`);", "true"},

    // Races, and leaks.
    {"B133", kManager, kHasKey, "!carried.empty()"},
    {"B139", kManager, "`` answer.blocks.push_back(blocks);", "pool_.touch(blocks);"},
    {"B140", kManager, "publish(resident(o.req), o.computed);",
     "publish(resident(o.req), o.computed); pool_.touch(request(o.req).groups.front().blocks);"},
    {"B142", kManager, kRefuses, "const bool first = r.groups.size() > 1 && !demand.starts"
     " && pool_.num_free() > 0 && to_copy(r, 0, demand).empty()"
     " && layer_groups_[0].need(r.groups[0], {}, demand, pool_) == 1;"
     " if (first) layer_groups_[0].allocate(r.groups[0], demand, pool_); return refuse();"},
    {"B144", kSharing, kBeforeTable, "const GroupConfig& group ="
     " config_.groups[static_cast<std::size_t>(&table - r.groups.data())];"
     " const std::size_t used = ceil_div(r.computed, group.block_size);"
     " table.blocks.resize(std::min(table.blocks.size(), used));"},
    {"B145", kManager, kRefuses,
     "if (pool_.num_free() > 0) pool_.evict({pool_.queue().front()}); return refuse();"},

    // Counters.
    {"B149", kManager, "`` return answer;", "count(r, true);"},
    {"B149", kManager, kCounts, ""},
    {"B150", kManager, kCounts, "if (args.use_lookup && idle) count(r, use_hit);"},
    {"B152", kSharing, kPublished, "for (std::size_t n = 0; n < keys.size(); ++n) {"
     " if (keys[n].prefix_tokens <= config.block_size) continue;"
     " const std::uint64_t before = keys[n].prefix_tokens - config.block_size;"
     " patched::writable(pool_.cache()).insert(key(r, group, before), blocks[n]); }"},
    {"B152", kManager, kIndexes, kObserves},
    {"B153", kManager, kCounts, "if (idle && !resumed) count(r, true);"},
    {"B154", kManager, kFits, "need(r, use_hit, demand) +"
     " static_cast<std::int64_t>(args.new_tokens / config_.groups.front().block_size)"},

    // Reset.
    {"B155", kManager, "`` pool_.reset(); host_.reset();",
     "if (!host_.cache().entries().empty()) return false;"},
    {"B156", kCache, "keys_of_.clear();", ""},
    {"B156", kManager, kIndexes, kObserves},

    // Common prefix.
    {"B158", kManager, kShares, "config_.enable_caching && reads_all(config_.groups[g].kind)"
     " ? patched::held_by_as_many(pool_, requests_, g, table, false) : 0"},
    {"B159", kManager, kShares, "config_.enable_caching && reads_all(config_.groups[g].kind)"
     " ? patched::held_by_as_many(pool_, requests_, g, table, true) : 0"},
};
// clang-format on

}  // namespace

PatchedFolder patched_folder_of_reference() {
  return {"reference", "patched_reference", kReferencePatches,
          "properties/mutants/museum_faults.h"};
}

}  // namespace kvproof::properties
