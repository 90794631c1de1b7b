# Container steps of `docs/install.md`, in a separate network. The caller sets:
#
#   FOLDER    a folder for everything this leaves behind
#   BASE      the image that the container file begins with
#   PROGRAM   the program under test, already built
#   BUILD, RUN, CHECK   the page's commands
#
# Exit code 77: containers cannot run on this machine, and why is the last line.
set -euo pipefail
ip link set lo up
trap 'command podman "${store[@]}" rm --all --force --time 0 >/dev/null' EXIT
files=$(ulimit -Hn)
store=(--root "$FOLDER/store" --runroot "$FOLDER/run" --storage-driver vfs --runtime runc)

# The page's `podman`, with images of this test's own, and with what a machine that is itself a container allows.
podman() {
    case $1 in
    build)
        command podman "${store[@]}" build --quiet --layers=false --isolation chroot \
            --volume /usr:/usr:ro --volume "$FOLDER/built:/built:ro" "${@:2}"
        ;;
    run) command podman "${store[@]}" run --network host --ulimit "nofile=$files:$files" --ulimit nproc=1024:1024 "${@:2}" ;;
    *) command podman "${store[@]}" "$@" ;;
    esac
}

status() { curl --silent --show-error --output "$FOLDER/response" --write-out '%{http_code}\n' http://127.0.0.1:8080/; }

healthy() {
    for _ in {1..600}; do
        podman healthcheck run "$1" >/dev/null 2>&1 && return
        podman container exists "$1"
        sleep 0.1
    done
    echo 'never healthy' >&2
    return 1
}

# --- Replacement for the image with Rust: the tools of this machine, and a cargo with a finished build ---------------
mkdir -p "$FOLDER/base/toolchain"
cat >"$FOLDER/base/toolchain/cargo" <<'CARGO'
#!/bin/sh
[ "$*" = 'build --release --locked -p sluicegate-cli' ] || exit 2
mkdir -p target/release && cp /built target/release/sluicegate
CARGO
chmod 755 "$FOLDER/base/toolchain/cargo"
for folder in bin lib lib64; do
    ln -s "usr/$folder" "$FOLDER/base/$folder"
done
# Copied so often, it had better be small.
strip --strip-debug -o "$FOLDER/built" "$PROGRAM"
printf 'FROM scratch\nCOPY . /\nENV PATH=/toolchain:/usr/bin\n' >"$FOLDER/Containerfile"
podman build -f "$FOLDER/Containerfile" -t "$BASE" "$FOLDER/base" >/dev/null
if ! output=$(podman run --rm --volume /usr:/usr:ro "$BASE" true 2>&1); then
    tail -n 1 <<<"$output"
    exit 77
fi

# --- The page ----------------------------------------------------------------------------------------------
eval "$BUILD" >/dev/null
echo "user: $(podman image inspect --format '{{.User}}' sluicegate)"
cd "$FOLDER"

mkdir rules
cat >rules/rules.yaml <<'RULES'
gateway:
  listen: 0.0.0.0:8080
  upstreams: { demo: builtin }
  routes: [{ path: "/{*rest}", upstream: demo }]
admin: { listen: 127.0.0.1:9900 }
rules: [{ name: two, limits: [2/1h] }]
RULES
cp rules/rules.yaml .
eval "$CHECK" | tail -n 1
eval "$RUN" >log 2>&1 &
run=$!
until id=$(podman ps --quiet) && [[ -n $id ]]; do
    kill -0 "$run"
    sleep 0.1
done
healthy "$id"
echo "statuses: $(status) $(status) $(status)"
echo "runs as: $(awk '/^Uid:/ { print $2 }' "/proc/$(podman inspect --format '{{.State.Pid}}' "$id")/status")"
! podman exec "$id" /bin/sh -c true >/dev/null 2>&1 || echo 'it has a shell'
podman stop --time 45 "$id" >/dev/null
wait "$run"
echo 'stopped on SIGTERM'

id=$(podman run --detach --read-only --volume ./rules:/etc/sluicegate:ro sluicegate 2>/dev/null)
healthy "$id"
echo "statuses: $(status) $(status) $(status)"
sed 's#2/1h#1000/1h#' rules.yaml >rules/next && mv rules/next rules/rules.yaml
for _ in {1..600}; do
    [[ $(status) == 429 ]] || break
    sleep 0.1
done
echo "by other rules: $(status)"
podman stop --time 45 "$id" >/dev/null

id=$(podman run --detach --read-only sluicegate 2>/dev/null)
healthy "$id"
echo "by its own rules: $(status)"
