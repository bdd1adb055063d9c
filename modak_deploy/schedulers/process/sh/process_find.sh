# shellcheck shell=sh
# process_find TAG: the ids of this user's processes that run a job with that tag.

grep -lsF -e "$1" /proc/[0-9]*/cmdline | while read -r file; do
  file=${file%/cmdline}
  pid=${file#/proc/}
  case $(tr '\0' ' ' 2>/dev/null <"$file/cmdline") in *"/job.sh $1 ") ;; *) continue ;; esac
  [ "$(session_of "$pid")" = "$pid" ] || continue
  [ -n "$(find "$file" -prune -user "$(id -u)" 2>/dev/null)" ] || continue
  start=$(start_of "$pid") && echo "modak-process $pid-$start"
done
exit 0
