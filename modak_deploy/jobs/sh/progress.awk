# Prints "UNIT VALUE" for lines that match a pattern: all of them, or one, with mode=first or mode=last.
# The variable of the environment modak_pattern names a file with the pattern's pieces, one a line: text, group, text,
# and again where there are two groups. POSIX awk has no captured groups, so the pieces are matched one by one.
# That takes BusyBox's awk (1.35) 0.2 ms a line, so the last line is looked for from the end, and nothing is read any more
# once the node has been up for "until" hundredths of a second.
function fits(text, expression) {
  return expression == "" ? text == "" : text ~ ("^(" expression ")$")
}
function take(text, i, k, size) {
  for (i = 0; i < count - 1; i++) {
    size = length(text)
    if (i % 2 == 0) {
      for (k = 0; k <= size; k++) if (fits(substr(text, 1, k), piece[i]) && fits(substr(text, k + 1), rest[i + 1])) break
    } else {
      for (k = size; k >= 0; k--) if (fits(substr(text, 1, k), piece[i]) && fits(substr(text, k + 1), rest[i + 1])) break
    }
    if (k < 0 || k > size) return 0
    got[i] = substr(text, 1, k)
    text = substr(text, k + 1)
  }
  return 1
}
function reads(text) { # sets unit and value
  text = substr(text, 1, 2000)
  if (!match(text, rest[0]) || RLENGTH > 400 || !take(substr(text, RSTART, RLENGTH))) return 0
  unit = got[1]
  gsub(/[ ,_]/, "", unit)
  if (unit !~ /^[0-9]+$/ || length(unit) > 12) return 0
  unit = sprintf("%.0f", unit) # mawk (1.3.4) prints 3e+09 for what exceeds 31 bits
  value = tolower(got[3])
  if (value !~ /^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)(e[-+]?[0-9]+)?$/) value = value == "" ? "" : "nan"
  return 1
}
function is_over(line, uptime) {
  if (!until || line % 50) return 0
  uptime = 0
  getline uptime < "/proc/uptime"
  close("/proc/uptime")
  return uptime * 100 >= until
}
BEGIN {
  file = ENVIRON["modak_pattern"]
  while ((getline line < file) > 0) piece[count++] = line
  for (i = count - 1; i >= 0; i--) rest[i] = (i % 2 ? "(" piece[i] ")" : piece[i]) rest[i + 1]
}
mode == "last" { kept[NR] = $0; next }
is_over(NR) { exit }
reads($0) {
  print unit, value
  if (mode == "first") exit
}
END {
  if (mode != "last") exit
  for (i = NR; i > 0 && !is_over(i); i--) {
    if (reads(kept[i])) {
      print unit, value
      exit
    }
  }
}
