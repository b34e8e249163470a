package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Commands that take batch scripts read options as sbatch does: glued letters (-N1), letters in a row, values that may be left out
// (--exclusive, -K0), and beginnings of whole names that fit one option only (--part). What is read is handed on as --name=value, each
// option under one name.

// primaryNames gives the first name of each option by any of its names.
func primaryNames(flags []cli.Flag) map[string]string {
	names := map[string]string{"help": "help", "h": "help"}
	for _, f := range flags {
		for _, n := range f.Names() {
			names[n] = f.Names()[0]
		}
	}
	return names
}

// option takes one option, and its value from next if it has one. It returns how many of next it used.
func (l *commandLine) option(a, name, value string, hasValue bool, next []string) (int, error) {
	if _, known := l.table[name]; !known {
		whole, err := l.whole(a, name)
		switch {
		case err != nil:
			return 0, err
		case whole == "":
			return l.letters(a, name, next)
		}
		name = whole
	}
	switch kind := l.table[name]; {
	case l.primary[name] == "help":
		l.help = true
	case kind == switchFlag:
		if hasValue && value != "true" && value != "false" {
			return 0, usagef("%s takes no value", dashed(name))
		}
		l.add(name, value, hasValue)
	case kind == maybeFlag || hasValue:
		l.add(name, value, true)
	case len(next) == 0:
		return 0, usagef("%s needs a value: \"rota help %s\" shows how it is used", a, l.command.Name)
	default:
		l.add(name, next[0], true)
		return 1, nil
	}
	return 0, nil
}

func (l *commandLine) add(name, value string, hasValue bool) {
	flag := "--" + l.primary[name]
	if hasValue {
		flag += "=" + value
	}
	l.flags = append(l.flags, flag)
}

// whole finds the one option whose name begins so, "" when there is none.
func (l *commandLine) whole(a, name string) (string, error) {
	if !strings.HasPrefix(a, "--") || name == "" {
		return "", nil
	}
	var fit []string
	for n, first := range l.primary {
		if strings.HasPrefix(n, name) && len(n) > 1 && !slices.Contains(fit, first) {
			fit = append(fit, first)
		}
	}
	if len(fit) < 2 {
		return strings.Join(fit, ""), nil
	}
	slices.Sort(fit)
	return "", &usageError{text: "--" + name + " may stand for --" + strings.Join(fit, ", --"), hint: "write more of its name"}
}

// letters takes -N1, or letters in a row as in -HW.
func (l *commandLine) letters(a, name string, next []string) (int, error) {
	if strings.HasPrefix(a, "--") {
		return 0, l.unknownFlag(a, name)
	}
	for rest := a[1:]; rest != ""; {
		letter := rest[:1]
		kind, known := l.table[letter]
		if !known {
			return 0, l.unknownFlag(a, name)
		}
		rest = rest[1:]
		switch {
		case letter == "h":
			l.help = true
			continue
		case kind == switchFlag:
			l.add(letter, "", false)
			continue
		case rest != "" || kind == maybeFlag:
			l.add(letter, rest, true)
		case len(next) == 0:
			return 0, usagef("-%s needs a value: \"rota help %s\" shows how it is used", letter, l.command.Name)
		default:
			l.add(letter, next[0], true)
			return 1, nil
		}
		return 0, nil
	}
	return 0, nil
}
