-- A beat of a session: 1 if its member came online, 0 if it was here already, the grace included.
-- KEYS: sessions, a sorted set of `member|session` by the moment (ms) at which its grace ends; members, a hash of how many
-- sessions each has. ARGV: member, session, timeout + grace (ms), channel.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1] .. '|' .. ARGV[2]) == 0 then return 0 end
if redis.call('HINCRBY', KEYS[2], ARGV[1], 1) > 1 then return 0 end
redis.call('PUBLISH', ARGV[4], 'online ' .. ARGV[1])
return 1
