#!/usr/bin/env bash
# What README.md says is so: commands, options, targets, exit codes, the output folder, the Python code.
. tests/end_to_end/lib.sh
readme() { (cd "$TOP" && /usr/bin/python3 -B tests/end_to_end/check_readme.py "$1" README.md "$INVAR" "${@:2}"); }

check commands_are_known readme commands
check job_files_are_shown_as_they_are readme jobs
check exit_codes readme codes
check named_files_are_there readme paths

# A small stand-in for the first job, in the folder that README names: with axes, so that there is a map; with a tile that
# was damaged; and a second one that was stopped in time.
job markov-cores 3 3 'axes: {init.scale.mlp: [0.5, 1]}'
exits small_job 0 many 2 run markov-cores.yaml --quiet
tile=$(find out/markov-cores/tiles -name '*.nc' | sort | head -n 1)
truncate -s 1000 "$tile"
exits small_job_again 0 many 2 run markov-cores.yaml --quiet
job stopped 1 100000
exits stopped_in_time 75 "$INVAR" train stopped.yaml --time 3 --quiet
check output_folder readme layout "$PWD/out/markov-cores" "$PWD/out/stopped"

readme snippet >snippet.py
check python_code_is_there test -s snippet.py
exits python_code_runs 0 /usr/bin/python3 snippet.py
check python_code_prints test -s out.log
exit $bad
