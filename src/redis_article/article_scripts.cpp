// SPDX-License-Identifier: MIT
// Lua 5.1 as Redis 6.2, 7 and Valkey run it. A mark after the last bit is 8 random bytes and, as a double, the server's
// time in milliseconds at which it runs out; a placeholder is a zero byte and 8 random ones.

#include "redis_article/article_scripts.hpp"

#include <cstddef>

namespace seenby::redis::article_scripts {
namespace {

constexpr const char* shared = R"lua(
local key = KEYS[1]
local length = redis.call('STRLEN', key)
local exponent, bytes = 0, 0
if length > 0 then
  exponent = math.floor(string.byte(redis.call('GETRANGE', key, 0, 0)) / 8)
  bytes = 2 ^ exponent / 8
end
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + time[2] / 1000
end
local function is_held()
  if length < bytes + 16 then return false end
  return now() < struct.unpack('<d', redis.call('GETRANGE', key, bytes + 8, bytes + 15))
end
)lua";

}  // namespace

const Script& add() {
  // A mark that ran out is wiped, so that its owner's late swap fails even if this add changes no bit.
  static const Script script(std::string(shared) + R"lua(
if length == 0 then return {-1} end
if exponent == 0 and length == 9 then return {-2} end
if exponent ~= tonumber(ARGV[1]) then return {-3, exponent, length} end
if is_held() then return {-2} end
if length >= bytes + 16 then redis.call('SETRANGE', key, bytes, string.rep('\0', 16)) end
local step, items = 4 * tonumber(ARGV[2]), 0
for at = 1, #ARGV[3], step do
  local changed = false
  for word = at, at + step - 1, 4 do
    local position = struct.unpack('<I4', ARGV[3], word)
    if position >= 5 and redis.call('SETBIT', key, position, 1) == 0 then changed = true end
  end
  if changed then items = items + 1 end
end
if ARGV[4] ~= '' then redis.call('PEXPIRE', key, ARGV[4]) end
return {exponent, items, redis.call('BITCOUNT', key, 0, bytes - 1)}
)lua");
  return script;
}

const Script& hold() {
  // No mark goes behind a damaged header: it would lie megabytes away, and no writer adds to such a key.
  static const Script script(std::string(shared) + R"lua(
if length == 0 then return false end
if exponent == 0 and length == 9 then return 0 end
if exponent == 0 or (exponent ~= tonumber(ARGV[3]) and bytes > 8 * length) then return redis.call('GET', key) end
if is_held() then return 0 end
redis.call('SETRANGE', key, bytes, ARGV[1] .. struct.pack('<d', now() + tonumber(ARGV[2])))
return redis.call('GET', key)
)lua",
                             std::size_t{512} << 20);
  return script;
}

const Script& swap() {
  static const Script script(R"lua(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
elseif ARGV[3] == 'keep' then
  redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
elseif ARGV[3] == '' then
  redis.call('SET', KEYS[1], ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 1
)lua");
  return script;
}

}  // namespace seenby::redis::article_scripts
