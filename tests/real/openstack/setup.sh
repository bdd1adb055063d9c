#!/bin/bash
# In the Debian of openstack.sh, once: databases, keystone's first account. start.sh fills the catalogue afterwards.
set -euo pipefail
cd /os
. /os/scripts/database.sh
mkdir -p log
mkdir -m 700 mysql
chown mysql mysql
chmod 755 /os
mariadb-install-db --user=mysql --datadir=/os/mysql --auth-root-authentication-method=normal --skip-test-db >/dev/null
start_database
for name in keystone placement glance nova_api nova nova_cell0 neutron; do
  mariadb --socket=/os/mysql/socket -e "create database $name character set utf8"
done
address() { echo "mysql+pymysql://root@localhost/$1?unix_socket=/os/mysql/socket&charset=utf8"; }
keystone=(keystone-manage --config-file /os/keystone.conf)
nova=(nova-manage --config-file /os/nova.conf)
mkdir -m 700 -p fernet credential
"${keystone[@]}" db_sync
"${keystone[@]}" fernet_setup --keystone-user root --keystone-group root
"${keystone[@]}" credential_setup --keystone-user root --keystone-group root
OS_BOOTSTRAP_PASSWORD=$(cat secret) "${keystone[@]}" bootstrap --bootstrap-admin-url http://127.0.0.1:5000/v3 \
  --bootstrap-internal-url http://127.0.0.1:5000/v3 --bootstrap-public-url http://127.0.0.1:15000/v3 --bootstrap-region-id RegionOne
OS_PLACEMENT_CONFIG_DIR=/os/placement placement-manage --config-file /os/placement/placement.conf db sync
glance-manage --config-file /os/glance.conf db_sync
"${nova[@]}" api_db sync
"${nova[@]}" cell_v2 map_cell0 --database_connection "$(address nova_cell0)"
"${nova[@]}" db sync
"${nova[@]}" cell_v2 create_cell --name cell1
neutron-db-manage --config-file /os/neutron.conf upgrade heads
end_database
