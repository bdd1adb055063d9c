# shellcheck shell=sh
# reserve WORKSPACE NAME FIRST FROM TO [ID COUNT]...: reserve ports of the host for replicas, from FIRST on in the range, that
# nothing listens on and that no service of the workspace has reserved or recorded.

service_open "$1" "$2"
port=$3 from=$4 to=$5
shift 5
service_lock "${dir%/*}/.lock"
[ -s "$dir/record" ] || fail "the service was undeployed meanwhile"
touch "$dir/ports"
taken=$(
  cut -d ' ' -f 1 "${dir%/*}"/*/ports 2>/dev/null
  cat "${dir%/*}"/*/record 2>/dev/null | tr '}' '\n' | # those of replicas and of fronts, which may be down just now
    sed -n 's/.*"ports\{0,1\}":\[\{0,1\}\([0-9,]*\).*/\1/p' | tr , '\n'
)
open=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '$4 == "0A" { print substr($2, length($2) - 3) }')

is_free() { # PORT
  ! printf '%s\n' "$taken" | grep -qx "$1" && ! printf '%s\n' "$open" | grep -qix "$(printf %04X "$1")"
}

while read -r number owner; do # without those of replicas that are no more
  ! grep -qF "\"$owner\"" "$dir/record" || printf '%s %s\n' "$number" "$owner"
done <"$dir/ports" >"$dir/ports.new"
chosen='' tried=0
while [ "$#" -gt 0 ]; do
  count=$2
  while [ "$count" -gt 0 ]; do
    [ "$tried" -le $((to - from)) ] || fail "no port from $from to $to is free"
    if is_free "$port"; then
      chosen="$chosen $port"
      printf '%s %s\n' "$port" "$1" >>"$dir/ports.new"
      count=$((count - 1))
    fi
    tried=$((tried + 1)) port=$((port + 1))
    [ "$port" -le "$to" ] || port=$from
  done
  shift 2
done
durable "$dir/ports.new" && mv -f "$dir/ports.new" "$dir/ports" && durable "$dir" ||
  fail "$dir/ports cannot be written: is the disk full?"
part ports
printf '%s' "${chosen# }"
part end
