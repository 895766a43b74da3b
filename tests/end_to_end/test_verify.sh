#!/usr/bin/env bash
# verify on the command line: every outcome at 1 and 3 ranks, samples, other instruction sets, damaged tiles; it never writes.
. tests/end_to_end/lib.sh

job v 3 4 'axes: {train.lr: [1e-3, 1e6]}'
sed -i 's/, lr: 1e-3}/, target_accuracy: 0.99}/' v.yaml
exits train 0 many 2 train v.yaml -o v --quiet
cp -a v before
exits verify_alone 0 "$INVAR" verify v
says verify_counts 'v: 6 of 6 runs have the bits of their records'
check three_unfinished test "$(grep -cE "^equal .* UNFINISHED$" out.log)" -eq 3
check three_diverged test "$(grep -cE "^equal .* DIVERGED$" out.log)" -eq 3
cp out.log alone.log
exits verify_on_3_ranks 0 many 3 verify v
check same_words_on_3_ranks diff <(grep -E '^(equal|v:)' alone.log) <(grep -E '^(equal|v:)' out.log)
exits sample 0 "$INVAR" verify v --sample 2
check sample_is_of_2 test "$(grep -c '^equal ' out.log)" -eq 2
seed=$(grep -oE -- '--seed [0-9]+' out.log | cut -d' ' -f2)
grep '^equal' out.log >sample.log
exits sample_again 0 "$INVAR" verify v --sample 2 --seed "$seed"
check sample_is_the_same diff sample.log <(grep '^equal' out.log)
exits by_axis 0 "$INVAR" verify v train.lr=0.001 seed=0 seed=2
check by_axis_takes_2 test "$(grep -c '^equal ' out.log)" -eq 2
id=$(awk '/^equal/ { print $2; exit }' alone.log)
exits by_id 0 "$INVAR" verify v "${id:0:8}"
says by_id_takes_it "$id"
exits other_instruction_set 0 env INVAR_ISA=scalar "$INVAR" verify v 0
[ "$("$INVAR" version | sed -n 's/^instruction set: //p')" = scalar ] ||
    says other_instruction_set_is_told 'note     the record was made with instruction set'
exits other_library 0 env OPENBLAS_CORETYPE=Prescott "$INVAR" verify v 1      # its record has no probes
[ -z "$("$INVAR" version | grep DYNAMIC_ARCH | grep -v Prescott)" ] || says other_library_is_told 'now OpenBLAS'
check verify_writes_nothing diff -r before v

truncate -s -1 "$(find v/tiles -name '*.nc' | sort | head -n 1)"
exits damaged_tile 1 "$INVAR" verify v
says damaged_tile_is_said '1 tile file is damaged'
says damaged_run_is_missing 'v: 5 of 5 runs have the bits of their records; 1 not trained yet'
check damaged_tile_stays test "$(tiles v)" -eq 6
exits bad_sample 2 "$INVAR" verify v --sample none
exits nothing_finished 2 sh -c "rm v/tiles/*.nc; $INVAR verify v"
exits no_such_folder 2 many 3 verify nowhere
check one_voice test "$(grep -c 'there is no such folder' out.log)" -eq 1
exit $bad
