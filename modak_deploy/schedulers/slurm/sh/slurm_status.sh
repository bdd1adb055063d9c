# shellcheck shell=sh
# slurm_status ID,ID... ALIVE: one squeue for all; one scontrol for the jobs that have ended (ALIVE matches the states of
# those that have not), because it knows exit codes. It reads its commands from standard input, as scontrol(1) has it,
# and with readline it echoes them (Slurm 22.05: "scontrol: show job 1"), without it the answer stands behind that. sacct, where there is accounting, for those and for the jobs that
# squeue has forgotten. The numbers of an array's tasks are wanted whole, however many there are.

unset SQUEUE_ACCOUNT SQUEUE_ARRAY SQUEUE_FORMAT2 SQUEUE_LICENSES SQUEUE_NAMES SQUEUE_PARTITION SQUEUE_QOS SQUEUE_SORT \
  SQUEUE_USERS
case ${SLURM_CLUSTERS-} in *,* | all) unset SLURM_CLUSTERS ;; esac # as where the job was submitted
# squeue(1), %i and %K: else the numbers of an array's waiting tasks are cut off after 64 bytes.
SLURM_BITSTR_LEN=0
export SLURM_BITSTR_LEN
list=$(squeue --noheader --all --states=all --jobs="$1" --format='%i|%F|%K|%T|%M|%l|%N|%r|%S' 2>&1)
printf 'squeue %s\n%s\n' $? "$list"
ask='' ended=''
while read -r what id; do
  [ "$what" != ended ] || ended="${ended}show job $id
"
  [ -z "$id" ] || ask=$ask${ask:+,}$id
done <<LIST
$(printf '%s\n' "$list" | awk -F'|' -v ids="$1" -v alive="$2" '
  NF >= 8 {
    seen[$1] = seen[$2] = 1
    if ($4 ~ alive) runs[$2] = 1
    else ends[$2] = 1
  }
  END {
    for (job in ends) if (!(job in runs)) print "ended", job
    count = split(ids, asked, ",")
    for (i = 1; i <= count; i++) if (!(asked[i] in seen)) print "gone", asked[i]
  }')
LIST
[ -z "$ended" ] || printf '%s' "$ended" | scontrol --oneliner 2>/dev/null |
  sed -n -e 's/^\(scontrol: \)*\(JobId=\)/\2/p'
[ -n "$ask" ] || exit 0
told=$(sacct --noheader --parsable2 --allocations ${SLURM_CLUSTERS:+"--clusters=$SLURM_CLUSTERS"} --jobs="$ask" \
  --format=JobID,State,ExitCode,Elapsed,Timelimit,NodeList,Reason 2>/dev/null)
for user in $(printf '%s\n' "$told" | sed -n 's/^[^|]*|[A-Z_]* by \([0-9][0-9]*\)|.*/\1/p' | sort -u); do
  printf 'user|%s|%s\n' "$user" "$(getent passwd "$user" 2>/dev/null | cut -d : -f 1)"
done
[ -z "$told" ] || printf '%s\n' "$told" | sed 's/^/sacct|/'
exit 0
