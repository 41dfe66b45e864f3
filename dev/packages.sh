#!/bin/bash
# Installs Debian packages, if any of them is missing. Needs root only then.
# usage: packages.sh PACKAGE...
set -euo pipefail

missing=()
for package in "$@"; do
  if [ "$(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2> /dev/null)" != installed ]; then
    missing+=("$package")
  fi
done
if [ ${#missing[@]} = 0 ]; then exit; fi

install=(apt-get -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends "${missing[@]}")
if ! command -v apt-get > /dev/null || [ "$(id -u)" != 0 ]; then
  echo "missing here: ${missing[*]}. On Debian or Ubuntu, as root: ${install[*]}" >&2
  exit 1
fi
echo "installing Debian packages: ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
"${install[@]}" > /dev/null || { apt-get update > /dev/null && "${install[@]}" > /dev/null; }
