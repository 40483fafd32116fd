"""The resources that the simulated API serves."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Kind:
    """One resource. `custom`: served from a CRD, which takes fewer kinds of patches."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    custom: bool = False
    subresources: tuple[str, ...] = ()
    short: tuple[str, ...] = field(default=())

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def head(self) -> dict[str, str]:
        """What each object of it begins with."""
        return {"apiVersion": self.api_version, "kind": self.kind}

    @property
    def qualified(self) -> str:
        """As error messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


_V = "kubevirt.io"
_RBAC = "rbac.authorization.k8s.io"
KINDS = (
    Kind("", "v1", "nodes", "Node", namespaced=False),
    Kind("", "v1", "namespaces", "Namespace", namespaced=False),
    Kind("", "v1", "pods", "Pod", subresources=("eviction",)),
    Kind("", "v1", "events", "Event"),
    Kind("", "v1", "configmaps", "ConfigMap"),
    Kind("", "v1", "resourcequotas", "ResourceQuota"),
    Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    Kind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False),
    Kind("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False),
    Kind("apps", "v1", "daemonsets", "DaemonSet"),
    Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    Kind("coordination.k8s.io", "v1", "leases", "Lease"),
    Kind(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    Kind(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    Kind(_V, "v1", "kubevirts", "KubeVirt", custom=True),
    Kind(_V, "v1", "virtualmachines", "VirtualMachine", custom=True, short=("vm", "vms")),
    Kind(_V, "v1", "virtualmachineinstances", "VirtualMachineInstance", custom=True),
    Kind(_V, "v1", "virtualmachineinstancereplicasets", "VirtualMachineInstanceReplicaSet", custom=True),
    Kind(_V, "v1", "virtualmachineinstancemigrations", "VirtualMachineInstanceMigration", custom=True),
    Kind("migrations.kubevirt.io", "v1alpha1", "migrationpolicies", "MigrationPolicy", namespaced=False, custom=True),
)
BY_PATH = {(k.group, k.version, k.plural): k for k in KINDS}
BY_PLURAL = {k.plural: k for k in KINDS}
NODES, PODS, EVENTS = BY_PLURAL["nodes"], BY_PLURAL["pods"], BY_PLURAL["events"]
CONFIG_MAPS, DAEMON_SETS = BY_PLURAL["configmaps"], BY_PLURAL["daemonsets"]
NAMESPACES, CLAIMS = BY_PLURAL["namespaces"], BY_PLURAL["persistentvolumeclaims"]
VOLUMES, ATTACHMENTS = BY_PLURAL["persistentvolumes"], BY_PLURAL["volumeattachments"]
QUOTAS, PDBS = BY_PLURAL["resourcequotas"], BY_PLURAL["poddisruptionbudgets"]
CLUSTER_ROLES = BY_PLURAL["clusterroles"]
CLUSTER_ROLE_BINDINGS = BY_PLURAL["clusterrolebindings"]
KUBEVIRTS, VMS = BY_PLURAL["kubevirts"], BY_PLURAL["virtualmachines"]
VMIS = BY_PLURAL["virtualmachineinstances"]
REPLICA_SETS = BY_PLURAL["virtualmachineinstancereplicasets"]
VMIMS = BY_PLURAL["virtualmachineinstancemigrations"]
POLICIES = BY_PLURAL["migrationpolicies"]
# No resources of their own: bodies of a subresource, and of a question.
EVICTION = Kind("policy", "v1", "pods/eviction", "Eviction")
REVIEW = Kind("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview")
