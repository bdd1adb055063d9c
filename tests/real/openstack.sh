#!/bin/bash
# A real OpenStack from Debian's packages: keystone, placement, glance, neutron, and nova with its fake hypervisor, in a
# Debian of its own and in namespaces of its own (network, processes, mounts): openstack.sh up | down | status | folder | run
# MODAK_OPENSTACK_CACHE names another folder than /var/tmp/modak-openstack for the Debian, the databases as they were made
# once, and a Python with openstacksdk and the Ansible collections.
set -euo pipefail
NAME=openstack
PROGRAMS="mmdebstrap unshare nsenter python3 ip sshd ssh-keygen"
PACKAGES=(mmdebstrap util-linux python3 python3-venv iproute2 openssh-server openssh-client)
# shellcheck source=tests/real/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
CACHE=${MODAK_OPENSTACK_CACHE:-/var/tmp/modak-openstack}
MARK=$BUILD/openstack.folder # where this checkout's rig lies
DEBIAN=$CACHE/debian
SCRIPTS=$HERE/openstack
SERVICES=mariadb-server,python3-pymysql,rabbitmq-server,keystone,placement-api,glance-api,nova-api,nova-conductor,nova-scheduler
SERVICES=$SERVICES,nova-compute,neutron-server,uwsgi-core,uwsgi-plugin-python3,python3-openstacksdk
SDK='openstacksdk<4.8' # 4.8 and later lack the attribute that openstack.cloud 2.5 reads its version from

make_debian() {
  local site new
  [ ! -e "$DEBIAN" ] || return 0
  site=$(mirror debian)
  if [ -z "$site" ]; then cannot "OpenStack comes from Debian's packages, and apt here has no mirror of Debian"; fi
  say "making a Debian with OpenStack in $CACHE: 2 GB, some minutes"
  new=$CACHE/new.$$
  # No service is to start at its installation: policy-rc.d answers 101, "action forbidden by policy".
  # shellcheck disable=SC2016 # mmdebstrap's shell
  logged openstack-debian env DEBIAN_FRONTEND=noninteractive mmdebstrap --variant=minbase "--include=$SERVICES" \
    --aptopt='APT::Install-Recommends "false"' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --essential-hook='printf "#!/bin/sh\nexit 101\n" > "$1/usr/sbin/policy-rc.d"; chmod 755 "$1/usr/sbin/policy-rc.d"' \
    bookworm "$new" "$site"
  printf '127.0.0.1 localhost\n' >"$new/etc/hosts"
  mkdir -p "$new/os"
  mv "$new" "$DEBIAN"
}

make_client() { # a Python with openstacksdk, and the collections
  local venv=$CACHE/venv
  [ ! -e "$venv/complete" ] || return 0
  say "making a Python with openstacksdk in $venv"
  /usr/bin/python3 -m venv "$venv"
  logged openstack-sdk "$venv/bin/pip" install -q "$SDK" pyyaml
  logged openstack-collections "$venv/bin/python" "$HERE/take_collection.py" "$venv" openstack/cloud
  touch "$venv/complete"
}

inside() { # FOLDER COMMAND...: in new namespaces, in the Debian, with FOLDER as its /os; ends with this process's child
  local folder=$1
  shift
  # shellcheck disable=SC2016 # the inner shell's
  exec unshare --net --mount --uts --ipc --pid --fork --kill-child sh -c '
    hostname localhost && mount --bind "$1" "$2/os" && mount -t proc proc "$2/proc" && mount --rbind /dev "$2/dev" &&
    mount -t tmpfs tmpfs "$2/run" && mount -t tmpfs -o mode=1777 tmpfs "$2/tmp" || exit 1
    debian=$2
    shift 2
    exec chroot "$debian" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"' sh "$folder" "$DEBIAN" "$@"
}

