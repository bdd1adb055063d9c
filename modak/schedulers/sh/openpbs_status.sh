# shellcheck shell=sh
# openpbs_status COUNT ID... ARRAY...: qstat for all, with the tasks of the arrays; ended ones too where the server keeps
# a history. The text and not the JSON, which a job named nan, or with such an account or variable, makes invalid.

shift
ask() { # OPTION... ID...
  qstat -t -f "$@" 2>&1
}
jobs=$(ask -x "$@")
code=$?
case $jobs in
*"not configured to maintain job history"*)
  jobs=$(ask "$@")
  code=$?
  ;;
esac
printf '%s\n' "$jobs"
exit "$code"
