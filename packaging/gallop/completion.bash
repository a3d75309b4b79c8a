# bash completion for gallop(8)
_gallop() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    case $previous in
    -s) COMPREPLY=($(compgen -W "stop quit reload reopen" -- "$current")) ;;
    -c | -e) COMPREPLY=($(compgen -f -- "$current")) ;;
    -p) COMPREPLY=($(compgen -d -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "-h -v -V -t -T -q -s -p -e -c -g" -- "$current")) ;;
    esac
}
complete -F _gallop gallop
