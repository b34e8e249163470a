# bash completion for rota
_rota() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    case "$line" in
      :files)
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$2") ;;
      :programs) while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -c -- "$2") ;;
      ?*) COMPREPLY+=("${line%%$'\t'*}") ;;
    esac
  done < <("$1" complete bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _rota rota
