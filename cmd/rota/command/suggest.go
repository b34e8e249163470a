package command

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/jobspec/typo"
)

// unclearFlag returns the error for a shortened name that fits several flags, or none.
func (c *Command) unclearFlag(options map[string]option, word, name string, fit []string) error {
	if len(fit) == 0 {
		return c.unknownFlag(options, word, name)
	}
	slices.Sort(fit)
	return exit.Usagef("--%s may mean --%s", name, strings.Join(fit, ", --")).WithHint("write the whole name")
}

// unknownFlag returns the error for a flag that the command does not have.
func (c *Command) unknownFlag(options map[string]option, word, name string) error {
	if c.Name == "" {
		return exit.Usagef("unknown option %s before the command: options of a command follow it", word)
	}
	hint := ""
	if near := Nearest(name, slices.Sorted(maps.Keys(options))); near != "" {
		hint = fmt.Sprintf("did you mean %s?", Dashed(near))
	} else if c.FlagHint != nil {
		hint = c.FlagHint(word)
	}
	return exit.Usagef("rota %s has no option %s", c.Name, word).
		WithHint(cmp.Or(hint, fmt.Sprintf("\"rota help %s\" lists its options", c.Name)))
}

// UnknownCommand returns the error for a command that does not exist, with a hint.
func UnknownCommand(name string, commands []*Command) error {
	var names []string
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, c.Names()...)
		}
	}
	hint := "\"rota help\" lists the commands"
	if ours := slurmNames[name]; ours != "" {
		hint = fmt.Sprintf("Slurm's %s is \"rota %s\"", name, strings.ReplaceAll(ours, "|", "\" or \"rota "))
	} else if near := cmp.Or(otherNames[name], Nearest(name, names)); near != "" {
		hint = fmt.Sprintf("did you mean \"rota %s\"?", near)
	}
	return exit.Usagef("unknown command %q", name).WithHint(hint)
}

// slurmNames maps the commands of Slurm to ours, otherNames those of other systems. A bar separates
// alternatives.
var slurmNames = map[string]string{
	"sbatch": "submit", "srun": "run", "squeue": "queue", "scancel": "cancel", "sinfo": "nodes", "sacct": "hist",
	"scontrol": "status|hold|release|requeue|update|node", "sshare": "share", "salloc": "run", "sprio": "why",
	"sattach": "logs",
	"seff":    "hist",
}

var otherNames = map[string]string{
	"ps": "queue", "ls": "queue", "jobs": "queue", "job": "status", "show": "status", "kill": "cancel", "stop": "cancel",
	"history": "hist", "info": "nodes", "qsub": "submit", "qstat": "queue", "qdel": "cancel",
}

// DidYouMean returns a hint that names the word of names that is nearest to a wrong one, "" if none
// is near. The format has one %s for the word.
func DidYouMean(format, wrong string, names []string) string {
	if near := Nearest(wrong, names); near != "" {
		return fmt.Sprintf(format, near)
	}
	return ""
}

// Nearest returns the candidate with the fewest typing errors in word, "" if none is near.
func Nearest(word string, candidates []string) string {
	best, distance := "", 3
	if len(word) <= 4 {
		distance = 2
	}
	for _, c := range candidates {
		if len(c) < 2 {
			continue
		}
		if d := typo.Distance(strings.ToLower(word), c); d < distance && d < len(c) {
			best, distance = c, d
		}
	}
	return best
}

// Dashed returns a flag's name with its hyphens.
func Dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
