# Prints "UNITS CENTISECONDS NANOSECONDS LOSS" of the counter with the most time in the launcher's records: how many
# units, the time from the interpreter's start to the end of the last one, the time of a steady one.
function number(key, from) {
  if (!match($0, "\"" key "\": -?[0-9][0-9.e+-]*")) return ""
  from = RSTART + length(key) + 4
  return substr($0, from, RLENGTH - length(key) - 4) + 0
}
/^[{]"event": "state"/ && !/"name": "process"/ {
  seconds = number("seconds")
  if (seconds == "" || number("units") == "" || (found != "" && seconds <= most)) next
  most = seconds
  loss = /"loss": "[^"]*"/ ? "nan" : number("loss")
  found = sprintf("%.0f %.0f %.0f %s", number("units"), 100 * (number("start") + number("elapsed")), 1000000000 * number("steady"), loss)
}
END { if (found != "") print found }
