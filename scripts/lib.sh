# shellcheck shell=bash
# Functions of the other scripts.  Source this file: it defines functions and KVTIER_ROOT, and does nothing else.

KVTIER_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
KVTIER_VERSION=$(sed -n '/<artifactId>kvtier-parent</,$ s:.*<version>\(.*\)</version>.*:\1:p' "$KVTIER_ROOT/pom.xml" | head -n 1)

say() { printf 'kvtier: %s\n' "$*" >&2; }

die() {
  printf 'kvtier: error: %s\n' "$1" >&2
  shift
  for line in "$@"; do printf '  %s\n' "$line" >&2; done
  exit 1
}

# Prints the word of $2... that is close to the mistyped word $1; prints nothing if none is close.
closest() {
  local word=$1
  shift
  printf '%s\n' "$@" | awk -v word="$word" '
    function smallest(a, b, c) { a = a < b ? a : b; return a < c ? a : c }
    function distance(one, other, i, j, above, row) {
      for (j = 0; j <= length(other); j++) above[j] = j
      for (i = 1; i <= length(one); i++) {
        row[0] = i
        for (j = 1; j <= length(other); j++)
          row[j] = smallest(above[j] + 1, row[j - 1] + 1, above[j - 1] + (substr(one, i, 1) != substr(other, j, 1)))
        for (j = 0; j <= length(other); j++) above[j] = row[j]
      }
      return above[length(other)]
    }
    BEGIN { bare = word; sub(/^-+/, "", bare) }
    {
      known = $0
      sub(/^-+/, "", known)
      far = distance(bare, known)
      if (bare != "" && (index(known, bare) == 1 || index(bare, known) == 1)) far = 0
      if (best == "" || far < least) { best = $0; least = far }
    }
    END { if (best != "" && least <= 1 + int(length(bare) / 4)) print best }'
}

# Ends script $1 as used wrongly: it does not know the word $2, and knows the words $3...
unknown_word() {
  local script=$1 word=$2 kind=argument hint
  shift 2
  case $word in -*) kind=option ;; esac
  hint=$(closest "$word" "$@")
  printf "%s: unknown %s '%s'%s; there are %s\n" "$script" "$kind" "$word" "${hint:+; did you mean $hint?}" "$*" >&2
  exit 2
}

# The feature version (25, 21, ...) of the JDK in folder $1; nothing where there is no JDK.
jdk_feature_version() {
  local home=$1 version=
  [ -x "$home/bin/java" ] && [ -x "$home/bin/javac" ] || return 0
  if [ -r "$home/release" ]; then
    version=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$home/release")
  fi
  if [ -z "$version" ]; then
    version=$("$home/bin/java" -version 2>&1 | sed -n '1s/.*"\([0-9]*\).*/\1/p')
  fi
  printf '%s' "$version"
}

# Sets and exports JAVA_HOME: a JDK 25 or newer.  Prefers the JAVA_HOME given, then the lowest version that will do.
find_jdk25() {
  local home version best='' best_version='' found=''
  if [ -n "${JAVA_HOME:-}" ]; then
    version=$(jdk_feature_version "$JAVA_HOME")
    found=" $JAVA_HOME (JAVA_HOME) is ${version:+JDK }${version:-no JDK}."
    if [ "${version:-0}" -ge 25 ]; then
      export JAVA_HOME
      return 0
    fi
  fi
  for home in /usr/lib/jvm/* /opt/java/* /opt/jdk* "${HOME:-/nonexistent}"/.sdkman/candidates/java/* \
    "${HOME:-/nonexistent}"/.jdks/* /Library/Java/JavaVirtualMachines/*/Contents/Home \
    /opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home; do
    version=$(jdk_feature_version "$home")
    if [ -n "$version" ]; then found="$found $home is JDK $version."; fi
    if [ "${version:-0}" -ge 25 ] && { [ -z "$best" ] || [ "$version" -lt "$best_version" ]; }; then
      best=$home
      best_version=$version
    fi
  done
  if [ -z "$best" ] && command -v javac >/dev/null 2>&1; then
    home=$(dirname "$(dirname "$(readlink -f "$(command -v javac)" 2>/dev/null || command -v javac)")")
    version=$(jdk_feature_version "$home")
    case $found in *" $home is "*) ;; *) found="$found $home is ${version:+JDK }${version:-no JDK}." ;; esac
    if [ "${version:-0}" -ge 25 ]; then best=$home; fi
  fi
  [ -n "$best" ] || die "no JDK 25 or newer found.$found" \
    "Install one (Debian and Ubuntu: openjdk-25-jdk or temurin-25-jdk; macOS: brew install openjdk@25;" \
    "anywhere: sdk install java 25-tem), or set JAVA_HOME to the folder of one."
  export JAVA_HOME=$best
}

