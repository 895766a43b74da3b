# bash completion for invar: verbs, options of the verb, job files and output folders, and the keys of --set.
_invar() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "plan train gather report run status verify doctor bench format version help" -- "$word")
        return
    fi
    case $before in
    -o | --out)
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
        return
        ;;
    --set)
        mapfile -t COMPREPLY < <(compgen -S = -W "$("${COMP_WORDS[0]}" format 2>/dev/null |
            awk -F'`' '/^#/ { section = /^## [a-z_.]+$/ ? substr($0, 4) "." : "" } /^\| `/ { print section $2 }')" -- "$word")
        compopt -o nospace 2>/dev/null
        return
        ;;
    --dump)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
        ;;
    --time | --patience | --sample | --seed | --wait | --heartbeat | --part | --max-failures) return ;;
    esac
    if [[ $word == -* ]]; then
        local options="--quiet --verbose --help"
        case $verb in
        plan) options+=" --out --set" ;;
        train | run)
            options+=" --out --set --time --retry-failed --retry-quarantined --max-failures --fail-fast --wait --heartbeat"
            [ "$verb" = run ] || options+=" --part"
            ;;
        gather) options+=" --set --wait --heartbeat" ;;
        report) options+=" --wait --heartbeat" ;;
        status) options+=" --json --missing --failed --quarantined --watch" ;;
        verify) options+=" --sample --seed" ;;
        doctor) options+=" --json --patience" ;;
        bench) options+=" --set --time --json --dump" ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
        return
    fi
    case $verb in
    plan | train | run)
        mapfile -t COMPREPLY < <(compgen -d -S / -- "$word"; compgen -f -X '!*.y*ml' -- "$word")
        compopt -o nospace 2>/dev/null
        ;;
    bench)
        mapfile -t COMPREPLY < <(compgen -W "M1 M2 M3 M4 gemm peak" -- "$word"; compgen -f -X '!*.y*ml' -- "$word")
        ;;
    help)
        mapfile -t COMPREPLY < <(compgen -W "plan train gather report run status verify doctor bench format version" -- "$word")
        ;;
    gather | report | status | verify | doctor) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    esac
}
complete -F _invar invar
