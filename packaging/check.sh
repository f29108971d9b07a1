#!/usr/bin/env bash
# Installs what scripts/package has made where nothing else is, and works with it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

usage() {
  cat <<'END'
Usage: scripts/package-check [wheels|tree|maven|files|deb|start]... [--dist FOLDER]
Checks the packages in target/package/dist or in FOLDER. Without a name it runs wheels, tree, files and deb.

  wheels   installs both wheels in an empty virtual environment without Java: the daemon must run and return each byte
  tree     unpacks the .tar.gz into an empty folder and the .deb into an empty root, without Java: the daemon must run and return each byte
  maven    builds a project with an empty Maven repository on the Java client of FOLDER/maven, with sources and Javadoc
  files    builds the packages again in another folder: the bytes must be the same. Units must fit the tar.gz, no file may name a folder of
           this machine, and the runtime must have the modules that the jars use
  deb      installs the .deb in a bare Debian container with systemd: rates the unit; starts, stops, kills and hangs the service; upgrades
           it under load; removes and purges it. Needs root, systemd-nspawn, and mmdebstrap or debootstrap
  start    measures ten starts of the daemon of the .deb until its ready line, without blocks to recover: elapsed and processor time

KVTIER_CHECK_CACHE is the folder that keeps the bare Debian between runs (default: /var/cache/kvtier-check).
END
}

kinds=()
dist=$KVTIER_ROOT/target/package/dist
while [ $# -gt 0 ]; do
  case $1 in
    wheels | tree | maven | files | deb | start) kinds+=("$1") ;;
    --dist) dist=$(realpath "${2:?--dist needs a value}"); shift ;;
    --help) usage; exit 0 ;;
    *) unknown_word package-check "$1" wheels tree maven files deb start --dist --help ;;
  esac
  shift
