#!/bin/bash
# In the Debian of openstack.sh: writes the services' settings to /os. Everything listens on loopback, in a network of its own.
# Public endpoints are other ports than the services': the tests put a proxy there. Internal ones are the services' own.
set -euo pipefail
cd /os
mkdir -p log images state/instances placement
SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
(umask 077 && echo "$SECRET" >secret)
IDENTITY=http://127.0.0.1:5000/v3

database() { echo "mysql+pymysql://root@localhost/$1?unix_socket=/os/mysql/socket&charset=utf8"; }

account() { # SECTION USER: how a service logs in at keystone
  printf '[%s]\nauth_url = %s\nauth_type = password\nusername = %s\npassword = %s\nproject_name = service\n' "$1" "$IDENTITY" "$2" "$SECRET"
  printf 'user_domain_name = Default\nproject_domain_name = Default\nregion_name = RegionOne\nvalid_interfaces = internal\n'
  [ "$1" != nova ] || printf 'endpoint_type = internal\n'
  [ "$1" != keystone_authtoken ] || printf 'www_authenticate_uri = %s\ninterface = internal\n' "$IDENTITY"
}

umask 027
cat >keystone.conf <<END
[DEFAULT]
log_file = /os/log/keystone.log
[database]
connection = $(database keystone)
[fernet_tokens]
key_repository = /os/fernet/
[credential]
key_repository = /os/credential/
[token]
provider = fernet
[identity]
# The least that bcrypt takes: the accounts are the tests' own, and each log-in of a module costs one.
password_hash_rounds = 4
END
cat >placement/placement.conf <<END
[DEFAULT]
log_file = /os/log/placement.log
[placement_database]
connection = $(database placement)
[api]
auth_strategy = keystone
$(account keystone_authtoken placement)
END
cat >glance.conf <<END
[DEFAULT]
bind_host = 127.0.0.1
bind_port = 9292
workers = 0
log_file = /os/log/glance.log
[database]
connection = $(database glance)
[glance_store]
stores = file
default_store = file
filesystem_store_datadir = /os/images
[paste_deploy]
flavor = keystone
config_file = /etc/glance/glance-api-paste.ini
$(account keystone_authtoken glance)
END
cat >nova.conf <<END
[DEFAULT]
host = fake1
my_ip = 127.0.0.1
compute_driver = fake.FakeDriver
transport_url = rabbit://guest:guest@127.0.0.1:5672/
enabled_apis = osapi_compute
osapi_compute_listen = 127.0.0.1
osapi_compute_listen_port = 8774
osapi_compute_workers = 1
state_path = /os/state
instances_path = /os/state/instances
log_dir = /os/log
[api]
auth_strategy = keystone
[api_database]
connection = $(database nova_api)
[database]
connection = $(database nova)
[conductor]
workers = 1
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 5
[glance]
api_servers = http://127.0.0.1:9292
[oslo_concurrency]
lock_path = /os/state
[filter_scheduler]
track_instance_changes = false
[oslo_messaging_rabbit]
heartbeat_in_pthread = false
$(account placement placement)
$(account neutron neutron)
$(account service_user nova)
$(account keystone_authtoken nova)
END
cat >neutron.conf <<END
[DEFAULT]
bind_host = 127.0.0.1
bind_port = 9696
core_plugin = ml2
service_plugins = router
transport_url = rabbit://guest:guest@127.0.0.1:5672/
api_workers = 1
rpc_workers = 0
rpc_state_report_workers = 0
log_file = /os/log/neutron.log
state_path = /os/state
notify_nova_on_port_status_changes = true
notify_nova_on_port_data_changes = true
[database]
connection = $(database neutron)
[oslo_concurrency]
lock_path = /os/state
[ml2]
type_drivers = local
tenant_network_types = local
mechanism_drivers = bindall
extension_drivers = port_security
[agent]
root_helper =
$(account nova nova)
$(account keystone_authtoken neutron)
END

# A mechanism driver that binds every port: no agent runs here that could.
python=/usr/lib/python3/dist-packages
cat >$python/modak_bindall.py <<'END'
from neutron_lib import constants
from neutron_lib.plugins.ml2 import api


class BindAll(api.MechanismDriver):
    connectivity = "l2"

    def initialize(self):
        pass

    def bind_port(self, context):
        for segment in context.segments_to_bind[:1]:
            context.set_binding(segment[api.ID], "ovs", {"port_filter": False}, status=constants.PORT_STATUS_ACTIVE)
END
mkdir -p $python/modak_bindall-1.dist-info
printf 'Metadata-Version: 2.1\nName: modak-bindall\nVersion: 1\n' >$python/modak_bindall-1.dist-info/METADATA
printf '[neutron.ml2.mechanism_drivers]\nbindall = modak_bindall:BindAll\n' >$python/modak_bindall-1.dist-info/entry_points.txt
