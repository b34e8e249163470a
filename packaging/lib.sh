# What the scripts of this folder share. They run in the repository's root.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
GO=${GO:-go}
# Where packages go, one folder for each version.
OUT=${OUT:-dist}
NFPM=bin/nfpm
# The oldest libraries on which the programs run. The build fails where a program needs newer ones.
GLIBC=2.34
SECCOMP=2.5.0
PACKAGES="rota rota-controld rota-noded rota-slurm"

die() { echo "$*" >&2; exit 1; }

# The version of the packages: that of the source with the number of its commits, as a pre-release.
default_version() {
  local release
  release=$(sed -n 's/^const Release = "\(.*\)"/\1/p' controld/api/release.go)
  echo "$release~$(git rev-list --count HEAD)"
}

# The time that files in packages have: that of the commit.
commit_time() { echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"; }

# need TOOL PACKAGE...: tools that are missing are installed by apt as root, else it says what to install.
need() { .ci/setup "$2" "$1"; }

# import_key makes a keyring of its own, in the folder $keys, with the secret key of SIGN_KEY. drop_key removes it.
import_key() {
  keys=$(mktemp -d)
  chmod 700 "$keys"
  gpg --homedir "$keys" --batch --quiet --import "$SIGN_KEY"
}
drop_key() {
  gpgconf --homedir "$keys" --kill gpg-agent 2>/dev/null || true
  rm -rf "$keys"
}
sign() { gpg --homedir "$keys" --batch --quiet --yes --digest-algo SHA256 "$@"; }
