// SPDX-License-Identifier: MIT
// Lua 5.1 as Redis 6.2, 7 and Valkey run it: numbers are doubles, bit operations are signed 32-bit.

#include "redis/protocol/shared_set_scripts.hpp"

#include <string>

namespace seenby::redis::scripts {
namespace {

/// Sets the bits of positions `items` in a version's strings; calls told(i, changed) for item i, counted from 0.
constexpr const char* set_bits = R"lua(
local words = '<i4i4i4i4i4i4i4i4'
local function set_bits(version, items, told)
  local prefix, bor, index = KEYS[1] .. ':' .. version .. ':', bit.bor, 0
  for at = 1, #items, 40 do
    local partition, block = struct.unpack('<I4I4', items, at)
    local key, from = prefix .. partition, block * 32
    local old = redis.call('GETRANGE', key, from, from + 31)
    if #old < 32 then return redis.error_reply('LOST a part of version ' .. version) end
    local a, b, c, d, e, f, g, h = struct.unpack(words, old)
    local i, j, k, l, m, n, o, p = struct.unpack(words, items, at + 8)
    local new = struct.pack(words, bor(a, i), bor(b, j), bor(c, k), bor(d, l), bor(e, m), bor(f, n), bor(g, o), bor(h, p))
    if new ~= old then redis.call('SETRANGE', key, from, new) end
    if told then told(index, new ~= old) end
    index = index + 1
  end
end
local function count_new(version, fresh)
  if fresh > 0 then redis.call('HINCRBY', KEYS[1], 'items ' .. version, fresh) end
end
local function set_and_count(version, items)
  local fresh = 0
  local failed = set_bits(version, items, function(_, changed) if changed then fresh = fresh + 1 end end)
  count_new(version, fresh)
  return failed
end
local function partitions_of(version)
  local shape = redis.call('HGET', KEYS[1], 'shape ' .. version)
  return shape and tonumber(string.match(shape, '^%d+')) or 0
end
local function each_string(version, what)
  for partition = 0, partitions_of(version) - 1 do what(KEYS[1] .. ':' .. version .. ':' .. partition) end
end
local function drop_strings(version, partitions)
  for partition = 0, partitions - 1 do redis.call('DEL', KEYS[1] .. ':' .. version .. ':' .. partition) end
end
local function drop(version)
  drop_strings(version, partitions_of(version))
  redis.call('HDEL', KEYS[1], 'shape ' .. version, 'items ' .. version)
end
local building, recent = KEYS[1] .. ':building', KEYS[1] .. ':recent'
local function ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function serve(version)
  each_string(version, function(key) redis.call('PERSIST', key) end)
  redis.call('HSET', KEYS[1], 'current', version, 'next', '0', 'since', ms(), 'changed', ms())
  redis.call('HDEL', KEYS[1], 'trust')
end
local function give_up(next)
  redis.call('HSET', KEYS[1], 'next', '0')
  redis.call('DEL', building)
  drop(next)
end
)lua";

Script with_helpers(const char* body, std::size_t longest_reply = 4'096) {
  return Script(std::string(set_bits).append(body), longest_reply);
}

}  // namespace

const Script& publish_set() {
  static const Script script = with_helpers(R"lua(
local version = ARGV[1]
if redis.call('HEXISTS', KEYS[1], 'current') == 1 or redis.call('EXISTS', building) == 1 then
  drop_strings(version, tonumber(ARGV[3]))
  return 0
end
redis.call('HSET', KEYS[1], 'shape ' .. version, ARGV[2])
serve(version)
return 1
)lua");
  return script;
}

const Script& add_to_set() {
  static const Script script = with_helpers(R"lua(
local now = redis.call('HMGET', KEYS[1], 'current', 'next')
if now[1] ~= ARGV[1] or (now[2] or '0') ~= ARGV[2] then return 0 end
local next = ARGV[2]
if next ~= '0' and redis.call('EXISTS', building) == 0 then
  -- Its builder died: what it made is given up, so that adds need not wait for the next one.
  give_up(next)
  next = '0'
end
local flags, fresh = {}, 0
local failed = set_bits(ARGV[1], ARGV[3], function(i, changed)
  flags[i + 1] = changed and '1' or '0'
  if changed then fresh = fresh + 1 end
end)
count_new(ARGV[1], fresh)
if failed then return failed end
-- A version in the making that lost a part is given up, as its builder learns: the one that serves is whole.
if next ~= '0' and set_and_count(next, ARGV[4]) then give_up(next) end
local lag = tonumber(ARGV[6])
if lag > 0 then
  local at_ms = ms()
  for at = 1, #ARGV[5], 8 do
    local digest = string.sub(ARGV[5], at, at + 7)
    redis.call('ZADD', recent, at_ms, digest)
    -- It is no longer absent, and no lookup that began before now may say so.
    redis.call('DEL', KEYS[1] .. ':absent:' .. digest)
    redis.call('HINCRBY', KEYS[1], 'adds ' .. string.byte(digest) % 32, 1)
  end
  redis.call('ZREMRANGEBYSCORE', recent, '-inf', at_ms - lag)
  redis.call('PEXPIRE', recent, lag * 2)
  redis.call('HSET', KEYS[1], 'changed', at_ms)
end
return {table.concat(flags), tonumber(redis.call('HGET', KEYS[1], 'items ' .. ARGV[1]) or '0')}
)lua",
                                            8'192);  // a letter an item
  return script;
}

