# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of what the KubeVirt modules share."""

from __future__ import annotations


class ModuleDocFragment:
    """How the API is reached: the options of the collection kubernetes.core."""

    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Path of a kubeconfig, or its content as a dictionary.
      - Environment variable E(K8S_AUTH_KUBECONFIG). Without any of these options the service
        account of the pod is taken, else the default kubeconfig.
    type: raw
  context:
    description: Context of the kubeconfig. Environment variable E(K8S_AUTH_CONTEXT).
    type: str
  host:
    description: URL of the API. Environment variable E(K8S_AUTH_HOST).
    type: str
  api_key:
    description: Bearer token. Environment variable E(K8S_AUTH_API_KEY).
    type: str
  username:
    description:
      - User for HTTP basic authentication. Environment variable E(K8S_AUTH_USERNAME).
    type: str
  password:
    description:
      - Password for HTTP basic authentication. Environment variable E(K8S_AUTH_PASSWORD).
    type: str
  validate_certs:
    description:
      - Whether the server's certificate is checked. Environment variable E(K8S_AUTH_VERIFY_SSL).
    type: bool
    aliases: [verify_ssl]
  ca_cert:
    description:
      - File of the certificate authority. Environment variable E(K8S_AUTH_SSL_CA_CERT).
    type: path
    aliases: [ssl_ca_cert]
  client_cert:
    description: File of a client certificate. Environment variable E(K8S_AUTH_CERT_FILE).
    type: path
    aliases: [cert_file]
  client_key:
    description: File of its key. Environment variable E(K8S_AUTH_KEY_FILE).
    type: path
    aliases: [key_file]
  proxy:
    description: URL of an HTTP proxy. Environment variable E(K8S_AUTH_PROXY).
    type: str
  no_proxy:
    description:
      - Hosts that are reached without the proxy, separated by commas. Environment variable E(K8S_AUTH_NO_PROXY).
    type: str
  proxy_headers:
    description: Headers for the proxy.
    type: dict
    suboptions:
      proxy_basic_auth:
        description:
          - User and password for the proxy, separated by a colon.
          - Environment variable E(K8S_AUTH_PROXY_HEADERS_PROXY_BASIC_AUTH).
        type: str
      basic_auth:
        description:
          - User and password, separated by a colon.
          - Environment variable E(K8S_AUTH_PROXY_HEADERS_BASIC_AUTH).
        type: str
      user_agent:
        description: The user agent. Environment variable E(K8S_AUTH_PROXY_HEADERS_USER_AGENT).
        type: str
  persist_config:
    description:
      - Whether a token that was refreshed is written back to the kubeconfig. Environment variable
        E(K8S_AUTH_PERSIST_CONFIG).
    type: bool
  impersonate_user:
    description: User to act as. Environment variable E(K8S_AUTH_IMPERSONATE_USER).
    type: str
  impersonate_groups:
    description:
      - Groups to act as. Environment variable E(K8S_AUTH_IMPERSONATE_GROUPS), with commas.
    type: list
    elements: str
requirements:
  - kubernetes (Python package), 31 or newer, where the module runs
"""

    RUN = r"""
options:
  run_id:
    description:
      - Identifies the run in annotations, Events and results.
      - Default is made from the time and a random part. Set it in a pipeline to the id of its job, such as
        C(awx_job_id), to find later which job moved or stopped a VM.
      - Use a new one for each run. Of two runs with the same id, one does not notice that the other has taken over.
    type: str
  requester:
    description: Who requests the maintenance. It is written into the annotations. Default is the user of the process.
    type: str
    default: ''
  reason:
    description: Why it is done. It is written into the annotations.
    type: str
    default: ''
"""

    SLICE = r"""
options:
  slice:
    description:
      - Seconds after which one call returns, so that progress can be shown.
      - The work goes on between two calls. There is no need to change it.
    type: int
    default: 15
  begun:
    description: Set by the action plugin from the second slice on.
    type: bool
    default: false
"""

    NODE = r"""
options:
  node:
    description: Name of the node.
    type: str
    required: true
"""

    POLICY = r"""
