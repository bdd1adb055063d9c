# shellcheck shell=sh
# remove DIR TAG TOKEN KNOWN WAIT: remove the job's folder, if it is this job's, and the folders above it that are left
# empty. KNOWN says whether the caller knows of a job in it: where it does not, and there is one, nothing is removed. WAIT is for
# how many seconds another run that submits the job is waited for.

dir=$1 tag=$2 token=$3 known=$4 wait=$5
if [ -d "$dir" ]; then
  said=
  [ ! -f "$dir/state/tag" ] || said=$(cat "$dir/state/tag" 2>/dev/null)
  case $tag in
  "$said") ;;
  "$said"*) [ -f "$dir/job.sh" ] && grep -qF "$tag" "$dir/job.sh" 2>/dev/null ;; # the record was cut short, but the script names it too
  *) false ;;
  esac || fail "$dir does not say that it is this job's folder: it stays"
  # Another controller may be submitting the job, or what it had started for that when it was killed.
  lock_open "$dir/state/lock"
  trap lock_drop EXIT
  waits=0
  until lock_try; do
    waits=$((waits + 1))
    [ "$waits" -le $((wait * lock_naps)) ] ||
      fail "another run is submitting the job in $dir: it stays"
    lock_wait
  done
  if [ -z "$known" ] && { [ -s "$dir/state/id" ] || begun "$dir"; }; then
    lock_drop
    part appeared
    part end
    exit 0
  fi
  end_leftover "$dir"
  # Renamed first: nobody takes a half-removed folder for a job.
  old=$dir.removed.$token
  mv "$dir" "$old" || fail "$dir cannot be removed"
  tries=0
  until erase "$old"; do
    tries=$((tries + 1))
    [ "$tries" -lt 5 ] || fail "$old cannot be removed"
    sleep 1
  done
fi
if rmdir "${dir%/*}" 2>/dev/null; then
  case $dir in
  */.modak/runs/*) rmdir "${dir%/*/*}" 2>/dev/null ;; # the workspace that nobody asked for by name
  esac
fi
part end
