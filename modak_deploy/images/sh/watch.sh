# shellcheck shell=sh
# Runs a tool for as long as it gets on: a registry that stops in the middle of a blob would keep it for ever, and how
# long a large image takes cannot be known before.

watch_limit=300 # seconds without any progress
watch_nap=5

watch_size() { # prints kilobytes of all that the tool has written so far
  du -sk "$work" ${tmp:+"$tmp"} 2>/dev/null | awk '{ sum += $1 } END { printf "%d", sum }'
}

watched() { # LOG COMMAND...: fails with 124 where the tool has been stopped because nothing came any more
  watch_log=$1
  shift
  "$@" >"$watch_log" 2>&1 </dev/null 9>&- &
  watch_tool=$!
  rm -f "$work/.stalled"
  (
    last='' quiet=0
    while sleep "$watch_nap" && kill -0 "$watch_tool" 2>/dev/null; do
      size=$(watch_size)
      printf '%s\n%d\n' "${file:-}" "$size" >"$work/.progress"
      now=$size:$(wc -c 2>/dev/null <"$watch_log")
      if [ "$now" = "$last" ]; then quiet=$((quiet + watch_nap)); else quiet=0 last=$now; fi
      [ "$quiet" -ge "$watch_limit" ] || continue
      echo "$size" >"$work/.stalled"
      kill "$watch_tool"
      sleep 10
      kill -9 "$watch_tool"
    done
  ) >/dev/null 2>&1 </dev/null 9>&- &
  watch_beat=$!
  wait "$watch_tool"
  watch_code=$?
  kill "$watch_beat" 2>/dev/null
  watch_tool='' watch_beat=''
  [ ! -e "$work/.stalled" ] || fail "the image ${reference:-${name:-}} was not pulled: nothing has come for $watch_limit s, after $(($(cat "$work/.stalled") / 1024)) MB"
  return "$watch_code"
}
