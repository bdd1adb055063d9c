# Prints "UNIT VALUE" for lines that match a pattern: the last one, with mode=last, or all of them.
# The variable of the environment modak_pattern names a file with the pattern's pieces, one a line: text, group, text,
# and again where there are two groups. POSIX awk has no captured groups, so the pieces are matched one by one.
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
BEGIN {
  file = ENVIRON["modak_pattern"]
  while ((getline line < file) > 0) piece[count++] = line
  for (i = count - 1; i >= 0; i--) rest[i] = (i % 2 ? "(" piece[i] ")" : piece[i]) rest[i + 1]
}
{
  line = substr($0, 1, 2000)
  if (!match(line, rest[0]) || RLENGTH > 400 || !take(substr(line, RSTART, RLENGTH))) next
  unit = got[1]
  gsub(/[ ,_]/, "", unit)
  if (unit !~ /^[0-9]+$/ || length(unit) > 12) next
  value = tolower(got[3])
  if (value !~ /^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)(e[-+]?[0-9]+)?$/) value = value == "" ? "" : "nan"
  unit = sprintf("%.0f", unit) # mawk (1.3.4) prints 3e+09 for what exceeds 31 bits
  if (mode == "last") found = unit " " value
  else print unit, value
}
END { if (mode == "last" && found != "") print found }
