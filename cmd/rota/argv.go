package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/jobspec/script"
	"github.com/rota-hpc/rota/jobspec/typo"
)

// flagTable knows which flags a command has.
type flagTable map[string]flagKind

// flagKind is what follows a flag.
type flagKind int

const (
	switchFlag flagKind = iota // nothing
	textFlag
	numberFlag
	maybeFlag // a value behind "=", or nothing
)

func tableOf(flags []cli.Flag) flagTable {
	t := flagTable{"help": switchFlag, "h": switchFlag}
	for _, f := range flags {
		for _, name := range f.Names() {
			t[name] = kindOf(f)
		}
	}
	return t
}

func kindOf(f cli.Flag) flagKind {
	switch f.(type) {
	case *cli.BoolFlag, namedSwitch:
		return switchFlag
	case *cli.IntFlag, *cli.Uint64Flag:
		return numberFlag
	case perhapsFlag:
		return maybeFlag
	}
	return textFlag
}

// check refuses what is no number where one is wanted.
func (k flagKind) check(flag, value string) error {
	if k != numberFlag {
		return nil
	}
	if _, err := strconv.ParseInt(value, 10, 64); err != nil {
		return usagef("%s %s: a whole number is wanted", flag, value)
	}
	return nil
}

// commandLine collects one command's arguments while they are sorted.
type commandLine struct {
	command *cli.Command
	table   flagTable
	flags   []string
	rest    []string
	help    bool
	primary map[string]string // of commands that take sbatch's options: each name's first name; nil for others
	once    map[string]bool   // of commands whose own options are given once: those that were, by first name; nil for others
}

// reorder puts the flags of a command before its arguments, because the flag package stops at the first argument, and a user who
// types `rota logs 3 -f` means the flag. What follows "--" stays as it is. Commands that take a command line of their own (run,
// dev) end their flags at its first word, and so does a batch script, whose arguments follow it. Unknown flags are refused here, with the nearest known one.
func reorder(args []string, app *cli.App) ([]string, error) {
	before, name, after, err := splitCommand(args[1:])
	if err != nil {
		return nil, err
	}
	if name == "" {
		return topLevel(args[0], before)
	}
	command := app.Command(name)
	if command == nil {
		return nil, unknownCommand(name, app)
	}
	command.Flags = knowingNames(command.Flags)
	l := commandLine{command: command, table: tableOf(command.Flags)}
	if likeSbatch(command) {
		l.primary = primaryNames(command.Flags)
	}
	if command.Name == "sim" {
		l.once = map[string]bool{}
	}
	if err := l.sort(append(before, after...), takesCommand(command)); err != nil {
		return nil, err
	}
	if l.help {
		return []string{args[0], "help", "--", command.Name}, nil
	}
	out := append([]string{args[0], command.Name}, l.flags...)
	return append(append(out, "--"), l.rest...), nil
}

// topLevel handles a command line without a command.
func topLevel(program string, flags []string) ([]string, error) {
	for _, f := range flags {
		switch f {
		case "-h", "--help", "-help":
			return []string{program, "help"}, nil
		case "-v", "--version", "-version":
			return []string{program, "version"}, nil
		}
	}
	return nil, usagef("no command given: \"rota help\" lists them")
}

// splitCommand finds the command among args; flags that every command has may stand before it.
func splitCommand(args []string) (before []string, name string, after []string, err error) {
	common := tableOf(commonFlags())
	for i := 0; i < len(args); i++ {
		a := args[i]
		if !isFlag(a) {
			return before, a, args[i+1:], nil
		}
		flag, _, glued := strings.Cut(strings.TrimLeft(a, "-"), "=")
		kind, known := common[flag]
		if !known && flag != "version" && flag != "v" {
			return nil, "", nil, usagef("unknown option %s before the command: options of a command follow it", a)
		}
		before = append(before, a)
		if kind != switchFlag && !glued && i+1 < len(args) {
			i++
			before = append(before, args[i])
		}
	}
	return before, "", nil, nil
}

// isFlag reports whether a looks like a flag; "-" alone is a file name.
func isFlag(a string) bool { return len(a) > 1 && a[0] == '-' }

// takesCommand reports whether the arguments of c are a command line with flags of its own.
func takesCommand(c *cli.Command) bool { return c.Name == "run" || c.Name == "dev" }

func (l *commandLine) sort(args []string, ownCommand bool) error {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			l.rest = append(l.rest, args[i+1:]...)
			return nil
		}
		if !isFlag(a) {
			l.rest = append(l.rest, a)
			if ownCommand || l.primary != nil && len(l.rest) == 1 && namesScript(a) {
				l.rest = append(l.rest, args[i+1:]...)
				return nil
			}
			continue
		}
		used, err := l.flag(a, args[i+1:])
		if err != nil {
			return err
		}
		i += used
	}
	return nil
}

