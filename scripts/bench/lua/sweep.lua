-- Run by a sweeper, again and again: ends the sessions whose grace is over, at most 1,000 of them, and announces the
-- members who have none left; their number. KEYS as for a beat; ARGV: channel.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local gone = 0
for _, session in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1000)) do
  redis.call('ZREM', KEYS[1], session)
  local member = string.match(session, '^(.*)|')
  if redis.call('HINCRBY', KEYS[2], member, -1) == 0 then
    redis.call('HDEL', KEYS[2], member)
    redis.call('PUBLISH', ARGV[1], 'offline ' .. member)
    gone = gone + 1
  end
end
return gone
