"""The room of the event page."""

ROOM = "show:harbor-lights"
# Short, in ms; the gateway asks for two beats a second then.
TIMES = {"TIMEOUT": 1500, "GRACE": 1000, "COUNTEVERY": 100}