# Sets MVN: the mvn command to run.
find_mvn() {
  MVN=${MVN:-mvn}
  command -v "$MVN" >/dev/null 2>&1 || die "no Maven found ('$MVN' is not a command)." \
    "Install Maven 3.8 or newer (Debian and Ubuntu: apt-get install maven; macOS: brew install maven)."
  # Maven's own libraries use Unsafe, of which JDK 25 warns at every start.
  export MAVEN_OPTS="--sun-misc-unsafe-memory-access=allow ${MAVEN_OPTS:-}"
}

# Sets PYTHON3: a Python 3.11 or newer.
find_python3() {
  local candidate version found=''
  for candidate in "${PYTHON3:-}" python3 python3.14 python3.13 python3.12 python3.11; do
    if [ -z "$candidate" ]; then continue; fi
    if ! command -v "$candidate" >/dev/null 2>&1; then
      if [ "$candidate" = "${PYTHON3:-}" ]; then found="$found $candidate (PYTHON3) is no command."; fi
      continue
    fi
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      PYTHON3=$candidate
      return 0
    fi
    version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true)
    found="$found $candidate ${version:+is }${version:-does not run}."
  done
  die "no Python 3.11 or newer found.$found" \
    "Install one (Debian and Ubuntu: apt-get install python3 python3-venv), or set PYTHON3 to one."
}

java_build_is_fresh() {
  local stamp=$KVTIER_ROOT/target/.built module newer
  [ -f "$stamp" ] || return 1
  [ -f "$KVTIER_ROOT/reference/target/kvtier-reference-$KVTIER_VERSION.jar" ] || return 1
  for module in daemon cli bench; do
    [ -f "$KVTIER_ROOT/$module/target/kvtier-$module-$KVTIER_VERSION.jar" ] || return 1
    [ -d "$KVTIER_ROOT/$module/target/lib" ] || return 1
  done
  # A file that was removed shows as a newer folder.
  newer=$(cd "$KVTIER_ROOT" && find pom.xml .mvn config ./*/pom.xml ./*/src/main client-py/src/kvtier/_{crc32c,encoding,exact,fp8,granule}.* -newer "$stamp" -print 2>/dev/null | head -n 1)
  [ -z "$newer" ]
}

# Waits until no other script builds here.  Two scripts started at once: the second finds the build done.
lock_java_build() {
  mkdir -p "$KVTIER_ROOT/target"
  if command -v flock >/dev/null 2>&1; then
    exec 9>"$KVTIER_ROOT/target/.lock"
    if ! flock -n 9; then
      say "waiting for the build that another script has begun here"
      flock 9
    fi
  fi
}

unlock_java_build() {
  if command -v flock >/dev/null 2>&1; then exec 9>&-; fi
}

