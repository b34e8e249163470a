package manual

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
)

// The shells' completions ask `rota complete` what may follow, so that they know the commands and options of the program that is
// installed, and the jobs and nodes of now. It answers a word a line, with a tab and what the word means behind it where there is room
// for that; the lines :files and :programs ask the shell for those. Words reach the shell unread: none of them is expanded.

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

// shells are those that completions are there for, with the file name that each looks for.
var shells = []struct{ name, file, script string }{
	{"bash", "rota.bash", bashCompletion}, {"zsh", "_rota", zshCompletion}, {"fish", "rota.fish", fishCompletion},
}

// printCompletion prints a shell's completion script.
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
