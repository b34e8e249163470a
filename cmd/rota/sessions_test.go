package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/cmd/rota/listing"
)

// used is which commands and flags have been called, by first name.
type used map[string]map[string]bool

// note adds what a command line calls. It fails on lines that the command would refuse as wrongly
// written.
func (u used) note(t *testing.T, all []*command.Command, words []string) {
	t.Helper()
	c, out, err := command.Parse(words[1:], all)
	if err != nil {
		t.Errorf("%q: %v", words, err)
		return
	}
	name := out[0] // help and version come without their command
	if c != nil && name != "help" {
		name = c.Name
	}
	if u[name] == nil {
		u[name] = map[string]bool{}
	}
	for _, flag := range out[1:] {
		if flag == "--" {
			break
		}
		first, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
		u[name][first] = true
	}
}

// calls returns the command lines of rota in a line of shell.
func calls(line string) [][]string {
	var found [][]string
	for _, words := range shellCommands(line) {
		for len(words) > 0 && strings.Contains(words[0], "=") && !strings.HasPrefix(words[0], "-") {
			words = words[1:] // NAME=VALUE before the command
		}
		if len(words) > 0 && words[0] == "timeout" { // and its options
			words = words[max(slices.Index(words, "rota"), 0):]
		}
		if len(words) > 0 && filepath.Base(words[0]) == "rota" {
			found = append(found, append([]string{"rota"}, words[1:]...))
		}
	}
	return found
}

// shellCommands takes a line of shell apart, as far as lines in documents go: words and quotes,
// pipes, lists, redirections, and commands within $( ).
func shellCommands(line string) [][]string {
	var all [][]string
	var words []string
	var word strings.Builder
	begun := false
	endWord := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	end := func() {
		endWord()
		if len(words) > 0 {
			all = append(all, words)
		}
		words = nil
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			n := strings.IndexByte(line[i+1:], '\'')
			if n < 0 {
				n = len(line) - i - 1
			}
			word.WriteString(line[i+1 : i+1+n])
			begun, i = true, i+1+n
		case c == '"':
			begun = true
			for i++; i < len(line) && line[i] != '"'; i++ {
				if line[i] == '\\' && i+1 < len(line) {
					i++
				}
				if strings.HasPrefix(line[i:], "$(") {
					inner, _, _ := strings.Cut(line[i+2:], ")")
					all = append(all, shellCommands(inner)...)
				}
				word.WriteByte(line[i])
			}
		case strings.HasPrefix(line[i:], "$("):
			n := strings.IndexByte(line[i:], ')')
			if n < 0 {
				n = len(line) - i - 1
			}
			all = append(all, shellCommands(line[i+2:i+n])...)
			word.WriteString("1")
			begun, i = true, i+n
		case c == '#' && !begun:
			i = len(line)
		case c == ' ':
			endWord()
		case strings.IndexByte("|;&", c) >= 0:
			end()
		case c == '>' || c == '<':
			if w := word.String(); w == "1" || w == "2" {
				word.Reset()
				begun = false
			}
			endWord()
			rest := strings.TrimLeft(line[i:], "><& ")
			target, _, _ := strings.Cut(rest, " ")
			i = len(line) - len(rest) + len(target) - 1
		case c == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
			begun = true
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	end()
	return all
}

// Every command and every flag of it is in a session, so that its output has been reviewed. Flags
// that all commands have, that all lists have, or that submit, plan and convert share, are to be in
// one of them.
func TestSessionsShowEverything(t *testing.T) {
	all := commands()
	u := used{}
	files, err := filepath.Glob("../lab/e2e/sessions/*/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sessions: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			if command, ok := strings.CutPrefix(line, "$ "); ok && !strings.HasSuffix(command, "# refused") {
				for _, words := range calls(command) {
					u.note(t, all, words)
				}
			}
		}
	}
	shared := map[string]bool{}
	for _, f := range append(listing.ViewFlags(), input.ScriptFlags()...) {
		shared[f.Names()[0]] = true
	}
	for _, c := range all {
		if c.Hidden {
			continue
		}
		if u[c.Name] == nil {
			t.Errorf("no session has rota %s", c.Name)
			continue
		}
		for _, f := range c.Flags {
			name := f.Names()[0]
			if !command.Visible(f) || u[c.Name][name] {
				continue
			}
			readsScripts := c.Name == "submit" || c.Name == "plan" || c.Name == "convert"
			if (!shared[name] && !readsScripts) || !u.anywhere(all, f) {
				t.Errorf("no session has rota %s %s", c.Name, command.Dashed(name))
			}
		}
	}
}

// anywhere reports whether some command that has the flag too was called with it.
func (u used) anywhere(all []*command.Command, f cli.Flag) bool {
	for _, c := range all {
		if u[c.Name][f.Names()[0]] && slices.ContainsFunc(c.Flags,
			func(g cli.Flag) bool { return slices.Equal(g.Names(), f.Names()) }) {
			return true
		}
	}
	return false
}