# Before Maven makes all jars, with the lock of the build.
begin_java_build() {
  touch "$KVTIER_ROOT/target/.building"
  # Maven adds to these folders and takes nothing away: a library of another version would stay on the class path.
  if ! java_build_is_fresh; then rm -rf "$KVTIER_ROOT"/*/target/lib; fi
}

# After Maven has made all jars: build_java finds them.
end_java_build() {
  unpack_natives || return
  train_daemon
  # The stamp is as old as the start of the build, so an edit made during it counts.
  mv "$KVTIER_ROOT/target/.building" "$KVTIER_ROOT/target/.built"
}

# Builds the jars where a source or a pom is newer than the last build.
build_java() {
  if java_build_is_fresh; then return 0; fi
  find_jdk25
  find_mvn
  lock_java_build
  if java_build_is_fresh; then
    unlock_java_build
    return 0
  fi
  say "building the Java modules (the first build downloads its dependencies and takes a few minutes; target/build.log grows meanwhile)"
  begin_java_build
  local code=0
  (cd "$KVTIER_ROOT" && "$MVN" -B -ntp -Dstyle.color=never -Pquick package) >"$KVTIER_ROOT/target/build.log" 2>&1 || code=$?
  if [ "$code" -ne 0 ]; then
    rm -f "$KVTIER_ROOT/target/.building"
    # Maven ends by itself at ^C and SIGTERM, so the shell goes on.
    case $code in 130 | 143)
      say "the Java build was interrupted; the next start builds again"
      exit "$code"
      ;;
    esac
    # With warnings: with -Werror one is the reason for the failure.
    grep -v '^\[INFO\]' "$KVTIER_ROOT/target/build.log" >&2 || cat "$KVTIER_ROOT/target/build.log" >&2
    die "the Java build failed; its reason is above, and all of it is in target/build.log."
  fi
  end_java_build
  unlock_java_build
}

# Flags of every JVM that may open Chronicle's ledger: what it reaches into, and that it reports its use to nobody.
# shellcheck disable=SC2034  # used by who sources this
CHRONICLE_FLAGS=(
  --add-exports=java.base/jdk.internal.ref=ALL-UNNAMED
  --add-exports=java.base/sun.nio.ch=ALL-UNNAMED
  --add-exports=jdk.compiler/com.sun.tools.javac.file=ALL-UNNAMED
  --add-opens=java.base/java.lang=ALL-UNNAMED
  --add-opens=java.base/java.lang.reflect=ALL-UNNAMED
  -Dchronicle.analytics.disable=true
  -Dchronicle.announcer.disable=true
)

# Flags of the daemon's JVM: those of the packages, and the one for a JDK's compiler.
# shellcheck disable=SC2034  # used by who sources this
mapfile -t DAEMON_FLAGS < <(grep -v '^#' "$KVTIER_ROOT/packaging/lib/daemon.flags")
DAEMON_FLAGS+=(--add-exports=jdk.compiler/com.sun.tools.javac.file=ALL-UNNAMED "-Djava.library.path=$KVTIER_ROOT/target/natives")

# RocksDB's library, which it would unpack at each start.
unpack_natives() {
  local folder=$KVTIER_ROOT/target/natives jars=("$KVTIER_ROOT"/daemon/target/lib/rocksdbjni-*.jar) name=
  rm -rf "$folder"
  mkdir -p "$folder" || return
  case $(uname -m) in
    x86_64) name=librocksdbjni-linux64.so ;;
    aarch64) name=librocksdbjni-linux-aarch64.so ;;
  esac
  if [ -n "$name" ] && ! is_musl; then
    (cd "$folder" && "$JAVA_HOME/bin/jar" --extract --file "${jars[0]}" "$name" && mv "$name" librocksdbjni.so)
  fi
}

is_musl() {
  compgen -G '/lib/ld-musl-*' >/dev/null
}

# RocksDB would ask ldd, which takes a quarter of a second.
if ! is_musl; then export ROCKSDB_MUSL_LIBC=${ROCKSDB_MUSL_LIBC:-false}; fi

# Has the JVM write down what a start of the daemon needs, so that all others are quicker.  It works without, too.
train_daemon() {
  local folder cache=$KVTIER_ROOT/target/kvtierd.aot
  rm -f "$cache"
  folder=$(mktemp -d) || return 0
  # The second start finds what the first has left, and is the one that is written down.
  if train_once "$folder" && train_once "$folder" "-XX:AOTCacheOutput=$folder/kvtierd.aot" && [ -s "$folder/kvtierd.aot" ]; then
    chmod 0644 "$folder/kvtierd.aot"
    mv "$folder/kvtierd.aot" "$cache"
  else
    say "no cache for quick starts was made; the daemon starts without"
  fi
  rm -rf "$folder"
}

# Waits until the daemon, process $2, says in file $1 that it is ready, for up to $3 seconds.  Fails where it ends, or is not in time.
wait_ready() {
  local end=$((SECONDS + $3))
  until grep -q '^kvtierd ready' "$1" 2>/dev/null; do
    if [ "$SECONDS" -ge "$end" ] || ! kill -0 "$2" 2>/dev/null; then return 1; fi
    sleep 0.1
  done
}

# One start, some work and stop in folder $1; further arguments are JVM flags.
# The subshell ends its daemon however it ends itself, and neither holds the lock of the build: a build that is
# interrupted here must not keep the next one waiting.
train_once() (
  exec 9>&-
  folder=$1
  daemon=
  shift
  trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true' EXIT
  trap 'exit 143' INT TERM HUP
  mkdir -p "$folder/ssd"
  : >"$folder/log"
  # A service manager that waits for this start hears of the daemon, not of its rehearsal.
  env -u NOTIFY_SOCKET "$JAVA_HOME/bin/java" "${DAEMON_FLAGS[@]}" "$@" -cp "$(class_path daemon)" io.kvtier.daemon.Kvtierd \
    --socket "$folder/sock" --set host.bytes=64MiB --set host.keep=0 --set ssd.bytes=256MiB --set "ssd.directory=$folder/ssd" \
    --set ssd.admission=all --set grpc.port=0 --set http.port=0 --set log.format=human >"$folder/log" 2>&1 </dev/null &
  daemon=$!
  wait_ready "$folder/log" "$daemon" 20 || exit 1
  "$JAVA_HOME/bin/java" --enable-native-access=ALL-UNNAMED -XX:TieredStopAtLevel=1 -cp "$(class_path cli)" \
    io.kvtier.cli.Trainer "$folder/sock" >>"$folder/log" 2>&1 || true
  kill "$daemon" 2>/dev/null || exit 1
  wait "$daemon" || true
  daemon=
)

# The class path of a module that has a main class.
class_path() {
  printf '%s' "$KVTIER_ROOT/$1/target/kvtier-$1-$KVTIER_VERSION.jar:$KVTIER_ROOT/$1/target/lib/*"
}

# The class path of the generator of the reference pages.
reference_class_path() {
  printf '%s' "$KVTIER_ROOT/reference/target/kvtier-reference-$KVTIER_VERSION.jar:$(class_path daemon):$(class_path cli)"
}

# Lets Python import checks/, bench/ and the tests' helpers of this checkout: for `python -P -m checks.MODULE`.
find_checks() {
  export PYTHONPATH=$KVTIER_ROOT:$KVTIER_ROOT/client-py/testing${PYTHONPATH:+:$PYTHONPATH}
}

# Prints the comment at the head of script $1 and ends, where one of the words $2... asks for help.
help_of_head() {
  local script=$1 word
  shift
  for word in "$@"; do
    case $word in
      --help | -h)
        sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$script"
        exit 0
        ;;
    esac
  done
}

# A virtual environment at $1, made again where it was moved or its Python is gone.  After find_python3.
ensure_venv() {
  if ! "$1/bin/python" -c 'import pip' 2>/dev/null; then
    rm -rf "$1"
    "$PYTHON3" -m venv "$1" || die "python3 could not make a virtual environment." \
      "Debian and Ubuntu: apt-get install python3-venv."
  fi
}

# Copies the files of this checkout into folder $1, without ignored ones such as build outputs.
copy_sources() {
  (cd "$KVTIER_ROOT" && git ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' file; do if [ -e "$file" ]; then printf '%s\0' "$file"; fi; done |
    tar --null --no-recursion --files-from=- -cf -) | tar -C "$1" -xf -
}

# Sets DEBIAN: the folder of a bare Debian with systemd and Python, made once, for the containers of checks.
find_debian() {
  local cache=${KVTIER_CHECK_CACHE:-/var/cache/kvtier-check} maker
  DEBIAN=$cache/bookworm
  if [ -d "$DEBIAN" ]; then return 0; fi
  maker=$(command -v mmdebstrap || command -v debootstrap) ||
    die "no mmdebstrap and no debootstrap found." "Debian and Ubuntu: apt-get install mmdebstrap."
  say "making a bare Debian in $cache (some minutes, once)"
  mkdir -p "$cache"
  rm -rf "$DEBIAN.new"
  "$maker" --variant=minbase --include=systemd,python3 bookworm "$DEBIAN.new" >"$cache/debian.log" 2>&1 || {
    tail -n 5 "$cache/debian.log" >&2
    die "the bare Debian was not made; the reason is above, and all of it in $cache/debian.log."
  }
  mv "$DEBIAN.new" "$DEBIAN"
}

# The Python client with what its tests import in target/venv, installed anew each time.  After find_python3.
ensure_tests() {
  local venv=$KVTIER_ROOT/target/venv
  ensure_venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$KVTIER_ROOT/client-py[test]" >&2 ||
    die "the Python client did not install; its reason is above."
}

# UCX for the tests, in target/ucx: the library and its headers.  After find_python3.
ensure_ucx() {
  local ucx=libucx-cu13==1.22.0
  if [ "$(cat "$KVTIER_ROOT/target/ucx/.installed" 2>/dev/null)" = "$ucx" ]; then return 0; fi
  say "installing UCX in target/ucx (43 MB, once)"
  ensure_venv "$KVTIER_ROOT/target/venv"
  rm -rf "$KVTIER_ROOT/target/ucx"
  "$KVTIER_ROOT/target/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
    --target "$KVTIER_ROOT/target/ucx" "$ucx" >&2 || die "UCX did not install; the reason is above."
  echo "$ucx" >"$KVTIER_ROOT/target/ucx/.installed"
}

# Whether no source of the Python client is newer than its installation, which has left the file $1.
client_is_fresh() {
  local newer
  [ -f "$1" ] || return 1
  newer=$(cd "$KVTIER_ROOT/client-py" && find src pyproject.toml setup.py -newer "$1" \
    ! -path '*/__pycache__*' ! -path '*.egg-info*' -print | head -n 1)
  [ -z "$newer" ]
}

