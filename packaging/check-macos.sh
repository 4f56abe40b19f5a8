#!/bin/sh
# Checks on Linux that ekiden compiles for macOS. Nothing is linked or run.
#
# Needs a compiler of 1.95 or newer with the sources of its own standard library. On Debian:
#     apt-get install rustc-web cargo-web rust-web-src
# RUSTC and CARGO name others. A C compiler for macOS comes from PyPI, into target/macos.
set -eu
cd "$(dirname "$0")/.."
root=$PWD/target/macos
target=${1:-aarch64-apple-darwin}

if ! [ -x "$root/zig/bin/python" ]; then
    python3 -m venv "$root/zig"
    "$root/zig/bin/pip" install --quiet ziglang==0.17.1
fi
case $target in
    aarch64-*) zig_target=aarch64-macos ;;
    *) zig_target=x86_64-macos ;;
esac
# The flags by which clang is told the target are not zig's.
cat >"$root/cc" <<END
#!/bin/sh
for word; do
    shift
    case \$word in
        --target=* | -arch | arm64 | x86_64 | -mmacosx-version-min=*) ;;
        *) set -- "\$@" "\$word" ;;
    esac
done
exec "$root/zig/bin/python" -m ziglang cc -target $zig_target "\$@"
END
printf '#!/bin/sh\nexec "%s" -m ziglang ar "$@"\n' "$root/zig/bin/python" >"$root/ar"
chmod +x "$root/cc" "$root/ar"

name=$(echo "$target" | tr - _)
# The standard library is built from its sources, which a stable compiler allows only with this.
export RUSTC_BOOTSTRAP=1 RUSTC="${RUSTC:-/usr/bin/rustc}" SDKROOT="$root" CARGO_TARGET_DIR="$root"
export "CC_$name=$root/cc" "AR_$name=$root/ar"
exec "${CARGO:-/usr/bin/cargo}" check -Zbuild-std=std,panic_abort,panic_unwind --target "$target" --locked -p ekiden
