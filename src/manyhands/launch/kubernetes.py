"""Generates the Kubernetes Job of a run: one indexed pod per node, behind a headless service."""

from typing import Any

from manyhands.config.launch.kubernetes import KubernetesConfig, name_like
from manyhands.errors import ConfigError, Diverged, Stopped
from manyhands.launch.job import Job, Quoted, node_words, to_yaml

SHELL = 'exec "$@" --launch.machine_rank="$JOB_COMPLETION_INDEX"'
# A retry would diverge again. Usage errors are retried: pods that start too late have one.
FINAL = [Diverged.exit_code]
LABEL = "manyhands/job"


def kubernetes_manifest(config: KubernetesConfig, job: Job) -> str:
    """The manifest of a job that continues the run whenever its pods are replaced."""
    faults = [*config.faults(), *job.text_faults()]
    if faults:
        raise ConfigError(faults)
    name = config.job_name or name_like(job.name)
    metadata = {"name": name} | ({"namespace": config.namespace} if config.namespace else {})
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        # Names resolve before pods are ready: that they do is what pods wait for.
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {LABEL: name}},
    }
    batch = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": job_spec(config, job, name),
    }
    documents = [service, batch] if config.nodes > 1 else [batch]
    return to_yaml(documents, job.written_by)


def job_spec(config: KubernetesConfig, job: Job, name: str) -> dict[str, Any]:
    """The Job: an index per node, and which failures are retried."""
    return {
        "completions": config.nodes,
        "parallelism": config.nodes,
        "completionMode": "Indexed",
        # A node that fails ends the others: each failure counts once per node.
        "backoffLimit": config.max_restarts * config.nodes,
        "podFailurePolicy": {
            "rules": [
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": FINAL}},
                {
                    "action": "Ignore",
                    "onExitCodes": {"operator": "In", "values": [Stopped.exit_code]},
                },
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            ]
        },
        "template": {"metadata": {"labels": {LABEL: name}}, "spec": pod_spec(config, job, name)},
    }


def pod_spec(config: KubernetesConfig, job: Job, name: str) -> dict[str, Any]:
    """The pod of a node."""
    volumes: list[dict[str, Any]] = [
        {"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": Quoted(claim)}}
        for number, claim in enumerate(config.volumes)
    ]
    limit = {"sizeLimit": Quoted(config.shared_memory)} if config.shared_memory else {}
    volumes.append({"name": "shared-memory", "emptyDir": {"medium": "Memory", **limit}})
    selector = {label: Quoted(value) for label, value in config.node_selector.items()}
    return {
        "restartPolicy": "Never",
        **({"subdomain": name} if config.nodes > 1 else {}),
        "terminationGracePeriodSeconds": config.grace_s,
        **({"nodeSelector": selector} if selector else {}),
        "containers": [container(config, job, name)],
        "volumes": volumes,
    }


def container(config: KubernetesConfig, job: Job, name: str) -> dict[str, Any]:
    """The container: one launcher, which starts a process per GPU."""
    words = node_words(config, job)
    if config.nodes > 1:
        words = ["/bin/sh", "-c", SHELL, "train", *words, f"--launch.main_address={name}-0.{name}"]
    mounts = [
        {"name": f"claim-{number}", "mountPath": Quoted(path)}
        for number, path in enumerate(config.volumes.values())
    ]
    mounts.append({"name": "shared-memory", "mountPath": "/dev/shm"})
    folder = {"workingDir": Quoted(config.working_dir)} if config.working_dir else {}
    secrets = [{"secretRef": {"name": Quoted(secret)}} for secret in config.secrets]
    variables = [{"name": key, "value": literal(value)} for key, value in config.env.items()]
    return {
        "name": "train",
        "image": Quoted(config.image),
        "command": [literal(word) for word in words],
        **folder,
        **({"envFrom": secrets} if secrets else {}),
        **({"env": variables} if variables else {}),
        "resources": resources(config),
        "volumeMounts": mounts,
    }


def resources(config: KubernetesConfig) -> dict[str, Any]:
    """Requests of a node; GPUs are limits, which Kubernetes also takes for requests."""
    requests: dict[str, Any] = {}
    if config.cpus is not None:
        requests["cpu"] = config.cpus
    if config.mem is not None:
        requests["memory"] = Quoted(config.mem)
    limits = {"nvidia.com/gpu": config.gpus_per_node} if config.gpus_per_node else {}
    named = {"requests": requests, "limits": limits}
    return {name: values for name, values in named.items() if values}


def literal(text: str) -> Quoted:
    """A text that Kubernetes hands on as it is, though it has references such as $(HOME)."""
    return Quoted(text.replace("$", "$$"))