# What the Python client needs for gRPC, in the virtual environment $1, which has the client.
ensure_grpc() {
  if "$1/bin/python" -c 'import kvtier.remote' 2>/dev/null; then return 0; fi
  say "installing grpcio and protobuf in $1"
  "$1/bin/python" -m pip install --quiet --disable-pip-version-check "$KVTIER_ROOT/client-py[remote]" >&2 ||
    die "grpcio and protobuf did not install; the reason is above."
}

# The Python client in target/venv-bench, installed anew where a source is newer than the last installation.  After find_python3.
ensure_client() {
  local venv=$KVTIER_ROOT/target/venv-bench
  is_installed() { client_is_fresh "$venv/.installed" && "$venv/bin/python" -c 'import kvtier' 2>/dev/null; }
  if is_installed; then return 0; fi
  mkdir -p "$KVTIER_ROOT/target"
  # Two scripts started at once: the second waits, then finds the installation done.
  if command -v flock >/dev/null 2>&1; then
    exec 8>"$KVTIER_ROOT/target/.lock-venv-bench"
    flock 8
  fi
  if ! is_installed; then
    say "installing the Python client in target/venv-bench (half a minute)"
    ensure_venv "$venv"
    # The stamp is as old as the start of the installation, so an edit made during it counts.
    touch "$venv/.installing"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --force-reinstall \
      "$KVTIER_ROOT/client-py" >&2 || die "the Python client did not install; its reason is above." \
      "It needs a C compiler and Python's headers (Debian and Ubuntu: apt-get install gcc python3-dev)."
    mv "$venv/.installing" "$venv/.installed"
  fi
  if command -v flock >/dev/null 2>&1; then exec 8>&-; fi
}
