package command

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/exit"
)

// SplitArgs separates the flags of a command from its arguments, because users write flags after
// arguments and the flag package stops at the first argument. It returns flags as --name=value
// under their first names; "help" is one of them. As for sbatch, a value may be glued to a letter
// (-N1) and letters may stand in a row (-HW). A name may be shortened (--part). "--" ends the
// flags, and so does the first argument if EndsFlags says so.
func (c *Command) SplitArgs(args []string) (flags, rest []string, err error) {
	options, given := c.options(), map[string]bool{}
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--":
			return flags, append(rest, args[i+1:]...), nil
		case !isFlag(a):
			rest = append(rest, a)
			if len(rest) == 1 && c.EndsFlags != nil && c.EndsFlags(a) {
				return flags, append(rest, args[i+1:]...), nil
			}
			continue
		}
		for word := args[i]; word != ""; {
			o, value, has, more, err := c.find(options, word)
			if err != nil {
				return nil, nil, err
			}
			if o.needsValue() && !has {
				if i++; i == len(args) {
					return nil, nil, exit.Usagef("%s needs a value: see \"rota help %s\"", word, c.Name)
				}
				value = args[i]
			}
			if err := o.check(value, has, given[o.name]); err != nil {
				return nil, nil, err
			}
			given[o.name] = true
			flag := "--" + o.name
			if o.takes != takesNothing || has {
				flag += "=" + value
			}
			flags, word = append(flags, flag), more
		}
	}
	return flags, rest, nil
}

// isFlag reports whether a word looks like a flag; "-" alone is a file name.
func isFlag(word string) bool { return len(word) > 1 && word[0] == '-' }

// check returns an error for an invalid value, and for the second use of a flag that may be given
// once.
func (o option) check(value string, has, again bool) error {
	if o.takes == takesNothing && has && value != "true" && value != "false" {
		return exit.Usagef("%s takes no value", Dashed(o.name))
	}
	if _, err := strconv.ParseInt(value, 10, 64); err != nil && o.takes == takesNumber {
		return exit.Usagef("%s %s: not a whole number", Dashed(o.name), value)
	}
	if o.once && again {
		return exit.Usagef("%s is given twice", Dashed(o.name))
	}
	return nil
}

// find returns the flag that a word names, and its value if the word has one. For a row of letters
// it returns the first one, and the remaining row as more.
func (c *Command) find(all map[string]option, word string) (o option, value string, has bool, more string, err error) {
	name, value, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
	if o, known := all[name]; known {
		return o, value, has, "", nil
	}
	if !strings.HasPrefix(word, "--") {
		o, known := all[word[1:2]]
		switch {
		case !known:
			return o, "", false, "", c.unknownFlag(all, word, name)
		case o.takes == takesNothing && len(word) > 2:
			return o, "", false, "-" + word[2:], nil
		}
		return o, word[2:], len(word) > 2, "", nil
	}
	var fit []string
	for n, o := range all {
		if name != "" && len(n) > 1 && strings.HasPrefix(n, name) && !slices.Contains(fit, o.name) {
			fit = append(fit, o.name)
		}
	}
	if len(fit) == 1 {
		return all[fit[0]], value, has, "", nil
	}
	return o, "", false, "", c.unclearFlag(all, word, name, fit)
}
