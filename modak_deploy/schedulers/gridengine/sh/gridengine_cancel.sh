# shellcheck shell=sh
# gridengine_cancel ID...: qdel each; one that is unknown or has ended is no error.

code=0
for id in "$@"; do
  said=$(qdel "$id" 2>&1) && continue
  this=$?
  case $said in
  *"does not exist"* | *"is already in deletion"*) ;;
  *)
    printf '%s\n' "$said" >&2
    code=$this
    ;;
  esac
done
exit "$code"
