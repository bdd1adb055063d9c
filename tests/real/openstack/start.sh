#!/bin/bash
# In the Debian and the namespaces of openstack.sh, as the first process of them: starts the services, writes /os/ready when
# they answer, and stays. With its end everything here ends.
set -uo pipefail
cd /os || exit
. /os/scripts/database.sh
rm -f ready mysql/socket
ip link set lo up 2>/dev/null || python3 /os/scripts/loopback.py
export LC_ALL=C.UTF-8 RABBITMQ_NODENAME=rabbit@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT=5672 \
  RABBITMQ_MNESIA_BASE=/os/rabbit RABBITMQ_LOG_BASE=/os/log RABBITMQ_SERVER_START_ARGS="-kernel inet_dist_use_interface {127,0,0,1}" \
  ERL_EPMD_ADDRESS=127.0.0.1
mkdir -p rabbit log
chown -R rabbitmq rabbit
chmod 777 log

started() { # NAME COMMAND...
  local name=$1
  shift
  "$@" >"log/$name.out" 2>&1 </dev/null &
}

answers() { # PORT
  local round
  for round in $(seq 600); do
    ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null || return 0
    sleep 0.2
  done
  echo "nothing answers on port $1 (round $round)" >&2
  exit 1
}

web() { # NAME PORT FILE ARGUMENTS...: a service in uwsgi, with processes: threads block each other
  local name=$1 port=$2 file=$3
  shift 3
  # Connections are not kept: a process serves one at a time.
  started "$name" uwsgi --master --http-socket "127.0.0.1:$port" --plugins python3 --wsgi-file "$file" --processes 2 \
    --die-on-term --add-header 'Connection: close' "$@"
}

start_database || exit 1
started rabbit setpriv --reuid rabbitmq --regid rabbitmq --clear-groups env HOME=/var/lib/rabbitmq rabbitmq-server
web keystone 5000 /usr/bin/keystone-wsgi-public --pyargv "--config-file /os/keystone.conf"
web placement 8778 /usr/bin/placement-api --env OS_PLACEMENT_CONFIG_DIR=/os/placement
answers 5000
[ -e catalogue ] || { python3 /os/scripts/accounts.py && touch catalogue; } || exit 1
started glance glance-api --config-file /os/glance.conf
answers 8778
answers 5672
started neutron neutron-server --config-file /os/neutron.conf
for name in conductor api scheduler compute; do started "nova-$name" "nova-$name" --config-file /os/nova.conf; done
for port in 9292 8774 9696; do answers "$port"; done
for round in $(seq 90); do
  [ ! -e content ] || break # the databases know the host already
  nova-manage --config-file /os/nova.conf cell_v2 discover_hosts >/dev/null 2>&1
  ! nova-manage --config-file /os/nova.conf cell_v2 list_hosts 2>/dev/null | grep -q fake1 || break
  [ "$round" != 90 ] || { echo "nova has no host" >&2; exit 1; }
  sleep 1
done
[ -e content ] || { python3 /os/scripts/content.py && touch content; } || exit 1
touch ready
if [ "${1:-}" = once ]; then # the databases are kept: they are closed in order
  end_database
  exit 0
fi
wait
