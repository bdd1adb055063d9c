# shellcheck shell=sh
# remove IMAGES TOOL PATH: removes an image that no queued or running job needs.

[ -d "$1" ] || [ "$2" = podman ] || [ "$2" = docker ] || { part end && exit 0; }
case $2 in
podman | docker)
  if "$2" image inspect "$3" >/dev/null 2>&1; then
    said=$("$2" rmi "$3" 2>&1) || fail "the image $3 is not removed: $(printf '%s' "$said" | tail -n 1)"
    part removed
    echo 1
  fi ;;
*)
  store_open "$1"
  store_work
  file=${3##*/}
  lock_take "$images/.locks/$file"
  if [ -f "$images/$file" ]; then
    holder=$(store_needed "$file" 1)
    [ -z "$holder" ] || fail "the image $images/$file is needed by the job in $holder: it stays"
    rm -f "$images/$file" "$images/$file.info" "$images/.used/$file" || fail "$images/$file cannot be removed"
    part removed
    echo 1
  fi ;;
esac
part end
