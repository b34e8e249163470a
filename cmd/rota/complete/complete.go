// Package complete finds the words that may follow on a command line, for the completions of
// shells.
package complete

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
)

// Print writes the words that complete a command line: rota complete SHELL -- WORD... An error only
// shortens the list, because an error after Tab would disturb the command line.
func Print(env *command.Env, c *cli.Context, commands []*command.Command) error {
	given := c.Args().Slice()
	if len(given) < 2 {
		return nil
	}
	shell, given := given[0], joinAssignments(given[0], given[1:])
	l := &command.Line{Env: env, Commands: commands, Context: c.Context}
	out := bufio.NewWriter(env.Stdout)
	for _, found := range candidates(l, given[:len(given)-1], given[len(given)-1], shell == "bash") {
		if !strings.HasPrefix(found.Word, ":") && strings.ContainsAny(found.Word, " \t\n'\"\\$`!*?;&|<>(){}#~") {
			continue // the shell would expand it
		}
		if found.About == "" || shell == "bash" {
			fmt.Fprintln(out, found.Word)
		} else {
			fmt.Fprintf(out, "%s\t%s\n", found.Word, show.Clean(found.About))
		}
	}
	return out.Flush()
}

// joinAssignments joins the words of --output=json, which bash splits at the equals sign.
func joinAssignments(shell string, given []string) []string {
	if shell != "bash" {
		return given
	}
	var joined []string
	for i, word := range given {
		last := len(joined) - 1
		switch {
		case word == "=" && last >= 0 && strings.HasPrefix(joined[last], "--"):
			joined[last] += "="
		case i > 0 && given[i-1] == "=" && last >= 0 && strings.HasSuffix(joined[last], "="):
			joined[last] += word
		default:
			joined = append(joined, word)
		}
	}
	return joined
}

// candidates returns the words that may replace word. With apart, a value after an equals sign is
// returned without its flag.
func candidates(l *command.Line, before []string, word string, apart bool) []command.Candidate {
	wanted, own, ok := read(l, before)
	if !ok {
		return nil
	}
	if flag, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "--") && wanted == "" && !own {
		found := matching(values(l, strings.TrimLeft(flag, "-")), value)
		for i := range found {
			if !apart && !strings.HasPrefix(found[i].Word, ":") {
				found[i].Word = flag + "=" + found[i].Word
			}
		}
		return found
	}
	switch {
	case wanted != "":
		return matching(values(l, wanted), word)
	case own:
		return matching(Files(l), word)
	case strings.HasPrefix(word, "-"):
		return matching(options(l), word)
	case l.Command.Name == "":
		return matching(Commands(l), word)
	case l.Command.Arguments != nil:
		return matching(l.Command.Arguments(l), word)
	}
	return nil
}

// unwritten stands for the word that is to be completed.
const unwritten = "\x00"

// read parses the words before the one to complete. It returns the flag whose value comes next, if
// any, and whether the next word belongs to a command line within this one. It reports false if the
// words are not a valid beginning.
func read(l *command.Line, before []string) (wanted string, own, ok bool) {
	l.Command = command.RootCommand()
	flags, rest, err := l.Command.SplitArgs(append(slices.Clone(before), unwritten))
	if err == nil && len(rest) > 1 {
		if l.Command = command.FindCommand(l.Commands, rest[0]); l.Command == nil {
			return "", false, false
		}
		flags, rest, err = l.Command.SplitArgs(append(flags, rest[1:]...))
	}
	if err != nil {
		return "", false, false
	}
	for _, flag := range flags {
		name, value, _ := strings.Cut(flag, "=")
		if value == unwritten {
			return strings.TrimLeft(name, "-"), false, true
		}
		if name == "--addr" {
			l.Addr = value
		}
	}
	l.Args = rest[:len(rest)-1]
	return "", len(l.Args) > 0 && l.Command.EndsFlags != nil && l.Command.EndsFlags(l.Args[0]), true
}

// values returns the completions of a flag's value.
func values(l *command.Line, name string) []command.Candidate {
	for _, f := range l.Command.Flags {
		if !slices.Contains(f.Names(), name) {
			continue
		}
		for _, known := range f.Names() {
			if from, ok := l.Command.Values[known]; ok {
				return from(l)
			}
			if from, ok := commonValues()[known]; ok {
				return from(l)
			}
		}
	}
	return nil
}

// options returns the flags of the command, each once.
func options(l *command.Line) []command.Candidate {
	var found []command.Candidate
	for _, f := range l.Command.Flags {
		if !command.Visible(f) {
			continue
		}
		about := ""
		if doc, ok := f.(cli.DocGenerationFlag); ok {
			about = strings.ReplaceAll(doc.GetUsage(), "`", "")
		}
		found = append(found, command.Candidate{Word: command.Dashed(longest(f.Names())), About: about})
	}
	slices.SortFunc(found, func(a, b command.Candidate) int { return strings.Compare(a.Word, b.Word) })
	return found
}

// longest returns the flag's first name that is a word.
func longest(names []string) string {
	for _, n := range names {
		if len(n) > 1 {
			return n
		}
	}
	return names[0]
}

// matching keeps the candidates that begin like word. In a comma-separated list the last item
// counts.
func matching(all []command.Candidate, word string) []command.Candidate {
	list, last := "", word
	if i := strings.LastIndexByte(word, ','); i >= 0 {
		list, last = word[:i+1], word[i+1:]
	}
	var found []command.Candidate
	for _, one := range all {
		switch {
		case one.Word == fileWord || one.Word == programWord:
			found = append(found, one)
		case strings.HasPrefix(one.Word, last):
			one.Word = list + one.Word
			found = append(found, one)
		}
	}
	return found
}
