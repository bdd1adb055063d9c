"""What a project finds at its cloud: flavors, an image, a network with a way out."""

from pathlib import Path

import openstack

SECRET = Path("/os/secret").read_text().strip()


def connect(name):
    return openstack.connect(
        auth_url="http://127.0.0.1:5000/v3",
        username=name,
        password=SECRET,
        project_name=name,
        user_domain_name="Default",
        project_domain_name="Default",
        region_name="RegionOne",
        interface="internal",
    )


admin, lab = connect("admin"), connect("lab")
for name, cores, memory in (("m1.small", 2, 2048), ("m1.large", 4, 8192), ("m1.vast", 64, 16384)):
    admin.create_flavor(name, ram=memory, vcpus=cores, disk=1)
# More memory than the fake hypervisor has (nova/virt/fake.py: 800,000 MB).
admin.create_flavor("m1.nowhere", ram=900000, vcpus=2, disk=1)
admin.set_compute_quotas("lab", ram=-1, instances=10, cores=20)
image = Path("/os/image.raw")
image.write_text("not really an image\n")
admin.create_image(
    "debian-12", filename=str(image), disk_format="raw", container_format="bare", visibility="public", wait=True
)
outside = admin.network.create_network(name="outside", **{"router:external": True})
admin.network.create_subnet(
    network_id=outside.id, ip_version=4, cidr="203.0.113.0/24", name="outside", enable_dhcp=False
)
inside = lab.network.create_network(name="inside")
subnet = lab.network.create_subnet(network_id=inside.id, ip_version=4, cidr="10.99.0.0/24", name="inside")
router = lab.network.create_router(name="router", external_gateway_info={"network_id": outside.id})
lab.network.add_interface_to_router(router, subnet_id=subnet.id)
