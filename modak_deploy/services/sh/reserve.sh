# shellcheck shell=sh
# reserve WORKSPACE NAME ID COUNT FIRST FROM TO: reserve ports of the host for a replica, from FIRST on in the range, that
# nothing listens on and that no service of the workspace has reserved.

service_open "$1" "$2"
id=$3 count=$4 port=$5 from=$6 to=$7
service_lock "${dir%/*}/.lock"
touch "$dir/ports" "$dir/record"
taken=$(cat "${dir%/*}"/*/ports 2>/dev/null | cut -d ' ' -f 1)
open=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '$4 == "0A" { print substr($2, length($2) - 3) }')
chosen='' tried=0
while [ "$count" -gt 0 ]; do
  [ "$tried" -le $((to - from)) ] || fail "no port from $from to $to is free"
  if ! printf '%s\n' "$taken" | grep -qx "$port" && ! printf '%s\n' "$open" | grep -qix "$(printf %04X "$port")"; then
    chosen="$chosen $port"
    count=$((count - 1))
  fi
  tried=$((tried + 1)) port=$((port + 1))
  [ "$port" -le "$to" ] || port=$from
done
{
  while read -r number owner; do # of replicas that are no more
    ! grep -qF "\"$owner\"" "$dir/record" || printf '%s %s\n' "$number" "$owner"
  done <"$dir/ports"
  for port in $chosen; do printf '%s %s\n' "$port" "$id"; done
} >"$dir/ports.new" && durable "$dir/ports.new" && mv -f "$dir/ports.new" "$dir/ports" && durable "$dir" ||
  fail "$dir/ports cannot be written: is the disk full?"
part ports
printf '%s' "${chosen# }"
part end
