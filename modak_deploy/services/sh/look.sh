# shellcheck shell=sh
# look WORKSPACE NAME: the service's folder, its record, and which programs the host has for a service.

service_open "$1" "$2"
part directory
printf '%s' "$dir"
if [ -s "$dir/record" ]; then # an empty one is that of a write before a power failure
  part revision
  service_revision
  part record
  sed 1d "$dir/record" | head -c 2097152
fi
[ ! -f "$dir/front/haproxy.cfg" ] || { part configuration && head -c 65536 "$dir/front/haproxy.cfg"; }
PATH=$PATH:/usr/sbin:/usr/local/sbin
part haproxy
command -v haproxy
[ -r /proc/net/tcp ] && [ -r /proc/self/stat ] && part proc
for name in curl wget bash; do
  ! command -v "$name" >/dev/null 2>&1 || part "$name"
done
part end
