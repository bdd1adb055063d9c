# shellcheck shell=sh
# openpbs_status COUNT ID... ARRAY...: qstat for all, with the tasks of the arrays; ended ones too where the server keeps
# a history. The text and not the JSON, which a job named nan, or with such an account or variable, makes invalid.
# Complaints stay on standard error: in one stream they could fall into the middle of a line.

shift
ask() { # OPTION... ID...
  qstat -t -f "$@"
}
jobs=$(ask -x "$@")
code=$?
if [ "$code" = 0 ] && [ -z "$jobs" ]; then # without a history -x tells nothing, and that is no error
  jobs=$(ask "$@")
  code=$?
fi
printf '%s\n' "$jobs"
exit "$code"
