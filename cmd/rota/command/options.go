package command

import (
	"github.com/urfave/cli/v2"
)

// The library asks every flag for its names at every look-up of another one, and computes them anew each time: with the hundred
// options of sbatch that took longer than a whole submission. These flags store their names.
type (
	namedText struct {
		*cli.StringFlag
		names []string
	}
	namedSwitch struct {
		*cli.BoolFlag
		names []string
	}
	// MaybeFlag is a flag whose value, if it has one, follows "=" or is glued to its letter.
	MaybeFlag struct{ namedText }
)

// Names implements cli.Flag.
func (f namedText) Names() []string { return f.names }

// Names implements cli.Flag.
func (f namedSwitch) Names() []string { return f.names }

func nameText(f *cli.StringFlag) namedText {
	return namedText{f, append([]string{f.Name}, f.Aliases...)}
}

// NewMaybeFlag makes a flag of text one whose value may be left out.
func NewMaybeFlag(f *cli.StringFlag) MaybeFlag { return MaybeFlag{nameText(f)} }

// knowingNames replaces flags of the common kinds by ones that store their names.
func knowingNames(flags []cli.Flag) []cli.Flag {
	out := make([]cli.Flag, len(flags))
	for i, f := range flags {
		switch f := f.(type) {
		case *cli.StringFlag:
			out[i] = nameText(f)
		case *cli.BoolFlag:
			out[i] = namedSwitch{f, append([]string{f.Name}, f.Aliases...)}
		default:
			out[i] = f
		}
	}
	return out
}

// takes is what follows a flag.
type takes int

const (
	takesNothing takes = iota
	takesText
	takesNumber
	takesGlued // a value after "=" or glued to the letter, or none
)

// takenBy says what follows a flag.
func takenBy(f cli.Flag) takes {
	switch f.(type) {
	case *cli.BoolFlag, namedSwitch:
		return takesNothing
	case *cli.IntFlag, *cli.Uint64Flag:
		return takesNumber
	case MaybeFlag:
		return takesGlued
	}
	return takesText
}

// option is a flag as command lines name it.
type option struct {
	name  string // its first name
	takes takes
	once  bool // refused when it is given again
}

// needsValue reports whether the next word is the flag's value, unless the word itself has it.
func (o option) needsValue() bool { return o.takes == takesText || o.takes == takesNumber }

// options maps every name of the command's flags to its flag. Where flags are given once, that excludes those of every
// command, so that an alias may hold them and a command line override them.
func (c *Command) options() map[string]option {
	all := map[string]option{"help": {name: "help"}, "h": {name: "help"}}
	for _, f := range c.Flags {
		_, list := f.(*cli.StringSliceFlag)
		o := option{name: f.Names()[0], takes: takenBy(f)}
		o.once = c.Once && !list && o.takes != takesNothing && !isCommon(o.name)
		for _, name := range f.Names() {
			all[name] = o
		}
	}
	return all
}

// isCommon reports whether every command has a flag of this first name.
func isCommon(name string) bool {
	for _, f := range CommonFlags() {
		if f.Names()[0] == name {
			return true
		}
	}
	return false
}

// AtFirstArgument ends the flags at the first argument: it begins a command line with flags of its own.
func AtFirstArgument(string) bool { return true }

// Visible reports whether an option is shown. Those of sbatch that are not honoured are known, and not shown.
func Visible(f cli.Flag) bool {
	v, ok := f.(cli.VisibleFlag)
	return !ok || v.IsVisible()
}
