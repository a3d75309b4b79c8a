# bash completion for paddock(8)
_paddock() {
    local current=${COMP_WORDS[COMP_CWORD]}
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "web worker scheduler prepare drain setup-link make_setup_link rotate_secrets \
            clear_sign_in_limits check migrate help" -- "$current"))
    fi
}
complete -F _paddock paddock
