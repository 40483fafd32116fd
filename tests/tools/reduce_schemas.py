"""Write tests/kubesim/schemas: what a real API server publishes of the kinds that kubesim serves.

    reduce_schemas.py OPENAPI... CRD... OUT

OPENAPI: documents of /openapi/v3 (kubectl get --raw /openapi/v3/api/v1 > api_v1.json); CRD: the
CustomResourceDefinitions, or JSON of them with `group`, `names` and `versions`, also .json.gz.
OUT: the directory. Only what a validator uses stays, of the kinds in KINDS, and parts in which
nothing here is ever wrong (OPEN) take any field. The same part of two schemas stands there once.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

Schema = dict[str, Any]
KINDS = {
    "core": ("Node", "Namespace", "Pod", "Event", "ResourceQuota", "PersistentVolumeClaim"),
    "core.": ("PersistentVolume",),
    "apps": ("DaemonSet",),
    "policy": ("PodDisruptionBudget", "Eviction"),
    "coordination": ("Lease",),
    "authorization": ("SelfSubjectAccessReview",),
}
BUILT_IN = {kind for kinds in KINDS.values() for kind in kinds}
OPEN = re.compile(
    r"(VolumeSource|Probe|SecurityContext|ManagedFieldsEntry|EnvVar|EnvFromSource|Lifecycle"
    r"|LifecycleHandler|EphemeralContainer|ContainerStatus|NodeConfigStatus|NodeConfigSource)$"
)
# Of custom resources: not the parts of a VM that kubesim takes no notice of.
OPEN_FIELDS = {
    "KubeVirt": {"status", "customizeComponents", "infra", "workloads", "developerConfiguration"},
    "VirtualMachine": {"dataVolumeTemplates"},
}
KEPT = {
    *("type", "required", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern"),
    *("nullable", "$ref", "format"),
}
INT_OR_STRING = {"type": ["integer", "string"]}
ANY: Schema = {"type": "object"}
WORTH = 150  # characters, from which a part that stands twice gets a name


def main(args: list[str]) -> None:
    *sources, out = args
    built_in: dict[str, Schema] = {}
    custom: dict[str, Schema] = {}
    for source in sources:
        path = Path(source)
        raw = path.read_bytes()
        found = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
        if "components" in found:
            built_in.update(of_openapi(found["components"]["schemas"]))
        else:
            kind, schema = of_crd(found)
            custom[kind] = schema
    write(Path(out) / "kubernetes.json", dict(sorted(built_in.items())))
    write(Path(out) / "kubevirt.json", shared(custom))


def of_openapi(schemas: dict[str, Schema]) -> dict[str, Schema]:
    """The kinds wanted, under their own names, and all that they refer to."""
    found: dict[str, Schema] = {}
    todo = [name for name in schemas if is_wanted(name)]
    while todo:
        name = todo.pop()
        short = name.rsplit(".", 1)[-1]
        if short not in found:
            found[short] = dict(ANY) if OPEN.search(name) else reduced(schemas[name])
            text = json.dumps(schemas[name])
            if not OPEN.search(name):
                todo += re.findall(r'"#/components/schemas/([^"]+)"', text)
    return found


def is_wanted(name: str) -> bool:
    return name.startswith("io.k8s.api.") and name.rsplit(".", 1)[-1] in BUILT_IN


def of_crd(crd: Schema) -> tuple[str, Schema]:
    crd = crd.get("spec", crd)
    kind = crd["names"]["kind"]
    whole = crd["versions"][0]["schema"]
    whole = whole.get("openAPIV3Schema", whole)
    return kind, reduced(whole, frozenset(OPEN_FIELDS.get(kind, ())))


def reduced(schema: Schema, opened: frozenset[str] = frozenset()) -> Schema:
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return dict(INT_OR_STRING)
    if len(schema.get("allOf") or []) == 1:
        schema = schema["allOf"][0]
    if {"type": "number"} in schema.get("oneOf", []):  # a quantity
        return {"type": ["string", "number"]}
    out = {key: value for key, value in schema.items() if key in KEPT}
    if out.get("format") not in ("date-time", None):
        del out["format"]
    if "$ref" in out:
        return {"$ref": "#/" + out["$ref"].rsplit(".", 1)[-1].rsplit("/", 1)[-1]}
    if "properties" in schema:
        out["properties"] = {
            name: dict(ANY) if name in opened else reduced(value, opened)
            for name, value in schema["properties"].items()
        }
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            out["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            out[key] = reduced(schema[key], opened)
    return out


def shared(kinds: dict[str, Schema]) -> dict[str, Schema]:
    """Parts that stand in more than one place get a name, the largest first."""
    counted = Counter(text for schema in kinds.values() for text in parts(schema))
    often = {text for text, count in counted.items() if count > 1 and len(text) > WORTH}
    names: dict[str, str] = {}
    found: dict[str, Schema] = {}

    def pointed(schema: Any, top: bool = False) -> Any:
        if isinstance(schema, list):
            return [pointed(one) for one in schema]
        if not isinstance(schema, dict):
            return schema
        text = json.dumps(schema, sort_keys=True)
        if text in often and is_schema(schema) and not top:
            if text not in names:
                names[text] = f"part{len(names) + 1}"
                found[names[text]] = pointed(schema, True)
            return {"$ref": f"#/{names[text]}"}
        return {key: pointed(value) for key, value in schema.items()}

    return {**{kind: pointed(schema) for kind, schema in sorted(kinds.items())}, **found}


def is_schema(value: dict[str, Any]) -> bool:
    """Not the properties of one, of which one may be called `type`."""
    return isinstance(value.get("type"), (str, list))


def parts(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [text for one in schema for text in parts(one)]
    if not isinstance(schema, dict):
        return []
    own = [json.dumps(schema, sort_keys=True)] if is_schema(schema) else []
    return own + [text for value in schema.values() for text in parts(value)]


def write(path: Path, schemas: dict[str, Schema]) -> None:
    """A line for each."""
    rows = [f"{json.dumps(name)}: {json.dumps(value, sort_keys=True)}" for name, value in schemas.items()]
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
