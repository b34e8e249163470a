package manual

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
)

// The completion scripts call "rota complete", so that they offer the flags of the installed
// program and the current jobs and nodes. It prints one word per line, followed by a tab and a
// description if the shell shows one. The lines :files and :programs have the shell complete those
// itself. The scripts do not expand the words.

const bashCompletion = `# bash completion for rota
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
`

const zshCompletion = `#compdef rota
# zsh completion for rota
_rota() {
  local line
  local -a found
  while IFS= read -r line; do
    case "$line" in
      :files) _files ;;
      :programs) _command_names ;;
      *$'\t'*) found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
      ?*) found+=("${line//:/\\:}") ;;
    esac
  done < <("${words[1]}" complete zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( ${#found} )); then _describe rota found; fi
}
if [ "${funcstack[1]}" = _rota ]; then _rota "$@"; else compdef _rota rota; fi
`

const fishCompletion = `# fish completion for rota
function __rota_complete
  set -l words (commandline -opc)
  set -l program $words[1]
  set -e words[1]
  set -l word (commandline -ct)
  for line in ($program complete fish -- $words "$word" 2>/dev/null)
    switch $line
      case :files
        __fish_complete_path "$word"
      case :programs
        __fish_complete_command
      case '*'
        echo $line
    end
  end
end
complete -c rota -f -k -a "(__rota_complete)"
`

// shells are the supported shells, with the file name of each completion script.
var shells = []struct{ name, file, script string }{
	{"bash", "rota.bash", bashCompletion}, {"zsh", "_rota", zshCompletion}, {"fish", "rota.fish", fishCompletion},
}

// printCompletion prints the completion script of a shell.
func printCompletion(env *command.Env, c *cli.Context) error {
	for _, s := range shells {
		if c.Args().Len() == 1 && s.name == c.Args().First() {
			_, err := fmt.Fprint(env.Stdout, s.script)
			return err
		}
	}
	return exit.Usagef("name a shell: rota completion bash, zsh or fish")
}

func completeShells(*command.Line) []command.Candidate {
	var found []command.Candidate
	for _, s := range shells {
		found = append(found, command.Candidate{Word: s.name})
	}
	return found
}
