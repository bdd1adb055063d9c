# shellcheck shell=sh
# pbs_cancel ID...: qdel each; one that is unknown or has ended is no error.

code=0
for id in "$@"; do
  said=$(qdel "$id" 2>&1) && continue
  this=$?
  case $said in
  # Torque 6.1.3.h5: "nonexistent job id" (153), "invalid state for job - COMPLETE" (170). OpenPBS 23.06.06: "Unknown Job
  # Id" (153), "Job has finished" (35). The codes differ, and others share them.
  *"nonexistent job id"* | *"Unknown Job"* | *"Job has finished"* | *"invalid state for job"*) ;;
  *)
    printf '%s\n' "$said" >&2
    code=$this
    ;;
  esac
done
exit "$code"
