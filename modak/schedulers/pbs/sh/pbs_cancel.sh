# shellcheck shell=sh
# pbs_cancel ID...: qdel each; one that is unknown or has ended is no error.

code=0
for id in "$@"; do
  said=$(qdel "$id" 2>&1) && continue
  this=$?
  case $said in
  *"nonexistent job id"* | *"Unknown Job"* | *"Job has finished"* | *"invalid state for job"*) ;;
  *)
    printf '%s\n' "$said" >&2
    code=$this
    ;;
  esac
done
exit "$code"
