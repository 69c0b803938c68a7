-- SPDX-License-Identifier: MIT
-- Runs RedisBloomStore's add script against a `redis` table of the test's own, which knows BF.RESERVE, BF.MADD, EXISTS
-- and PEXPIRE: what a server without the module cannot show.
--   lua5.1 redis_bloom_script.lua SCRIPT_FILE
local source = assert(io.open(assert(arg[1], 'the script\'s file'), 'rb')):read('*a')

-- A server. filters[key] = {items = {}, capacity, expansion}; ttl[key] in ms; chunks: how many items each BF.MADD had.
local function new_server()
  local server = {filters = {}, ttl = {}, chunks = {}, reserved = {}}
  local commands = {}
  commands['EXISTS'] = function(key) return server.filters[key] and 1 or 0 end
  commands['PEXPIRE'] = function(key, ms)
    server.ttl[key] = tonumber(ms)
    return 1
  end
  commands['BF.RESERVE'] = function(key, rate, capacity, word, expansion)
    if server.refuses then return {err = server.refuses} end
    if server.filters[key] then return {err = 'ERR item exists'} end
    server.reserved = {rate, capacity, word, expansion}
    server.filters[key] = {items = {}, count = 0, full_at = word == 'NONSCALING' and tonumber(capacity) or math.huge}
    return {ok = 'OK'}
  end
  commands['BF.MADD'] = function(key, ...)
    if server.madd_fails then return {err = server.madd_fails} end
    -- The module's own default, which the script must never get.
    if not server.filters[key] then server.filters[key] = {items = {}, count = 0, full_at = math.huge, default = true} end
    local filter, answers = server.filters[key], {}
    server.chunks[#server.chunks + 1] = select('#', ...)
    for _, item in ipairs({...}) do
      if filter.count >= filter.full_at and not filter.items[item] then
        answers[#answers + 1] = {err = 'ERR non scaling filter is full'}
        return answers
      end
      answers[#answers + 1] = filter.items[item] and 0 or 1
      if not filter.items[item] then filter.count = filter.count + 1 end
      filter.items[item] = true
    end
    return answers
  end
  local function call(name, ...) return assert(commands[name], 'unknown command ' .. name)(...) end
  server.redis = {
    pcall = call,
    call = function(...)
      local answer = call(...)
      if type(answer) == 'table' and answer.err then error(answer.err) end
      return answer
    end,
  }
  return server
end

-- One call of the script: options, then the items.
local function add(server, options, items)
  local arguments = {
    options.create and '1' or '0', '0.01', options.capacity or '1000', options.expansion or '2', options.ttl or '',
    options.refresh and '1' or '0',
  }
  for _, item in ipairs(items) do arguments[#arguments + 1] = item end
  local script = assert(loadstring(source))
  setfenv(script, setmetatable({redis = server.redis, KEYS = {options.key or 'k'}, ARGV = arguments}, {__index = _G}))
  return script()
end

local function sequence(count)
  local items = {}
  for i = 1, count do items[i] = 'item' .. i end
  return items
end

local checks = {}

checks['a missing key is said, and nothing is made of it'] = function()
  local server = new_server()
  local answer = add(server, {}, {'a', 'b'})
  assert(#answer == 1 and answer[1] == 'missing')
  assert(next(server.filters) == nil and #server.chunks == 0)
end

checks['a filter is made as asked, and lives as long'] = function()
  local server = new_server()
  local answer = add(server, {create = true, ttl = '5000'}, {'a', 'b', 'a'})
  assert(answer[1].ok == 'OK' and answer[2] == 1 and answer[3] == 1 and answer[4] == 0 and #answer == 4)
  local r = server.reserved
  assert(r[1] == '0.01' and r[2] == '1000' and r[3] == 'EXPANSION' and r[4] == '2')
  assert(server.ttl.k == 5000 and not server.filters.k.default)
  add(server, {create = true, key = 'other'}, {'a'})
  assert(server.ttl.other == nil)
end

checks['an expansion of 0 is NONSCALING'] = function()
  local server = new_server()
  add(server, {create = true, expansion = '0'}, {'a'})
  assert(server.reserved[3] == 'NONSCALING' and server.reserved[4] == nil)
end

checks['"item exists" is no error: another made it, and the items go in'] = function()
  local server = new_server()
  add(server, {create = true, ttl = '5000'}, {'a'})
  server.ttl.k = 1
  local answer = add(server, {create = true, ttl = '5000'}, {'a', 'b'})
  assert(#answer == 3 and answer[2] == 0 and answer[3] == 1)
  assert(server.ttl.k == 1, 'a fixed time to live starts with the filter')
  add(server, {create = true, ttl = '5000', refresh = true}, {'c'})
  assert(server.ttl.k == 5000, 'a refreshed one with every write')
end

checks['another error of BF.RESERVE ends it'] = function()
  local server = new_server()
  server.refuses = 'ERR (0 < error rate range < 1)'
  local answer = add(server, {create = true, ttl = '5000'}, {'a'})
  assert(#answer == 1 and answer[1].err == server.refuses and #server.chunks == 0 and server.ttl.k == nil)
end

checks['an add refreshes the time to live where that was chosen'] = function()
  local server = new_server()
  add(server, {create = true, ttl = '5000'}, {'a'})
  server.ttl.k = 1
  add(server, {ttl = '5000'}, {'b'})
  assert(server.ttl.k == 1)
  add(server, {ttl = '5000', refresh = true}, {'c'})
  assert(server.ttl.k == 5000)
end

checks['every item of a large batch goes in, a thousand at a time, answered in order'] = function()
  local server = new_server()
  add(server, {create = true}, {'item1', 'item1500', 'item2500'})
  local answer = add(server, {}, sequence(2500))
  assert(#answer == 2501 and server.filters.k.count == 2500)
  for i = 1, 2500 do
    local known = i == 1 or i == 1500 or i == 2500
    assert(answer[i + 1] == (known and 0 or 1), 'item ' .. i)
  end
  assert(#server.chunks == 4 and server.chunks[2] == 1000 and server.chunks[3] == 1000 and server.chunks[4] == 500)
  for _, count in ipairs({1, 999, 1000, 1001}) do
    local exact = new_server()
    add(exact, {create = true}, sequence(count))
    assert(exact.filters.k.count == count)
  end
end

checks['a full filter ends it, and what went in is told'] = function()
  local server = new_server()
  local answer = add(server, {create = true, expansion = '0', capacity = '1200'}, sequence(2500))
  assert(#answer == 1202 and answer[1201] == 1 and answer[1202].err)
  assert(#server.chunks == 2, 'nothing is tried behind it')
end

checks['an error of BF.MADD is passed on'] = function()
  local server = new_server()
  add(server, {create = true}, {'a'})
  server.madd_fails = 'WRONGTYPE Operation against a key holding the wrong kind of value'
  local answer = add(server, {}, sequence(1500))
  assert(#answer == 2 and answer[2].err == server.madd_fails)
end

local failed = 0
for name, check in pairs(checks) do
  local good, why = pcall(check)
  if not good then
    failed = failed + 1
    print('FAILED: ' .. name .. ': ' .. tostring(why))
  end
end
os.exit(failed == 0 and 0 or 1)
