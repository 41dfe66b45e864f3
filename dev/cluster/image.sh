#!/bin/bash
# Writes an image that holds one static program to standard output, as an archive that containerd imports.
# usage: image.sh REFERENCE PROGRAM
set -euo pipefail
reference=$1 program=$2
name=$(basename "$program")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tar --create --file "$work/layer.tar" --numeric-owner --owner 0 --group 0 --directory "$(dirname "$program")" "$name"
digest=$(sha256sum "$work/layer.tar" | cut -d ' ' -f 1)
cat > "$work/config.json" << JSON
{"architecture": "$(go env GOARCH)", "os": "linux", "config": {"Entrypoint": ["/$name"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$digest"]}}
JSON
cat > "$work/manifest.json" << JSON
[{"Config": "config.json", "RepoTags": ["$reference"], "Layers": ["layer.tar"]}]
JSON
tar --create --directory "$work" manifest.json config.json layer.tar