// flag takes one flag, and its value from next if it has one. It returns how many of next it used.
func (l *commandLine) flag(a string, next []string) (int, error) {
	name, value, hasValue := strings.Cut(strings.TrimLeft(a, "-"), "=")
	if l.primary != nil {
		return l.option(a, name, value, hasValue, next)
	}
	kind, known := l.table[name]
	if err := l.again(name); err != nil {
		return 0, err
	}
	switch {
	case !known:
		return 0, l.glued(a, name)
	case name == "help" || name == "h":
		l.help = true
		return 0, nil
	case kind == switchFlag:
		l.flags = append(l.flags, a)
		return 0, nil
	case hasValue:
		l.flags = append(l.flags, a)
		return 0, kind.check(dashed(name), value)
	case len(next) == 0:
		return 0, usagef("%s needs a value: \"rota help %s\" shows how it is used", a, l.command.Name)
	}
	l.flags = append(l.flags, a, next[0])
	return 1, kind.check(a, next[0])
}

// again refuses an option that is there again, of a command whose options describe one thing together: the first would be dropped. Elsewhere, and for
// options that every command has, the last one counts, so that whoever has them in an alias can override them.
func (l *commandLine) again(name string) error {
	if _, common := tableOf(commonFlags())[name]; l.once == nil || common || l.table[name] == switchFlag {
		return nil
	}
	for _, f := range l.command.Flags {
		if _, list := f.(*cli.StringSliceFlag); list || !slices.Contains(f.Names(), name) {
			continue
		}
		first := f.Names()[0]
		if l.once[first] {
			return usagef("%s is there twice", dashed(first))
		}
		l.once[first] = true
	}
	return nil
}

// glued takes -N2 as -N 2, and refuses what is no flag at all.
func (l *commandLine) glued(a, name string) error {
	if strings.HasPrefix(a, "--") || len(a) < 3 || l.table[a[1:2]] == switchFlag {
		return l.unknownFlag(a, name)
	}
	l.flags = append(l.flags, a[:2], a[2:])
	return l.table[a[1:2]].check(a[:2], a[2:])
}

func (l *commandLine) unknownFlag(a, name string) error {
	var names []string
	for n := range l.table {
		names = append(names, n)
	}
	slices.Sort(names)
	e := usagef("rota %s has no option %s", l.command.Name, a)
	switch near := nearest(name, names); {
	case near != "":
		e.hint = fmt.Sprintf("did you mean %s?", dashed(near))
	case l.command.Name == "sim":
		for i := range names {
			names[i] = dashed(names[i])
		}
		e.hint = "its options are " + strings.Join(names, " ")
	case l.command.Name == "run" && ofSbatch(a, name):
		e.hint = fmt.Sprintf("rota submit has %s: rota submit --follow OPTIONS --wrap COMMAND; \"rota help run\" lists what run has", strings.SplitN(a, "=", 2)[0])
	default:
		e.hint = fmt.Sprintf("\"rota help %s\" lists its options", l.command.Name)
	}
	return e
}

// ofSbatch reports whether an argument is an option of sbatch that submit heeds.
func ofSbatch(a, name string) bool {
	return slices.ContainsFunc(script.Flags(), func(s script.Spec) bool {
		short := s.Short != 0 && !strings.HasPrefix(a, "--") && strings.HasPrefix(name, string(s.Short))
		return s.Honoured() && (s.Name == name || slices.Contains(s.Also, name) || short)
	})
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func unknownCommand(name string, app *cli.App) error {
	var names []string
	for _, c := range app.Commands {
		if !c.Hidden {
			names = append(names, c.Names()...)
		}
	}
	e := usagef("there is no command %q", name)
	if foreign, ok := slurmNames[name]; ok {
		e.hint = fmt.Sprintf("what Slurm calls %s is \"rota %s\"", name, strings.ReplaceAll(foreign, "|", "\" or \"rota "))
	} else if other, ok := otherNames[name]; ok {
		e.hint = fmt.Sprintf("did you mean \"rota %s\"?", other)
	} else if near := nearest(name, names); near != "" {
		e.hint = fmt.Sprintf("did you mean \"rota %s\"?", near)
	} else {
		e.hint = "\"rota help\" lists the commands"
	}
	return e
}

// slurmNames helps those who come from Slurm, otherNames those who come from elsewhere. A bar stands between several commands.
var slurmNames = map[string]string{
	"sbatch": "submit", "srun": "run", "squeue": "queue", "scancel": "cancel", "sinfo": "nodes", "sacct": "hist",
	"scontrol": "status|hold|release|requeue|update|node", "sshare": "share", "salloc": "run", "sprio": "why", "sattach": "logs", "seff": "hist",
}

var otherNames = map[string]string{
	"ps": "queue", "ls": "queue", "jobs": "queue", "job": "status", "show": "status", "kill": "cancel", "stop": "cancel", "history": "hist", "info": "nodes",
	"qsub": "submit", "qstat": "queue", "qdel": "cancel",
}

// nearest returns the candidate with the fewest edits from word, or "" when none is near.
func nearest(word string, candidates []string) string {
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
