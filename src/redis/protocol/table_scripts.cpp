// SPDX-License-Identifier: MIT
// Lua 5.1 as Redis 6.2, 7 and Valkey run it: numbers are doubles, which hold 53 bits; so halves of digests are taken
// apart by division.

#include "redis/protocol/table_scripts.hpp"

#include <cstddef>

namespace seenby::redis::scripts {

const Script& add_to_table() {
  // A byte that goes through Lua costs a nanosecond or two (memory that it must collect again), so a table of 3,000
  // items is neither moved nor read: an item asks for its bucket, and waits among the recent ones until the caller
  // sorts them in.
  constexpr std::size_t longest_reply = std::size_t{512} << 20;
  static const Script script(R"lua(
local call, floor, byte, sub, ints = redis.call, math.floor, string.byte, string.sub, struct.unpack
local key, items = KEYS[1], ARGV[2]
local value = call('GETRANGE', key, 0, 1023)
local created = value == ''
if created then
  value = ARGV[6]
  if #items / 9 > tonumber(ARGV[8]) then return false end
end
local magic, layout, b, hash, t, zero = byte(value, 1, 6)
if #value < 48 or magic ~= 178 or (layout ~= 4 and layout ~= 68) or zero ~= 0 or b > 28 or t > 4 or
  sub(value, 4, 4) .. sub(value, 7, 8) .. sub(value, 17, 20) ~= ARGV[1] then return call('GET', key) end
local seconds, c, sequence, n, newest, _, sections = ints('<I4I4I4I4I4I4I4', value, 17)
local sliced, index_bytes, ends = seconds > 0, 0, 0
if b > 0 then
  local width = b < 4 and 2 ^ b or 16
  local groups = 2 ^ b / width
  ends = 48 + groups * (width + 1)
  index_bytes = ends - 48 + (b > 4 and 4 * groups or 0)
  index_bytes = index_bytes + index_bytes % 2
end
local lanes_at = 48 + index_bytes
local tails_at = lanes_at + 2 * c
local slices_at = tails_at + t * c
local recent_at = slices_at + (sliced and c or 0)
local total = recent_at + sections
if not created and (total < 1024 and #value or call('STRLEN', key)) ~= total then
  return redis.error_reply('DAMAGED expected ' .. total .. ' bytes')
end
local function read(at, size)
  if at + size <= #value then return sub(value, at + 1, at + size) end
  return call('GETRANGE', key, at, at + size - 1)
end
local ahead = newest - ARGV[3]
local recent = read(recent_at, math.min(sections, 4096))
local kind, used, size = 0, 0, 0
if #recent >= 8 then kind, used, size = ints('<I2I2I4', recent) end
local prefix = math.min(8, 5 + t)
local entry = prefix + (sliced and 1 or 0)
local count = #items / 9
if ahead < 0 or kind ~= 5 or count > size / entry - used or (count > 3 and 2000 * count > total) then
  return call('GET', key)
end
local spare, after = 2 ^ (32 - b), 2 ^ b
local scale, cut = 2 ^ (8 * t), 2 ^ (32 - 8 * t)
local function lane_of(item)
  local high, low = ints('>I4I4', item)
  local bucket, first, last = floor(high / spare), 0, n
  if b > 0 then
    first, last = byte(read(48 + bucket + floor(bucket / 16), 2), 1, 2)
    if b > 4 then
      local base = ints('<I4', read(ends + 4 * floor(bucket / 16), 4))
      first, last = base + first, base + last
    end
  end
  if last <= first then return nil end
  local top, rest = high % spare * after + floor(low / spare), low % spare * after
  local mine = floor(top / 65536)
  local run = {ints('<' .. string.rep('I2', last - first), read(lanes_at + 2 * first, 2 * (last - first)))}
  if t > 0 then
    mine = mine * scale + floor((top % 65536 * 65536 + floor(rest / 65536)) / cut)
    local tails = {ints('>' .. string.rep('I' .. t, last - first), read(tails_at + t * first, t * (last - first)))}
    for i = 1, last - first do run[i] = run[i] * scale + tails[i] end
  end
  local odd, found, found_bit = mine - mine % 2 + 1, nil, nil
  for i = 1, last - first do
    local lane = run[i]
    if lane == odd then return first + i - 1 end
    if lane % 2 == 0 and lane > 0 then
      local bit = 2
      while lane % (bit + bit) == 0 do bit = bit + bit end
      if floor(lane / (bit + bit)) == floor(mine / (bit + bit)) and (not found or bit < found_bit) then
        found, found_bit = first + i - 1, bit
      end
    end
  end
  return found
end
if created then
  local set = {'SET', key, value, 'NX'}
  if ARGV[7] ~= '' then set[5], set[6] = 'PX', ARGV[7] end
  if not call(unpack(set)) then return '' end
end
local held = sub(recent, 9, 8 + used * entry)
local fresh, added = {}, 0
for at = 1, #items, 9 do
  local age = byte(items, at + 8)
  if age > 0 then age = age + ahead end
  if age <= ARGV[4] + 0 then
    local mine, there = sub(items, at, at + prefix - 1), nil
    local from = 1
    while from do
      from = string.find(held, mine, from, true)
      if from and (from - 1) % entry == 0 then
        local held_age = sliced and (newest - byte(held, from + prefix)) % 256 or 0
        there = math.min(there or held_age, held_age)
      end
      from = from and from + 1
    end
    if not there then
      local lane = lane_of(sub(items, at, at + 7))
      if lane then there = sliced and (newest - byte(read(slices_at + lane, 1))) % 256 or 0 end
      if not lane then added = added + 1 end
    end
    if not there or age < there then
      fresh[#fresh + 1] = sliced and mine .. string.char((newest - age) % 256) or mine
    end
  end
end
call('SETRANGE', key, 24, struct.pack('<I4', (sequence + 1) % 4294967296))
if #fresh > 0 then
  call('SETRANGE', key, recent_at + 2, struct.pack('<I2I4', used + #fresh, size) .. held .. table.concat(fresh))
end
if ARGV[5] ~= '' and layout == 4 and not created then call('PEXPIRE', key, ARGV[5]) end
return {added, total, sub(value, 1, 48)}
)lua",
                             longest_reply);
  return script;
}

const Script& swap_table() {
  static const Script script(R"lua(
local key, value = KEYS[1], ARGV[3]
if redis.call('STRLEN', key) ~= tonumber(ARGV[2]) then return 0 end
if redis.call('GETRANGE', key, 0, #ARGV[1] - 1) ~= ARGV[1] then return 0 end
for i = 2, #KEYS do
  if redis.call('GETRANGE', KEYS[i], 0, #ARGV[6 + i] - 1) ~= ARGV[6 + i] then return 0 end
end
if ARGV[5] ~= '' then
  local old_at, new_at = tonumber(ARGV[5]), tonumber(ARGV[6])
  local sequence = struct.unpack('<I4', redis.call('GETRANGE', key, 24, 27))
  local known = struct.unpack('<I2', ARGV[7])
  local old = redis.call('GETRANGE', key, old_at, old_at + 7)
  local used = struct.unpack('<I2', old, 3)
  local late = ''
  if used > known then
    local entry, new_entry, room = struct.unpack('<I2I2I2', ARGV[7], 3)
    if entry ~= new_entry or used - known > room then return 0 end
    late = redis.call('GETRANGE', key, old_at + 8 + known * entry, old_at + 7 + used * entry)
  end
  value = string.sub(value, 1, 24) .. struct.pack('<I4', (sequence + 1) % 4294967296) ..
    string.sub(value, 29, new_at + 2) .. struct.pack('<I2', used - known) .. string.sub(value, new_at + 5, new_at + 8) ..
    late .. string.sub(value, new_at + 9 + #late)
end
if ARGV[4] ~= '' then
  redis.call('SET', key, value, 'PX', ARGV[4])
else
  redis.call('SET', key, value, 'KEEPTTL')
end
for i = 2, #KEYS do redis.call('UNLINK', KEYS[i]) end
return 1
)lua");
  return script;
}

}  // namespace seenby::redis::scripts
