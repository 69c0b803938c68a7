// SPDX-License-Identifier: MIT
#include "redis/protocol/history_scripts.hpp"

#include <string>

namespace seenby::redis::scripts {
namespace {

constexpr const char* trim_items = R"lua(
local function trim(items, events)
  local gone = {}
  if ARGV[1] ~= '' then gone = redis.call('ZRANGEBYSCORE', items, '-inf', '(' .. ARGV[1]) end
  for _, item in ipairs(gone) do
    redis.call('ZREM', items, item)
    redis.call('HDEL', events, item)
  end
  local over = redis.call('ZCARD', items) - tonumber(ARGV[2])
  if ARGV[2] ~= '0' and over > 0 then
    for _, item in ipairs(redis.call('ZRANGE', items, 0, over - 1)) do
      redis.call('ZREM', items, item)
      redis.call('HDEL', events, item)
    end
  end
  if ARGV[3] ~= '0' then
    redis.call('PEXPIRE', items, ARGV[3])
    redis.call('PEXPIRE', events, ARGV[3])
  end
end
-- Adds events of an item, 8 bytes each, that are not there; how many.
local function add(items, events, item, at, numbers)
  local held = redis.call('HGET', events, item) or ''
  local fresh = 0
  for i = 1, #numbers, 8 do
    local number = string.sub(numbers, i, i + 7)
    local known = false
    for j = 1, #held, 8 do known = known or string.sub(held, j, j + 7) == number end
    if not known then
      held = held .. number
      fresh = fresh + 1
    end
  end
  if fresh > 0 then
    redis.call('HSET', events, item, held)
    redis.call('ZADD', items, 'GT', at, item)
  end
  return fresh
end
)lua";

constexpr const char* add_hides = R"lua(
local function next_place(hides)
  local last = 0
  for _, value in ipairs(redis.call('HVALS', hides)) do last = math.max(last, tonumber(string.match(value, '^%d+'))) end
  return last + 1
end
-- Hides an item that is not hidden at the next place; which place comes then.
local function hide(hides, item, at, place)
  return place + redis.call('HSETNX', hides, item, string.format('%.0f %s', place, at))
end
)lua";

}  // namespace

const Script& hide_items() {
  static const Script script(std::string(add_hides) + R"lua(
local first = next_place(KEYS[1])
local place = first
for i = 1, #ARGV, 2 do place = hide(KEYS[1], ARGV[i], ARGV[i + 1], place) end
return place - first
)lua");
  return script;
}

const Script& append_events() {
  static const Script script(std::string(trim_items) + R"lua(
local fresh = 0
for i = 4, #ARGV, 3 do
  if ARGV[1] == '' or tonumber(ARGV[i + 1]) >= tonumber(ARGV[1]) then
    fresh = fresh + add(KEYS[1], KEYS[2], ARGV[i], ARGV[i + 1], ARGV[i + 2])
  end
end
trim(KEYS[1], KEYS[2])
return fresh
)lua");
  return script;
}

const Script& merge_histories() {
  static const Script script(std::string(trim_items) + add_hides + R"lua(
local list = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #list, 2 do
  add(KEYS[4], KEYS[5], list[i], list[i + 1], redis.call('HGET', KEYS[2], list[i]) or '')
  redis.call('ZADD', KEYS[4], 'GT', list[i + 1], list[i])
end
local hidden, order = redis.call('HGETALL', KEYS[3]), {}
for i = 1, #hidden, 2 do
  local place, at = string.match(hidden[i + 1], '^(%d+) (.*)$')
  order[#order + 1] = {tonumber(place), hidden[i], at}
end
table.sort(order, function(a, b) return a[1] < b[1] end)
local place = next_place(KEYS[6])
for _, each in ipairs(order) do place = hide(KEYS[6], each[2], each[3], place) end
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
trim(KEYS[4], KEYS[5])
return #list + #order > 0 and 1 or 0
)lua");
  return script;
}

const Script& erase_items() {
  static const Script script(R"lua(
local erased = 0
for _, item in ipairs(ARGV) do
  erased = erased + redis.call('ZREM', KEYS[1], item)
  redis.call('HDEL', KEYS[2], item)
end
return erased
)lua");
  return script;
}

}  // namespace seenby::redis::scripts
