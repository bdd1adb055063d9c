# shellcheck shell=sh
# remove DIR TAG TOKEN: remove the job's folder, if it is this job's, and the folders above it that are left empty.

dir=$1 tag=$2 token=$3
if [ -d "$dir" ]; then
  [ "$(cat "$dir/state/tag" 2>/dev/null)" = "$tag" ] || fail "$dir does not say that it is this job's folder: it stays"
  # Renamed first: nobody takes a half-removed folder for a job.
  old=$dir.removed.$token
  mv "$dir" "$old" || fail "$dir cannot be removed"
  tries=0
  until rm -rf "$old" 2>/dev/null; do
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