done
if [ ${#kinds[@]} -eq 0 ]; then kinds=(wheels tree files deb); fi

work=$(mktemp -d "${TMPDIR:-/tmp}/kvtier-check.XXXX")
started=()
container=

finish() {
  local one
  for one in "${started[@]}"; do kill "$one" 2>/dev/null || true; done
  if [ -n "$container" ]; then
    kill -KILL "$container" 2>/dev/null || true
    wait "$container" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

step() { printf '\n== %s\n' "$*"; }
only() {
  local found=("$dist"/$1)
  [ ${#found[@]} -eq 1 ] && [ -e "${found[0]}" ] || die "expected one $1 in $dist, and there are ${#found[@]}: run scripts/package."
  printf '%s' "${found[0]}"
}
# Waits until a command succeeds, $1 seconds at most.
eventually() {
  local seconds=$1 i
  shift
  for ((i = 0; i < seconds * 10; i++)); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.1
  done
  die "not within $seconds s: $*"
}

# Sets the array clean: the environment of a machine without Java, with the commands that a shell needs.
# Arguments: folders of commands that come first on the PATH.
empty_environment() {
  local tools=$work/tools tool path
  if [ ! -d "$tools" ]; then
    mkdir "$tools"
    for tool in sh cat grep sleep mktemp rm mv mkdir dirname readlink kill chmod env; do
      if command -v "$tool" >/dev/null; then ln -s "$(command -v "$tool")" "$tools/$tool"; fi
    done
  fi
  path=$(IFS=:; printf '%s' "$*")
  clean=(env -i "PATH=$path:$tools" "HOME=$work" "XDG_CACHE_HOME=$work/cache" "KVTIER_SOCKET=$work/sock" "TMPDIR=$work")
  if "${clean[@]}" sh -c 'command -v java'; then die "there is a java on the PATH of this check."; fi
}

# Starts the kvtierd of the environment clean with little memory, and waits until it is ready.
start_small() {
  rm -rf "$work/ssd"
  # The ready line of the daemon before must not count: the next one opens its file a moment later.
  : >"$work/out"
  "${clean[@]}" kvtierd --set host.bytes=128MiB --set host.keep=0 --set ssd.bytes=256MiB --set "ssd.directory=$work/ssd" \
    --set grpc.port=0 --set http.port=0 >"$work/out" 2>"$work/err" &
  started+=($!)
  wait_ready "$work/out" "${started[-1]}" 60 || { cat "$work/err" >&2; die "the daemon ended, or was not ready within 60 s; its log is above."; }
  cat "$work/out"
}

stop_small() {
  kill "${started[0]}"
  wait "${started[0]}" || true
  started=()
}

has_version() {
  local said
  said=$("${clean[@]}" "$1" --version)
  printf '%s\n' "$said"
  [ "$said" = "$1 $KVTIER_VERSION" ] || die "$1 says '$said', and the version is $KVTIER_VERSION."
}

check_wheels() {
  step "both wheels in an empty environment, no Java"
  find_python3
  local wheel venv=$work/venv
  "$PYTHON3" -m venv "$venv"
  for wheel in "$(only 'kvtier-*.whl')" "$(only 'kvtierd-*.whl')"; do
    du -h "$wheel" | sed "s:$dist/::"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel"
  done
  empty_environment "$venv/bin"
  has_version kvtierd
  has_version kvtier
  [ "$("${clean[@]}" python -c 'import kvtier; print(kvtier.__version__)')" = "$KVTIER_VERSION" ] || die "the client does not say $KVTIER_VERSION."
  start_small
  "${clean[@]}" python "$KVTIER_ROOT/checks/packages/client.py" put 1000
  "${clean[@]}" python "$KVTIER_ROOT/checks/packages/client.py" get 1000
  "${clean[@]}" kvtier status
  stop_small
  step "the cache for quick starts"
  "${clean[@]}" python -m kvtierd.train
  ls -l "$work/cache/kvtier"
}

# The Python client in an environment of its own.
client_venv() {
  find_python3
  "$PYTHON3" -m venv "$work/client"
  "$work/client/bin/python" -m pip install --quiet --disable-pip-version-check "$(only 'kvtier-*.whl')"
}

unpack_tar() {
  mkdir -p "$work/tar"
  tar -C "$work/tar" --strip-components=1 -xzf "$(only 'kvtier-*-linux-x86_64.tar.gz')"
}

check_tree() {
  local deb
  client_venv
  step "the tar.gz in an empty folder, no Java"
  unpack_tar
  empty_environment "$work/tar/bin"
  works_in_tree
  has_manuals "$work/tar/share"
  step "the .deb in an empty root, no Java"
  deb=$(only 'kvtier_*.deb')
  dpkg-deb --field "$deb" Package Version Maintainer
  [ "$(dpkg-deb --field "$deb" Version)" = "$KVTIER_VERSION" ] || die "the .deb is not of version $KVTIER_VERSION."
  mkdir -p "$work"/root/var/lib/dpkg/{info,updates,triggers}
  : >"$work/root/var/lib/dpkg/status"
  if [ "$(id -u)" = 0 ]; then
    # The package is only unpacked: its scripts start a service, which the check 'deb' tests.
    dpkg --root="$work/root" --force-depends --unpack "$deb" >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log"; die "the .deb was not unpacked."; }
    # The scripts of the package would write the configuration files.
    if dpkg --root="$work/root" --verify kvtier | grep -v ' c /etc/'; then die "the .deb is not unpacked as it was packed."; fi
  else
    dpkg-deb -x "$deb" "$work/root"
  fi
  empty_environment "$work/root/usr/bin"
  works_in_tree
  gzip -dc "$work/root/usr/share/doc/kvtier/changelog.Debian.gz" | sed -n 1p
  [ -s "$work/root/usr/share/doc/kvtier/NOTICE" ] || die "the .deb has no NOTICE."
  has_manuals "$work/root/usr/share"
}

# The manual pages and completions of both commands, below $1.
has_manuals() {
  local file
  for file in man8/kvtierd.8 man5/kvtier.yaml.5 man1/kvtier.1 man1/kvtier-top.1; do
    gzip -t "$1/man/$file.gz" || die "there is no manual page $file."
  done
  for file in {bash-completion/completions/,zsh/vendor-completions/_}kvtier{,d} fish/vendor_completions.d/kvtier{,d}.fish; do
    [ -s "$1/$file" ] || die "there is no completion $file."
  done
}

works_in_tree() {
  has_version kvtierd
  has_version kvtier
  start_small
  KVTIER_SOCKET=$work/sock "$work/client/bin/python" "$KVTIER_ROOT/checks/packages/client.py" put 1000
  KVTIER_SOCKET=$work/sock "$work/client/bin/python" "$KVTIER_ROOT/checks/packages/client.py" get 1000
  "${clean[@]}" kvtier status
  stop_small
}

check_maven() {
  step "the Java client in an empty Maven repository"
  find_jdk25
  find_mvn
  local project=$work/project jar
  [ -d "$dist/maven" ] || die "there is no $dist/maven: scripts/release makes it."
  for jar in protocol client; do
    for kind in "" -sources -javadoc; do
      unzip -tqq "$dist/maven/io/kvtier/kvtier-$jar/$KVTIER_VERSION/kvtier-$jar-$KVTIER_VERSION$kind.jar" || die "kvtier-$jar has no good $kind.jar."
    done
  done
  mkdir "$project"
  cat >"$project/pom.xml" <<END
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>check</groupId>
  <artifactId>check</artifactId>
  <version>1</version>
  <repositories><repository><id>kvtier-check</id><url>file://$dist/maven</url></repository></repositories>
  <dependencies>
    <dependency><groupId>io.kvtier</groupId><artifactId>kvtier-client</artifactId><version>$KVTIER_VERSION</version></dependency>
  </dependencies>
</project>
END
  cat >"$project/Check.java" <<'END'
import io.kvtier.client.*;
import java.lang.foreign.*;
import java.util.*;

void main() {
  try (KvtierClient client = KvtierClient.builder().build(); Arena arena = Arena.ofShared()) {
    client.connect();
    Namespace cache = client.namespace("package-check-java", 65536, Map.of());
    Keys keys = Keys.of(new byte[] {1}, new byte[] {2});
    List<MemorySegment> blocks = List.of(arena.allocate(65536), arena.allocate(65536));
    blocks.get(1).fill((byte) 7);
    client.blocking().put(cache, keys, blocks);
    blocks.get(1).fill((byte) 0);
    BatchResult got = client.blocking().get(cache, keys, blocks);
    byte last = blocks.get(1).get(ValueLayout.JAVA_BYTE, 65535);
    System.out.println(got.run() + " blocks, last byte " + last);
    System.exit(got.run() == 2 && last == 7 ? 0 : 1);
  }
}
END
  "$MVN" -B -ntp -q -f "$project/pom.xml" "-Dmaven.repo.local=$work/m2" dependency:copy-dependencies -DincludeScope=runtime \
    "-DoutputDirectory=$project/lib" >"$work/maven.log" 2>&1 || {
    cat "$work/maven.log" >&2
    die "Maven did not take the Java client from the release."
  }
  unpack_tar
  empty_environment "$work/tar/bin"
  start_small
  KVTIER_SOCKET=$work/sock "$JAVA_HOME/bin/java" --enable-native-access=ALL-UNNAMED -cp "$project/lib/*" "$project/Check.java"
  stop_small
}

check_files() {
  step "the same input gives the same bytes"
  # The copy has only the sources: in this folder the present build would be packed again.
  local again=$work/again name
  only 'kvtier-*-linux-x86_64.tar.gz' >/dev/null
  mkdir "$again"
  copy_sources "$again"
  local made=(tar deb wheels)
  if compgen -G "$dist/kvtier-*-oci.tar" >/dev/null; then made+=(image); fi
  if compgen -G "$dist/kvtier-*.tgz" >/dev/null; then made+=(chart); fi
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$KVTIER_ROOT" log -1 --format=%ct)} \
    KVTIER_REVISION=${KVTIER_REVISION:-$(git -C "$KVTIER_ROOT" describe --always --abbrev=40 --match= --dirty)} "$again/scripts/package" "${made[@]}"
  for name in "$dist"/*; do
    cmp "$name" "$again/target/package/dist/$(basename "$name")"
    sha256sum "$name" | sed "s:$dist/::"
  done
  step "the units of the tar.gz name what is in it"
  mkdir -p "$work/files/tar"
  tar -C "$work/files/tar" --strip-components=1 -xzf "$(only 'kvtier-*-linux-x86_64.tar.gz')"
  for name in $(grep -hoE '^Exec[A-Za-z]*=.*' "$work"/files/tar/share/systemd/*.service | grep -oE '/(opt|usr|etc)/[^ ]+'); do
    case $name in
      /opt/kvtier/*) [ -e "$work/files/tar/${name#/opt/kvtier/}" ] || die "a unit of the tar.gz names $name, which is not in it." ;;
      *) die "a unit of the tar.gz names $name, which is not below /opt/kvtier." ;;
    esac
    printf '%s\n' "$name"
  done
  step "the documents' links lead somewhere"
  find_python3
  find_checks
  "$PYTHON3" -P -m checks.packages.contents links "$work/files/tar/share/doc/kvtier"
  step "no file names a folder or a registry of this machine"
  local places=("$KVTIER_ROOT") found
  if [ -n "${HOME:-}" ] && [ "$HOME" != / ]; then places+=("$HOME/"); fi
  find_python3
  for name in $("$PYTHON3" -m pip config get global.index-url 2>/dev/null || true) \
    $(sed -n 's:.*<url>\(.*\)</url>.*:\1:p' "${HOME:-}/.m2/settings.xml" 2>/dev/null || true); do
    places+=("$(sed -E 's,^[a-z]+://([^@/]*@)?([^/:]*).*,\2,' <<<"$name")")
  done
  dpkg-deb -R "$(only 'kvtier_*.deb')" "$work/files/deb"
  for name in "$dist"/*.whl; do "$PYTHON3" -m zipfile -e "$name" "$work/files/$(basename "$name")"; done
  while IFS= read -r name; do
    mkdir -p "$work/files/jars/$(basename "$name")"
    (cd "$work/files/jars/$(basename "$name")" && "$PYTHON3" -m zipfile -e "$name" .)
  done < <(find "$work/files/deb" -name 'kvtier*.jar')
  for name in "${places[@]}"; do
    found=$(grep -rlF -- "$name" "$work/files" || true)
    [ -z "$found" ] || die "a folder or registry of this machine is named in:" "$found"
  done
  printf 'none of %s places\n' "${#places[@]}"

  step "the runtime has the modules that the jars use"
  find_jdk25
  local classes=$work/classes used missing
  mkdir "$classes"
  for name in "$work"/files/deb/usr/lib/kvtier/jars/*.jar; do
    # 11: a jar without classes.
    unzip -qqo "$name" '*.class' -x 'module-info.class' 'META-INF/*' -d "$classes" || [ $? -eq 11 ] || die "$name was not unpacked."
  done
  used=$("$JAVA_HOME/bin/jdeps" --multi-release 25 --ignore-missing-deps --print-module-deps -q "$classes" 2>"$work/jdeps.log") || {
    cat "$work/jdeps.log" >&2
    die "jdeps did not say which modules the jars use; the reason is above."
  }
  # Without java.base in the list, jdeps has read no class.
  case ",$used," in *,java.base,*) ;; *) die "jdeps found no class in the jars of the .deb: '$used'." ;; esac
  # Unused code reaches these modules: annotations for checkers, adapters of loggers, debuggers, compilers and desktops.
  missing=$(tr , '\n' <<<"$used" |
    grep -vxFf <(grep -v '^#' "$KVTIER_ROOT/packaging/modules") | grep -vxE 'java\.desktop|java\.rmi|java\.prefs|java\.scripting|jdk\.(attach|compiler|jdi|unsupported\.desktop)' || true)
  [ -z "$missing" ] || die "the jars use modules that packaging/modules lacks:" "$missing"
  grep -vc '^#' "$KVTIER_ROOT/packaging/modules"
}

# Runs a command in the container, without a terminal.
inside() { nsenter --target "$leader" --all --root --wd env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"; }
client() { inside KVTIER_SOCKET=/run/kvtier/kvtier.sock PYTHONPATH=/opt/client python3 /opt/client.py "$@"; }
state() { inside systemctl show kvtierd --property "$1" --value; }
is_state() { [ "$(state "$1")" = "$2" ]; }
fresh_start() { [ "$(state MainPID)" != "$1" ] && is_state ActiveState active; }

boot() {
  [ "$(id -u)" = 0 ] || die "a bare Debian is made and started by root alone."
  command -v systemd-nspawn >/dev/null || die "no systemd-nspawn found." "Debian and Ubuntu: apt-get install systemd-container."
  local root=$work/root
  find_debian
  cp -a "$DEBIAN" "$root"
  mkdir -p "$root/opt/client"
  find_python3
  "$PYTHON3" -m zipfile -e "$(only 'kvtier-*.whl')" "$root/opt/client"
  cp "$KVTIER_ROOT/checks/packages/client.py" "$root/opt/"
  cp "$1" "$root/opt/kvtier.deb"
    systemd-nspawn --quiet --register=no --keep-unit --private-network --directory "$root" --boot </dev/null >"$work/boot.log" 2>&1 &
  container=$!
  eventually 30 pgrep -P "$container"
  leader=$(pgrep -P "$container" | head -n 1)
  eventually 60 inside systemctl is-system-running --wait
}

check_deb() {
  local older newer before files
  older=$(only 'kvtier_*.deb')
  step "a newer package of the same tree"
  "$KVTIER_ROOT/scripts/package" deb --version "$KVTIER_VERSION+check1" --out "$work/newer"
  newer=$(echo "$work"/newer/*.deb)
  du -h "$older" | sed "s:$dist/::"

  step "a bare Debian"
  boot "$older"
  inside sh -c '. /etc/os-release; echo "$PRETTY_NAME, systemd $(systemctl --version | sed -n 1p)"; command -v java || echo "no java"'
  # The list has /var, too, where dpkg keeps its own files after a removal.
  inside sh -c 'find / -xdev \( -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /var/log -o -path /var/lib/systemd -o -path "/var/cache/*" -o -path "/etc/*-" \) -prune -o -print | sort' >"$work/files.before"

  step "installed"
  inside dpkg -i /opt/kvtier.deb
  inside dpkg --audit
  inside sh -c 'id kvtier; ls -l /usr/lib/kvtier/*.aot; ls -ld /etc/kvtier/kvtier.yaml /run/kvtier /var/cache/kvtier /var/lib/kvtier'

  step "the unit"
  inside systemd-analyze verify --man=no kvtierd.service kvtier.target
  echo "verified"
  inside systemd-analyze security --offline=true /usr/lib/systemd/system/kvtierd.service | tail -n 1
  is_state ActiveState active || { inside journalctl --no-pager -u kvtierd | tail -n 40; die "the service was not started by the installation."; }
  inside systemctl --no-pager status kvtierd | sed -n '1,14p'
  inside sh -c 'systemctl is-enabled kvtierd kvtier.target; systemctl is-active kvtier.target; stat -c "%A %U:%G %n" /run/kvtier/kvtier.sock'

  step "blocks come back"
  client put 2000
  client get 2000
  inside kvtier status
  # A member of the group may, another user may not.
  inside sh -c 'useradd --system member && usermod -aG kvtier member && useradd --system stranger'
  inside setpriv --reuid member --regid member --init-groups kvtier tiers >/dev/null
  echo "a member of the group is let in"
  if inside setpriv --reuid stranger --regid stranger --init-groups kvtier tiers >/dev/null 2>&1; then die "a stranger was let in."; fi
  echo "a stranger is not"

  step "reloaded"
  inside sed -i 's/^host:/host:\n  policy: s3fifo/' /etc/kvtier/kvtier.yaml
  inside systemctl reload kvtierd
  eventually 10 inside sh -c 'journalctl --no-pager -o cat -u kvtierd | grep "configuration read again: 1 changed"'
  eventually 10 is_state ActiveState active
  inside journalctl --no-pager -o cat -u kvtierd | grep 'changed host.policy'

  step "stopped and started: the memory is kept"
  inside systemctl stop kvtierd
  inside systemctl start kvtierd
  client get 2000
  inside journalctl --no-pager -o cat -u kvtierd | grep 'found .* in memory' | tail -n 1

  step "killed: started again, the memory is kept"
  before=$(state MainPID)
  inside sh -c "kill -KILL $before"
  eventually 60 fresh_start "$before"
  client get 2000

  step "hung: the watchdog has it written where it hangs, and started again"
  inside sh -c 'mkdir -p /run/systemd/system/kvtierd.service.d; printf "[Service]\nWatchdogSec=3\nTimeoutAbortSec=3\n" >/run/systemd/system/kvtierd.service.d/check.conf; systemctl daemon-reload; systemctl restart kvtierd'
  before=$(state MainPID)
  # A debugger's call stops the thread of the index; all other threads run on.
  hang_index "$before"
  eventually 60 fresh_start "$before"
  inside journalctl --no-pager -o cat -u kvtierd | grep -E 'makes no progress|Watchdog timeout|"kvtier-index"' | sort | uniq -c | sed -n '1,5p'
  inside sh -c 'rm -r /run/systemd/system/kvtierd.service.d; systemctl daemon-reload; systemctl restart kvtierd'
  client get 2000

  step "upgraded in place under load, with an edited configuration"
  inside sh -c 'printf "\ncopy:\n  threads: 2\n" >>/etc/kvtier/kvtier.yaml'
  before=$(state MainPID)
  client load /opt/enough >"$work/load" 2>&1 &
  started+=($!)
  sleep 3
  cp "$newer" "$work/root/opt/kvtier.deb"
  inside dpkg -i /opt/kvtier.deb
  eventually 60 fresh_start "$before"
  sleep 3
  touch "$work/root/opt/enough"
  wait "${started[-1]}" || { cat "$work/load"; die "what was accepted is not all there."; }
  started=()
  cat "$work/load"
  client get 2000
  inside grep -c 'threads: 2' /etc/kvtier/kvtier.yaml
  inside dpkg-query -W kvtier

  step "removed: neither a process nor memory is left, the configuration is"
  inside dpkg -r kvtier
  if inside sh -c 'for p in /proc/[0-9]*; do if [ "$(stat -c %U $p 2>/dev/null)" = kvtier ]; then cat $p/comm; exit 0; fi; done; exit 1'; then
    die "a process of the user kvtier is left."
  fi
  inside sh -c 'test -f /etc/kvtier/kvtier.yaml && test ! -e /usr/lib/kvtier && test ! -e /run/kvtier && echo "so it is"'

  step "purged: what is left"
  inside sh -c 'echo key >/etc/kvtier/object.key'
  inside dpkg -P kvtier
  # A file that is not the package's must stay.
  inside rm /etc/kvtier/object.key
  inside sh -c 'test -z "$(ls -A /etc/kvtier)"'
  inside rmdir /etc/kvtier
  inside userdel member
  inside userdel stranger
  inside sh -c 'find / -xdev \( -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /var/log -o -path /var/lib/systemd -o -path "/var/cache/*" -o -path "/etc/*-" \) -prune -o -print | sort' >"$work/files.after"
  files=$(comm -13 "$work/files.before" "$work/files.after" | grep -vE '^/(opt/|var/cache$)|__pycache__|^/root' || true)
  [ -z "$files" ] || die "files are left:" "$files"
  inside sh -c 'test ! -e /var/cache/kvtier && test ! -e /var/lib/kvtier && test ! -e /etc/kvtier'
  echo "no file; the user: $(inside getent passwd kvtier)"
}

# Stops the thread of the index, and nothing else.
hang_index() {
  inside python3 - "$1" <<'PYTHON'
import ctypes, os, sys, time
process = int(sys.argv[1])
threads = {open(f"/proc/{process}/task/{task}/comm").read().strip(): int(task) for task in os.listdir(f"/proc/{process}/task")}
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
if os.fork() == 0:
    # The thread stands while its tracer lives.
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        if libc.ptrace(request, threads["kvtier-index"], None, None):
            sys.exit(f"ptrace: {os.strerror(ctypes.get_errno())}")
    os.setsid()
    for descriptor in range(3):
        os.close(descriptor)
    time.sleep(60)
PYTHON
}

# The fifth of ten numbers.
median() { printf '%s\n' "$@" | sort -n | sed -n 5p; }

check_start() {
  step "starts to the ready line, ms"
  local tree=$work/tree i from to ticks times=() processor=()
  dpkg-deb -x "$(only 'kvtier_*.deb')" "$tree"
  "$tree/usr/lib/kvtier/train"
  for ((i = 0; i < 10; i++)); do
    rm -rf "$work/start"
    mkdir "$work/start"
    : >"$work/start/out"
    from=$(date +%s%N)
    "$tree/usr/bin/kvtierd" --socket "$work/start/sock" --set host.keep=0 --set "ssd.directory=$work/start/ssd" --set grpc.port=0 --set http.port=0 \
      >"$work/start/out" 2>"$work/start/err" &
    started=($!)
    until grep -q '^kvtierd ready' "$work/start/out"; do
      kill -0 "${started[0]}" || { cat "$work/start/err"; die "the daemon did not start."; }
      sleep 0.005
    done
    to=$(date +%s%N)
    times+=($(((to - from) / 1000000)))
    # Clock ticks of the process in user mode and in the kernel.
    ticks=$(cut -d' ' -f14,15 "/proc/${started[0]}/stat")
    processor+=($(((${ticks% *} + ${ticks#* }) * 1000 / $(getconf CLK_TCK))))
    kill "${started[0]}"
    wait "${started[0]}" || true
    started=()
  done
  printf '%s\nmedian %s, load %s\n' "${times[*]}" "$(median "${times[@]}")" "$(cut -d' ' -f1 /proc/loadavg)"
  printf 'processor time: %s\nmedian %s\n' "${processor[*]}" "$(median "${processor[@]}")"
}

for kind in "${kinds[@]}"; do "check_$kind"; done
printf '\nall checks passed: %s\n' "${kinds[*]}"
