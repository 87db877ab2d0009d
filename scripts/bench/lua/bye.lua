-- A goodbye of a session: 1 if its member went offline. KEYS as for a beat; ARGV: member, session, channel.
if redis.call('ZREM', KEYS[1], ARGV[1] .. '|' .. ARGV[2]) == 0 then return 0 end
if redis.call('HINCRBY', KEYS[2], ARGV[1], -1) > 0 then return 0 end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('PUBLISH', ARGV[3], 'offline ' .. ARGV[1])
return 1
