/*
 * Lua scripts of the Redis state, one per operation. ARGV[1] is the time in milliseconds, or empty for Redis' own. Ends
 * of windows are stored beside the counts and compared here; Redis' own expiry only cleans up.
 */
const now = `
local now = tonumber(ARGV[1])
if now == nil then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
`

// A window {n, u}: how many, until when. Gives n and u, or nil once it has ended.
const readWindow = `
local function window (key)
  local w = redis.call('HMGET', key, 'n', 'u')
  local u = tonumber(w[2])
  if u == nil or now >= u then return nil end
  return tonumber(w[1]), u
end
`

export const scripts = {
  /**
   * limit, windowMs, want, worker, holdMs: gives granted, what remains, ms to the end, ms for which other workers may
   * still return some, end. Fields besides the window: h, until when unused permits may be held, and w, the one worker
   * that may hold some, or `*`. Never more than a quarter of what is left: the last ones are taken singly.
   */
  bgFixed: {
    numberOfKeys: 1,
    lua: `${now}${readWindow}
local limit, length, want, worker = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
if limit < 1 then return {0, 0, length, 0, ''} end
local n, u = window(KEYS[1])
if n == nil then
  n, u = 0, now + length
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'n', 0, 'u', string.format('%.0f', u))
  redis.call('PEXPIRE', KEYS[1], length)
end
local e = redis.call('HMGET', KEYS[1], 'h', 'w')
local held, holder, back = tonumber(e[1]) or 0, e[2], 0
local granted = math.max(0, math.min(want, math.max(1, math.floor((limit - n) / 4)), limit - n))
if granted > 0 then redis.call('HINCRBY', KEYS[1], 'n', granted) end
if granted > 1 then
  if held > now and holder ~= worker then holder = '*' else holder = worker end
  redis.call('HSET', KEYS[1], 'h', string.format('%.0f', math.max(held, now + ARGV[6])), 'w', holder)
elseif granted == 0 and held > now and holder ~= worker then
  back = held - now
end
return {granted, math.max(0, limit - n - granted), u - now, back, string.format('%.0f', u)}`
  },
  /** end, count: unused permits of the window that ends then. */
  bgGiveBack: {
    numberOfKeys: 1,
    lua: `local w = redis.call('HMGET', KEYS[1], 'n', 'u')
if w[1] and w[2] == ARGV[2] then redis.call('HINCRBY', KEYS[1], 'n', -math.min(tonumber(w[1]), tonumber(ARGV[3]))) end
return 1`
  },
  /** limit, windowMs, segments: gives remaining, ms to wait. Fields are segment numbers. */
  bgSliding: {
    numberOfKeys: 1,
    lua: `${now}
local limit, length, segments = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local part = length / segments
local newest = math.floor(now / part)
local all, count = redis.call('HGETALL', KEYS[1]), 0
for i = 1, #all, 2 do
  if tonumber(all[i]) <= newest - segments then redis.call('HDEL', KEYS[1], all[i])
  else count = count + tonumber(all[i + 1]) end
end
if count >= limit then return {0, math.max(1, math.ceil((newest + 1) * part - now))} end
redis.call('HINCRBY', KEYS[1], string.format('%.0f', newest), 1)
redis.call('PEXPIRE', KEYS[1], length + math.ceil(part))
return {limit - count - 1, 0}`
  },
  /** limit, windowMs: gives ms for which the key is blocked. */
  bgFail: {
    numberOfKeys: 1,
    lua: `${now}${readWindow}
local limit, length = tonumber(ARGV[2]), tonumber(ARGV[3])
local n, u = window(KEYS[1])
if n == nil then
  n, u = 0, now + length
  redis.call('HSET', KEYS[1], 'n', 0, 'u', u)
  redis.call('PEXPIRE', KEYS[1], length)
end
redis.call('HINCRBY', KEYS[1], 'n', 1)
if n + 1 > limit then return u - now end
return 0`
  },
  bgBlocked: {
    numberOfKeys: 1,
    lua: `${now}${readWindow}
local n, u = window(KEYS[1])
if n ~= nil and n > tonumber(ARGV[2]) then return u - now end
return 0`
  },
  /** burst, perMinute, cost, keep: gives ms to wait, tokens left. Fields: n tokens, a at, r rests until. */
  bgTokens: {
    numberOfKeys: 1,
    lua: `${now}
local burst, rate, cost, keep = tonumber(ARGV[2]), ARGV[3] / 60000, tonumber(ARGV[4]), tonumber(ARGV[5])
local e = redis.call('HMGET', KEYS[1], 'n', 'a', 'r')
local left, rests = burst, tonumber(e[3]) or 0
if e[1] then left = math.min(burst, e[1] + math.max(0, now - e[2]) * rate) end
local wait, missing = math.max(0, rests - now), keep + cost - left
if missing >= 1e-6 then wait = math.max(wait, math.ceil(missing / rate)) end
if wait == 0 then left = left - cost end
redis.call('HSET', KEYS[1], 'n', string.format('%.6f', left), 'a', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil(burst / rate + math.max(0, rests - now)) + 1000)
return {wait, string.format('%.6f', left)}`
  },
  /** burst, perMinute, ms */
  bgRest: {
    numberOfKeys: 1,
    lua: `${now}
local rests = math.max(now + tonumber(ARGV[4]), tonumber(redis.call('HGET', KEYS[1], 'r') or '0'))
redis.call('HSET', KEYS[1], 'n', 0, 'a', string.format('%.0f', now), 'r', string.format('%.0f', rests))
redis.call('PEXPIRE', KEYS[1], math.ceil(ARGV[2] / ARGV[3] * 60000 + rests - now) + 1000)
return 1`
  },
  /** add, halfLifeMs: gives what the count was. Fields: n count, a at. */
  bgTally: {
    numberOfKeys: 1,
    lua: `${now}
local half = tonumber(ARGV[3])
local e = redis.call('HMGET', KEYS[1], 'n', 'a')
local count = 0
if e[1] then count = e[1] * 2 ^ (-math.max(0, now - e[2]) / half) end
redis.call('HSET', KEYS[1], 'n', string.format('%.6f', math.max(0, count + ARGV[2])), 'a', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil(half * 16))
return string.format('%.6f', count)`
  },
  /**
   * fingerprint, token, lockMs: gives what Begun says. Fields: f fingerprint, t token while running, r record, u until.
   */
  bgBegin: {
    numberOfKeys: 1,
    lua: `${now}
local e = redis.call('HMGET', KEYS[1], 'f', 'r', 'u')
local u = tonumber(e[3])
if u ~= nil and now < u then
  if e[1] ~= ARGV[2] then return {'conflict'} end
  if e[2] then return {'replay', e[2]} end
  return {'running'}
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'f', ARGV[2], 't', ARGV[3], 'u', now + tonumber(ARGV[4]))
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {'run'}`
  },
  /** token, lockMs */
  bgExtend: {
    numberOfKeys: 1,
    lua: `${now}
if redis.call('HGET', KEYS[1], 't') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'u', now + tonumber(ARGV[3]))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`
  },
  /** token, record, ttlMs */
  bgFinish: {
    numberOfKeys: 1,
    lua: `${now}
if redis.call('HGET', KEYS[1], 't') ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], 't')
redis.call('HSET', KEYS[1], 'r', ARGV[3], 'u', now + tonumber(ARGV[4]))
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1`
  },
  /** token */
  bgAbandon: {
    numberOfKeys: 1,
    lua: `if redis.call('HGET', KEYS[1], 't') ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[1])
return 1`
  },
  bgLook: {
    numberOfKeys: 1,
    lua: `${now}
local e = redis.call('HMGET', KEYS[1], 'r', 'u')
local u = tonumber(e[2])
if u == nil or now >= u then return {'gone'} end
if e[1] then return {'replay', e[1]} end
return {'running'}`
  },
  bgGet: {
    numberOfKeys: 1,
    lua: `${now}
local e = redis.call('HMGET', KEYS[1], 'v', 'u')
local u = tonumber(e[2])
if u == nil or now >= u then return nil end
return e[1]`
  },
  /** value, ttlMs */
  bgSet: {
    numberOfKeys: 1,
    lua: `${now}
redis.call('HSET', KEYS[1], 'v', ARGV[2], 'u', now + tonumber(ARGV[3]))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`
  },
  bgDelete: { numberOfKeys: 1, lua: "return redis.call('DEL', KEYS[1])" }
} as const