options:
  on_not_migratable:
    description:
      - What to do with a VM of strategy V(LiveMigrate) that cannot migrate.
      - V(block) leaves it running, and the node is not drained.
      - V(shutdown) deletes its instance, so that the guest is shut down. KubeVirt starts it on another node if its
        C(runStrategy) says so; otherwise it stays off until the node is restored.
      - V(skip) leaves it running. The node is then not certified as drained.
    type: str
    choices: [block, shutdown, skip]
    default: block
  allow_stop:
    description:
      - Whether VMs may be stopped.
      - Without it no VM is ever stopped; it blocks with reason V(StopNotAllowed). That is also
        true of VMs of strategy V(None), which KubeVirt stops when they are evicted.
    type: bool
    default: false
  rules:
    description:
      - What to do with which VMs, in order. The first rule that matches a VM decides; what it does
        not set is left to the VM's own strategy, then to the other options.
      - A rule changes what this run does, never the VM. Where it says V(LiveMigrate) of a VM that
        KubeVirt would stop, the run makes a migration of its own.
      - Needs the Python package C(jmespath) where the module runs.
      - A wrong rule is an error that names it, and nothing is touched.
      - The fields of a document are documented with
        RV(virtops.maintenance.virt_host_info#module:documents).
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the rule, as results show it. Each rule needs a different one.
        type: str
        required: true
      when:
        description:
          - JMESPath on the VM's document. Without it the rule matches all VMs. Only the last rule may omit it.
          - C(run_strategy) and C(autostart) need a request for each VM.
        type: str
      strategy:
        description: The eviction strategy instead of the one that the VM has.
        type: str
        choices: [None, LiveMigrate, LiveMigrateIfPossible, External]
      on_not_migratable:
        description: What to do with these VMs, instead of O(on_not_migratable).
        type: str
        choices: [block, shutdown, skip]
      allow_stop:
        description: Whether these VMs may be stopped, instead of O(allow_stop). V(false) forbids what O(allow_stop)
          allows.
        type: bool
      allow_older_hypervisor:
        description:
          - For rules that libvirt hosts have, too. It has no effect here. QEMU comes with KubeVirt and not with the
            node, and no migration is refused for its version.
        type: bool
      priority:
        description:
          - VMs with a higher priority migrate first. Migrations of a lower one are requested once those have a slot.
            Default is 0.
        type: int
      migration:
        description:
          - The settings that these VMs should migrate with, in the words of
            O(virtops.maintenance.virt_drain#module:rules[].migration).
          - KubeVirt takes them from its own object and from MigrationPolicies, so nothing is set.
            Where what applies to a VM differs, a warning and the VM's C(unmet_settings) (of the
            preflight a finding V(RuleSettingsNotApplied)) say what is wanted, what applies, and
            where it is set.
        type: dict
      hooks:
        description:
          - Task files that the role C(drain) runs for the VM. It is not touched until V(before) was
            answered, and the node is not drained until V(after) was.
          - Paths on the controller, absolute or relative to the directory in which Ansible is started. They are checked
            before anything is done.
          - Without the role see RV(virtops.maintenance.kubevirt_drain#module:needs) and
            O(virtops.maintenance.kubevirt_drain#module:hooks_done).
          - Only M(virtops.maintenance.kubevirt_drain) waits for them. Plans and preflights ignore them.
        type: dict
        suboptions:
          before:
            description: Run before the VM is moved, stopped, or left to its owner.
            type: str
          after:
            description:
              - Run when the VM has arrived or was stopped, and again when a restore has started it.
            type: str
      unknown:
        description:
          - What to do with a VM for which O(rules[].when) has no answer, because a value is not
            known.
          - V(block) leaves it where it is, with reason V(Undecided).
          - V(match) applies the rule. V(next) goes on with the next rule.
          - Default is V(block).
        type: str
        choices: [block, match, next]
  pods:
    description:
      - The other pods of the node. The options are those of C(kubectl drain).
      - They never apply to pods of VMs; attachment pods go with their VM, and launcher pods that have ended are
        removed.
      - A pod with Cluster API's label C(cluster.x-k8s.io/drain=skip) stays. One with V(wait-completed) is not evicted;
        the drain waits until it has completed, for C(drain_timeout) at most.
    type: dict
    default: {}
    suboptions:
      selector:
        description:
          - Label selector. Pods that it does not match stay. Default is all pods.
        type: str
        default: ''
      ignore_daemonsets:
        description:
          - Leave pods of DaemonSets where they are. V(false) makes them an error, as they are for C(kubectl drain).
            Unlike there it is the default, because virt-handler is one.
        type: bool
        default: true
      delete_emptydir_data:
        description: Evict pods that have an emptyDir too. Its data is lost.
        type: bool
        default: false
      force:
        description: Evict pods that have no controller, or whose DaemonSet is gone, too.
        type: bool
        default: false
      grace_period:
        description: Seconds for each pod to end. V(-1) is the pod's own.
        type: int
        default: -1
      disable_eviction:
        description: Delete pods instead of evicting them, in spite of all PodDisruptionBudgets.
        type: bool
        default: false
      skip_wait_for_delete_timeout:
        description:
          - Do not wait for pods that have been terminating for longer than this, in seconds. V(0) waits for all.
        type: int
        default: 0
"""

    SEVERITY = r"""
options:
  severity:
    description:
      - How severe single codes of the preflight are. Maps a code to V(blocker), V(warning) or V(ignore).
      - A code that is not named keeps its default. The collection's docs/reasons.md has all codes
        with their defaults.
      - In a drain only check mode uses it, because that predicts what M(virtops.maintenance.kubevirt_preflight) finds.
    type: dict
    default: {}
"""

    STOPS = r"""
options:
  force_stop:
    description:
      - Whether a guest that was asked to stop and still runs after O(shutdown_timeout) is powered off. Its pod is then
        given one second. A guest whose eviction was refused was not asked.
    type: bool
    default: false
  shutdown_timeout:
    description:
      - Seconds for a guest to shut down, from when it was asked. KubeVirt itself ends it after its
        C(terminationGracePeriodSeconds).
    type: float
    default: 300.0
"""

    COURSE = r"""
options:
  limits:
    description:
      - How many migrations are requested at once. Default is all, since KubeVirt queues by its own limits, and uses
        them best that way.
    type: dict
    default: {}
    suboptions:
      outbound:
        description: From this node. More than KubeVirt's own limit changes nothing.
        type: int
  max_attempts:
    description:
      - How often one VM's migration is tried in one run. KubeVirt's own retries count.
      - When they are used up, the request is withdrawn from KubeVirt, which would otherwise try for ever.
    type: int
    default: 3
  backoff:
    description:
      - Seconds before the second attempt. Doubled for each further one. KubeVirt waits 20 s and
        more by itself.
    type: float
    default: 5.0
  external_timeout:
    description: Seconds to wait for the owner of a VM with strategy V(External).
    type: float
    default: 300.0
  unknown_timeout:
    description:
      - Seconds to wait while it is not known whether a VM can migrate, or while no other node
        takes VMs.
    type: float
    default: 60.0
  pending_timeout:
    description: Seconds to wait for what holds up the node or a VM, such as a read that fails, a target pod that does
      not start, or a volume that is still attached. A wait for a slot does not count.
    type: float
    default: 300.0
  drain_timeout:
    description: Seconds for the whole node. After that nothing new is started.
    type: float
    default: 3600.0
"""