const Script& begin_rebuild() {
  static const Script script = with_helpers(R"lua(
local next = redis.call('HGET', KEYS[1], 'next')
if next and next ~= '0' then
  if redis.call('EXISTS', building) == 1 then
    drop_strings(ARGV[1], tonumber(ARGV[4]))
    return 0
  end
  drop(next)
end
redis.call('HSET', KEYS[1], 'shape ' .. ARGV[1], ARGV[2], 'next', ARGV[1])
redis.call('SET', building, ARGV[1], 'PX', ARGV[3])
return redis.call('ZRANGE', recent, 0, -1)
)lua",
                                            std::size_t{512} << 20);  // all that was added within write_lag
  return script;
}

const Script& add_to_next() {
  static const Script script = with_helpers(R"lua(
if redis.call('HGET', KEYS[1], 'next') ~= ARGV[1] then return false end
local failed = set_and_count(ARGV[1], ARGV[2])
if failed then return failed end
each_string(ARGV[1], function(key) redis.call('PEXPIRE', key, ARGV[3]) end)
redis.call('SET', building, ARGV[1], 'PX', ARGV[3])
return 1
)lua");
  return script;
}

const Script& commit_rebuild() {
  static const Script script = with_helpers(R"lua(
local version = ARGV[1]
local now = redis.call('HMGET', KEYS[1], 'current', 'next')
if now[1] == version then return 1 end
if now[2] ~= version then return false end
local whole = true
each_string(version, function(key) whole = redis.call('EXISTS', key) == 1 and whole end)
if not whole then return redis.error_reply('LOST a part of version ' .. version) end
serve(version)
if now[1] then
  each_string(now[1], function(key) redis.call('PEXPIRE', key, ARGV[2]) end)
  redis.call('HDEL', KEYS[1], 'shape ' .. now[1], 'items ' .. now[1])
end
redis.call('DEL', building)
return 1
)lua");
  return script;
}

const Script& abandon_rebuild() {
  static const Script script = with_helpers(R"lua(
if redis.call('HGET', KEYS[1], 'next') ~= ARGV[1] then return 0 end
give_up(ARGV[1])
return 1
)lua");
  return script;
}

const Script& remember_absent() {
  static const Script script = with_helpers(R"lua(
local now = redis.call('HMGET', KEYS[1], 'current', ARGV[2])
if now[1] ~= ARGV[1] or (now[2] or '0') ~= ARGV[3] then return 0 end
if redis.call('ZSCORE', recent, ARGV[4]) then return 0 end
redis.call('SET', KEYS[1] .. ':absent:' .. ARGV[4], '', 'PX', ARGV[5])
return 1
)lua");
  return script;
}

const Script& mark_gate() {
  static const Script script = with_helpers(R"lua(
local now = redis.call('HMGET', KEYS[1], 'current', 'trust', 'position')
if not now[1] then return false end
if ARGV[1] == 'position' then
  if ARGV[2] > (now[3] or '') then redis.call('HSET', KEYS[1], 'position', ARGV[2]) end
  redis.call('HSET', KEYS[1], 'changed', ms())
elseif ARGV[1] == 'ready' then
  if now[2] ~= 'loading' then return 0 end
  redis.call('HDEL', KEYS[1], 'trust')
elseif now[2] ~= 'distrusted' then
  redis.call('HSET', KEYS[1], 'trust', ARGV[1])
end
return 1
)lua");
  return script;
}

const Script& gate_status() {
  static const Script script = with_helpers(R"lua(
local now = redis.call('HMGET', KEYS[1], 'current', 'next', 'trust', 'position', 'since', 'changed')
local version = now[1]
if not version then return false end
local state = 'ready'
if now[2] and now[2] ~= '0' and redis.call('EXISTS', building) == 1 then state = 'rebuilding' end
state = now[3] or state
each_string(version, function(key) if redis.call('EXISTS', key) == 0 then state = 'distrusted' end end)
local function since(moment) return string.format('%d', math.max(0, ms() - (moment or ms()))) end
return {state, version, now[4] or '0', since(now[5]), since(now[6]),
        redis.call('HGET', KEYS[1], 'items ' .. version) or '0', redis.call('HGET', KEYS[1], 'shape ' .. version) or ''}
)lua");
  return script;
}

const Script& drop_set() {
  static const Script script = with_helpers(R"lua(
local now = redis.call('HMGET', KEYS[1], 'current', 'next')
for _, version in ipairs({now[1] or '0', now[2] or '0'}) do
  if version ~= '0' then drop(version) end
end
redis.call('DEL', building, recent)
return redis.call('DEL', KEYS[1])
)lua");
  return script;
}

}  // namespace seenby::redis::scripts
