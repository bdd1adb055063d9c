"""Fill keystone's catalogue: the services' accounts and endpoints, and a project with a member."""

from pathlib import Path

import openstack

SECRET = Path("/os/secret").read_text().strip()
SERVICES = [
    # name, type, port, path; a public endpoint is 10000 above the service's own port
    ("nova", "compute", 8774, "/v2.1"),
    ("placement", "placement", 8778, ""),
    ("glance", "image", 9292, ""),
    ("neutron", "network", 9696, ""),
]

cloud = openstack.connect(
    auth_url="http://127.0.0.1:5000/v3",
    username="admin",
    password=SECRET,
    project_name="admin",
    user_domain_name="Default",
    project_domain_name="Default",
    region_name="RegionOne",
    interface="internal",
)
identity = cloud.identity
service = identity.find_project("service") or identity.create_project(name="service", domain_id="default")
roles = [identity.find_role(name) or identity.create_role(name=name) for name in ("admin", "service")]
for name, kind, port, path in SERVICES:
    user = identity.find_user(name) or identity.create_user(name=name, password=SECRET, domain_id="default")
    for role in roles:
        identity.assign_project_role_to_user(service, user, role)
    entry = identity.create_service(name=name, type=kind)
    for interface, number in (("public", 10000 + port), ("internal", port), ("admin", port)):
        url = f"http://127.0.0.1:{number}{path}"
        identity.create_endpoint(service_id=entry.id, interface=interface, url=url, region_id="RegionOne")
project = identity.create_project(name="lab", domain_id="default")
member = identity.create_user(name="lab", password=SECRET, domain_id="default")
identity.assign_project_role_to_user(project, member, identity.find_role("member"))
