# shellcheck shell=sh
# restarted DIR BYTES: the record of the trials before the run, at most BYTES of it. No link and no pipe is followed.

dir=$1 bytes=$2
part record
if [ -f "$dir/restart/record" ] && [ ! -h "$dir/restart" ] && [ ! -h "$dir/restart/record" ]; then
  dd if="$dir/restart/record" bs="$bytes" count=1 2>/dev/null
fi
part end
