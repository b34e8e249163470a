package main

import (
	"context"
	"time"

	"github.com/urfave/cli/v2"
)

// completionLimit bounds how many job ids a shell is offered.
const completionLimit = 100

// contextOf bounds what a completion may take: whoever presses Tab does not wait.
func contextOf(c *cli.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.Context, time.Second)
}

const bashCompletion = `_rota_options() {
  case "$1" in
@OPTIONS@  esac
}
_rota() {
  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "@COMMANDS@" -- "$word"))
    return
  fi
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$(_rota_options "$command")" -- "$word")); return ;;
  esac
  case "$command" in
    status|why|logs|cancel|hold|release|requeue|wait) COMPREPLY=($(compgen -W "$(rota complete 2>/dev/null)" -- "$word")) ;;
    help) COMPREPLY=($(compgen -W "@COMMANDS@" -- "$word")) ;;
    completion) COMPREPLY=($(compgen -W "bash zsh fish" -- "$word")) ;;
    submit|plan|validate|run) compopt -o default 2>/dev/null ;;
  esac
}
complete -F _rota rota
`

const zshCompletion = `#compdef rota
_rota_options() {
  case "$1" in
@OPTIONS@  esac
}
_rota() {
  local word=${words[CURRENT]} command=${words[2]}
  if (( CURRENT == 2 )); then
    compadd -- ${=:-@COMMANDS@}
    return
  fi
  if [[ "$word" == -* ]]; then
    compadd -- ${=$(_rota_options "$command")}
    return
  fi
  case "$command" in
    status|why|logs|cancel|hold|release|requeue|wait) compadd -- ${=$(rota complete 2>/dev/null)} ;;
    help) compadd -- ${=:-@COMMANDS@} ;;
    completion) compadd -- bash zsh fish ;;
    *) _files ;;
  esac
}
compdef _rota rota
`

const fishCompletion = `function __rota_options
  set -l words (commandline -opc)
  sh -c 'case "$1" in
@OPTIONS@  esac' sh $words[2] | string split " "
end
complete -c rota -f -n "not __fish_seen_subcommand_from @COMMANDS@" -a "@COMMANDS@"
complete -c rota -f -n "string match -q -- '-*' (commandline -ct)" -a "(__rota_options)"
complete -c rota -f -n "__fish_seen_subcommand_from status why logs cancel hold release requeue wait" -a "(rota complete 2>/dev/null)"
complete -c rota -f -n "__fish_seen_subcommand_from completion" -a "bash zsh fish"
complete -c rota -F -n "__fish_seen_subcommand_from submit plan validate"
`