make_databases() {
  local new=$CACHE/os.new
  [ ! -e "$CACHE/os" ] || return 0
  say "making OpenStack's databases"
  rm -rf "$new"
  mkdir -p "$new"
  cp -r "$SCRIPTS" "$new/scripts"
  for script in settings.sh setup.sh "start.sh once"; do
    # shellcheck disable=SC2086 # a script and its argument
    (logged "openstack-${script%%.*}" inside "$new" bash /os/scripts/$script) || fail "the databases could not be made"
  done
  mv "$new" "$CACHE/os"
}

alive() { # is this checkout's rig up?
  [ -s "$MARK" ] || return 1
  FOLDER=$(cat "$MARK")
  [ -s "$FOLDER/pid" ] && [ -e "$FOLDER/os/ready" ] && runs "$(cat "$FOLDER/pid")"
}

write_clouds() { # the project's member, as a user has it in ~/.config/openstack/clouds.yaml
  (umask 077 && cat >"$FOLDER/clouds.yaml" <<CLOUDS
clouds:
  lab:
    auth: {auth_url: "http://127.0.0.1:15000/v3", username: lab, password: "$(cat "$FOLDER/os/secret")", project_name: lab,
           user_domain_name: Default, project_domain_name: Default}
    region_name: RegionOne
  inside:
    auth: {auth_url: "http://127.0.0.1:5000/v3", username: lab, password: "$(cat "$FOLDER/os/secret")", project_name: lab,
           user_domain_name: Default, project_domain_name: Default}
    region_name: RegionOne
    interface: internal
  admin:
    auth: {auth_url: "http://127.0.0.1:5000/v3", username: admin, password: "$(cat "$FOLDER/os/secret")", project_name: admin,
           user_domain_name: Default, project_domain_name: Default}
    region_name: RegionOne
    interface: internal
CLOUDS
  )
}

up() {
  if [ "$(id -u)" != 0 ]; then cannot "it takes root"; fi
  install_packages
  mkdir -p "$CACHE" "$BUILD"
  make_debian
  make_client
  make_databases
  if alive; then
    echo "$FOLDER"
    return 0
  fi
  down
  FOLDER=$(umask 077 && mktemp -d "$BASE/modak-openstack-run.XXXXXX")
  echo "$FOLDER" >"$MARK"
  cp -a "$CACHE/os" "$FOLDER/os"
  rm -rf "$FOLDER/os/ready" "$FOLDER/os/log" "$FOLDER/os/scripts"
  mkdir "$FOLDER/os/log"
  cp -r "$SCRIPTS" "$FOLDER/os/scripts"
  (inside "$FOLDER/os" bash /os/scripts/start.sh) >"$FOLDER/log" 2>&1 </dev/null &
  echo $! >"$FOLDER/pid"
  local end=$((SECONDS + 480))
  until [ -e "$FOLDER/os/ready" ]; do
    runs "$(cat "$FOLDER/pid")" || { tail -n 5 "$FOLDER/log" >&2; fail "it ended; its logs are in $FOLDER/os/log"; }
    [ "$SECONDS" -lt "$end" ] || fail "it is not ready; its logs are in $FOLDER/os/log"
    sleep 0.5
  done
  write_clouds
  echo "$FOLDER"
}

down() {
  [ -s "$MARK" ] || return 0
  FOLDER=$(cat "$MARK")
  if [ -s "$FOLDER/pid" ]; then
    # The first process in there ends with its parent, and everything else with it.
    end_processes "$(cat "$FOLDER/pid")"
  fi
  rm -rf "$FOLDER" "$MARK"
}

status() {
  alive || return 3
  echo "$FOLDER, process $(cat "$FOLDER/pid")"
}

run() { # COMMAND...: in its network
  alive || fail "it is not up"
  local first
  first=$(pgrep -P "$(cat "$FOLDER/pid")" | head -n 1)
  exec nsenter "--net=/proc/${first:?}/ns/net" "$@"
}

command=${1:-}
[ $# = 0 ] || shift
case "$command" in
up | down | status) "$command" ;;
run) run "$@" ;;
folder) cat "$MARK" ;;
*)
  echo "usage: $0 up|down|status|folder|run COMMAND" >&2
  exit 2
  ;;
esac
