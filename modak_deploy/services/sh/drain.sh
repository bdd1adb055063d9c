# shellcheck shell=sh
# drain WORKSPACE NAME FOLDER SECONDS: wait for at most SECONDS until HAProxy, which the job in the folder of that name has
# started, has completed the requests that its workers before the last one have accepted.

service_open "$1" "$2"
folder=$3
end=$(($(date +%s) + $4))
while :; do
  left=0
  ! master=$(child_of "$folder") || for worker in $(workers_of "${master%%.*}"); do left=$((left + 1)); done
  [ "$left" -gt 1 ] && [ "$(date +%s)" -lt "$end" ] || break
  nap 0.2
done
part workers
printf '%d' "$left"
part end
