# shellcheck shell=sh
# remove WORKSPACE NAME REVISION TOKEN: remove the service's folder, and the folders above it that are left empty.

service_open "$1" "$2"
if [ -d "$dir" ]; then
  service_lock "$dir/lock"
  service_check "$3"
  old=${dir%/*}/.removed.$4
  mv "$dir" "$old" || fail "$dir cannot be removed" # in one step: nobody takes half of it for a service
  rm -rf "$old" || fail "$old cannot be removed"
fi
find "${dir%/*}" -maxdepth 1 -name '.removed.*' -mtime +0 -exec rm -rf {} + 2>/dev/null
if [ "$(ls -A "${dir%/*}" 2>/dev/null)" = .lock ]; then rm -rf "${dir%/*}/.lock"; fi
if rmdir "${dir%/*}" 2>/dev/null; then
  case $workspace in */.modak) rmdir "$workspace" 2>/dev/null ;; esac # the workspace that nobody asked for by name
fi
part end
