# shellcheck shell=sh
# write WORKSPACE NAME REVISION TOKEN: put the record on standard input in place of the one with that revision; 0 is for
# none. The answer's part "changed" says that it has another revision, and that nothing was done.

service_open "$1" "$2"
token=$4
service_there "$3"
mkdir -p "$dir" || fail "the folder $dir cannot be made"
service_lock "$dir/lock"
service_check "$3"
cat >"$dir/record.$token" && durable "$dir/record.$token" && mv -f "$dir/record.$token" "$dir/record" &&
  durable "$dir" "${dir%/*}" "$workspace" || {
  rm -f "$dir/record.$token"
  fail "$dir/record cannot be written: is the disk full?"
}
part end
