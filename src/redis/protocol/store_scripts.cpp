// SPDX-License-Identifier: MIT
// Lua 5.1 as Redis 6.2, 7 and Valkey run it: numbers are doubles, bit operations are signed 32-bit.

#include "redis/protocol/store_scripts.hpp"

namespace seenby::redis::scripts {

const Script& add() {
  // GETRANGE and SETRANGE by block, not BITFIELD: unpack() of many positions fails at 8,000 arguments.
  static const Script script(R"lua(
local key = KEYS[1]
local head = redis.call('GETRANGE', key, 0, 31)
if #head == 0 then return false end
if #head < 32 or string.sub(head, 1, 16) ~= ARGV[1] then return head end
local items, length = ARGV[2], redis.call('STRLEN', key)
local filter, ends = head, 0
while filter do
  ends = ends + 32 + 32 * struct.unpack('<I4', filter, 5)
  filter = ends < length and redis.call('GETRANGE', key, ends, ends + 31)
  if filter and (#filter < 32 or string.byte(filter) ~= string.byte(head)) then filter = false end
end
if ends ~= length then return redis.error_reply('DAMAGED expected ' .. ends .. ' bytes, got ' .. length) end
local unpack_words, pack_words, bor = struct.unpack, struct.pack, bit.bor
local words = '<i4i4i4i4i4i4i4i4'
local added = 0
for at = 1, #items, 36 do
  local from = 32 + 32 * unpack_words('<I4', items, at)
  local old = redis.call('GETRANGE', key, from, from + 31)
  local a, b, c, d, e, f, g, h = unpack_words(words, old)
  local i, j, k, l, m, n, o, p = unpack_words(words, items, at + 4)
  local new = pack_words(words, bor(a, i), bor(b, j), bor(c, k), bor(d, l), bor(e, m), bor(f, n), bor(g, o), bor(h, p))
  if new ~= old then
    redis.call('SETRANGE', key, from, new)
    added = added + 1
  end
end
local sequence, count = unpack_words('<I4I4', head, 17)
count = math.min(count + added, 4294967295)
redis.call('SETRANGE', key, 16, pack_words('<I4I4', (sequence + 1) % 4294967296, count))
if ARGV[3] ~= '' and bit.band(string.byte(head, 2), 64) == 0 then redis.call('PEXPIRE', key, ARGV[3]) end
return {added, count, length}
)lua");
  return script;
}

namespace {

/// How many items the filters from byte `at` (counted from 1) on hold, by their headers.
constexpr const char* count_items = R"lua(
local function items_from(value, at)
  local items = 0
  while at + 31 <= #value do
    local blocks = struct.unpack('<I4', value, at + 4)
    items = items + struct.unpack('<I4', value, at + 20)
    at = at + 32 + 32 * blocks
  end
  return items
end
)lua";

}  // namespace

const Script& replace() {
  static const Script script(std::string(count_items) + R"lua(
local old = redis.call('GET', KEYS[1])
if not old then return false end
if #old < 32 or string.sub(old, 1, 16) ~= ARGV[1] then return string.sub(old, 1, 32) end
local value, kept = ARGV[3], 0
local layout = string.byte(old, 2)
local building = bit.band(layout, 64) ~= 0
if ARGV[2] == '-1' or struct.unpack('<I4', old, 17) ~= tonumber(ARGV[2]) then
  kept = 1
elseif items_from(old, 1) > tonumber(ARGV[5]) then
  kept = 2
end
if kept > 0 then
  if building then old = string.sub(old, 1, 1) .. string.char(layout - 64) .. string.sub(old, 3) end
  value = value .. old
end
if ARGV[4] ~= '' then
  redis.call('SET', KEYS[1], value, 'PX', ARGV[4])
elseif building then
  redis.call('SET', KEYS[1], value)
else
  redis.call('SET', KEYS[1], value, 'KEEPTTL')
end
return kept
)lua");
  return script;
}

const Script& swap() {
  static const Script script(R"lua(
local head = redis.call('GETRANGE', KEYS[1], 0, 31)
if #head == 0 then return false end
if #head < 32 or string.sub(head, 1, 16) ~= ARGV[1] then return head end
if struct.unpack('<I4', head, 17) ~= tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[1], ARGV[3], 'KEEPTTL')
if ARGV[4] ~= '' then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
return 1
)lua");
  return script;
}

const Script& merge() {
  // BITOP works at the speed of memory; the same in Lua would hold the server for milliseconds.
  static const Script script(std::string(count_items) + R"lua(
local old = redis.call('GET', KEYS[1])
if not old then return false end
local head = string.sub(old, 1, 32)
if #head < 32 or string.sub(head, 1, 16) ~= ARGV[1] then return head end
local sequence, count = struct.unpack('<I4I4', head, 17)
local bytes = #ARGV[3]
if items_from(old, 33 + bytes) > tonumber(ARGV[5]) then return 2 end
redis.call('SET', KEYS[2], string.rep('\0', 32) .. ARGV[3], 'PX', 60000)
redis.call('BITOP', 'OR', KEYS[2], KEYS[2], KEYS[1])
local bits = redis.call('GETRANGE', KEYS[2], 32, 31 + bytes)
redis.call('DEL', KEYS[2])
local new = ARGV[2]
redis.call('SET', KEYS[1], string.sub(new, 1, 16) ..
  struct.pack('<I4I4', (sequence + 1) % 4294967296, math.max(count, tonumber(ARGV[4]))) ..
  string.sub(new, 25, 32) .. bits, 'KEEPTTL')
return 1
)lua");
  return script;
}

const Script& swap_whole() {
  static const Script script(R"lua(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1
)lua");
  return script;
}

const Script& forget() {
  // Slices that were recorded under another window are known by the list alone.
  static const Script script(R"lua(
local key, list = KEYS[1], ''
if redis.call('TYPE', key).ok == 'string' then list = redis.call('GETRANGE', key, 0, 16383) end
local gone = {key, key .. ':hides'}
if string.byte(list) == 209 then
  for at = 17, #list - 7, 8 do
    gone[#gone + 1] = key .. ':' .. string.format('%.0f', struct.unpack('<i8', list, at))
  end
end
for i = 1, #ARGV do gone[#gone + 1] = key .. ':' .. ARGV[i] end
return redis.call('UNLINK', unpack(gone))
)lua");
  return script;
}

const Script& swap_value() {
  static const Script script(R"lua(
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
  redis.call('UNLINK', KEYS[1])
elseif ARGV[3] == '' then
  redis.call('SET', KEYS[1], ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 1
)lua");
  return script;
}

}  // namespace seenby::redis::scripts
