#!/usr/bin/env bash
# The kernels and the models for aarch64, NEON and plain C, built with a cross-compiler and run under qemu: they build
# without a warning, pass the tests of kernels, and give the bits that this machine gives, kernel by kernel and over
# trainings. At -O1, because an optimised build takes longer than all the rest.
set -u
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
work=${TMPDIR:-/tmp}/invar-aarch64.$$
mkdir -p "$work" && trap 'rm -rf "$work"' EXIT
cross=aarch64-linux-gnu-gcc
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64)

missing=
command -v $cross >/dev/null || missing="gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
[ -n "$qemu" ] || missing="$missing qemu-user-static"
if [ -n "$missing" ]; then
    echo "install $missing (tests/deps check)"
    echo "not ok aarch64_has_a_cross_compiler_and_qemu"
    exit 1
fi

failed=0
say() {     # say NAME CODE
    [ "$2" -eq 0 ] && echo "ok $1" || { echo "not ok $1"; failed=1; }
}

# Headers that do not depend on the processor (Random123, xxhash, cblas) may be this machine's.
flags=(-std=gnu11 -O1 -Wall -Wextra -Wconversion -Werror -ffp-contract=off -fno-math-errno -pthread -D_GNU_SOURCE
       -Isrc -I. -I"$BUILD" -Itests -Itests/kern -idirafter /usr/include -idirafter /usr/include/x86_64-linux-gnu)
compile() { $cross "${flags[@]}" "${@:3}" -c "$1" -o "$work/$2.o"; }

build() {
    local source isa precision neon
    for source in src/base/{memory,status,stream,text,float_mode}.c src/job/{keys,kinds,manifold,shape}.c src/task/*.c \
        src/kern/*.c src/model/*.c; do
        [ "$source" = src/kern/isa.c ] || compile "$source" "$(tr / _ <<<"${source%.c}")" || return 1
    done
    for isa in neon scalar; do
        [ $isa = neon ] && neon=-DKERN_NEON || neon=
        for precision in f32 f64; do
            compile src/kern/isa.c ${isa}_$precision $neon -DKERN_ISA=$isa -DKERN_$precision || return 1
        done
    done
    # There is no OpenBLAS for aarch64 here, and what runs below does not call it.
    printf 'void cblas_%cgemm(void);\nvoid cblas_%cgemm(void) {}\n' s s d d >"$work/blas.c"
    compile "$work/blas.c" blas && compile tests/kern/test_kernels.c test_kernels &&
        compile tests/model/test_model_bits.c test_model_bits
}
build
say aarch64_builds_without_a_warning $?
[ $failed -eq 0 ] || exit 1

for test in kern/test_kernels model/test_model_bits; do
    name=$(basename $test)
    objects=$(ls "$work"/*.o | grep -v '/test_')
    $cross -static -pthread "$work/$name.o" $objects -lm -o "$work/$name" &&
        $qemu "$work/$name" >"$work/$name.out" 2>"$work/$name.err"
    code=$?
    cat "$work/$name.out" "$work/$name.err" | sed 's/^\(not \)\?ok/# aarch64: &/'
    say "aarch64_passes_$name" $code
    "$BUILD/tests/$test" 2>&1 | grep '^bits of' >"$work/here"
    grep '^bits of' "$work/$name.err" >"$work/there"
    [ -s "$work/here" ] && diff "$work/here" "$work/there"
    say "aarch64_has_the_bits_of_this_machine_in_$name" $?
done
exit $failed
