package command

import (
	"github.com/urfave/cli/v2"
)

// The cli library asks every flag for its names at each look-up of any flag, and computes them
// anew. With the hundred flags of sbatch that took longer than a whole submission, so these flags
// store their names.
type (
	namedText struct {
		*cli.StringFlag
		names []string
	}
	namedSwitch struct {
		*cli.BoolFlag
		names []string
	}
	// MaybeFlag is a flag whose value is optional: it follows "=" or is glued to the letter.
	MaybeFlag struct{ namedText }
)

// Names implements cli.Flag.
func (f namedText) Names() []string { return f.names }

// Names implements cli.Flag.
func (f namedSwitch) Names() []string { return f.names }

func nameText(f *cli.StringFlag) namedText {
	return namedText{f, append([]string{f.Name}, f.Aliases...)}
}

// NewMaybeFlag returns f with an optional value.
func NewMaybeFlag(f *cli.StringFlag) MaybeFlag { return MaybeFlag{nameText(f)} }

// knowingNames replaces flags of text and switches by flags that store their names.
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

// takes says whether a flag takes a value.
type takes int

const (
	takesNothing takes = iota
	takesText
	takesNumber
	takesGlued // a value after "=" or glued to the letter, or none
)

// takenBy returns whether a flag takes a value, by its type.
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

// option is what reordering needs to know about a flag.
type option struct {
	name  string // first name of the flag
	takes takes
	once  bool // may be given once
}

// needsValue reports whether the next word is the value of a flag that has none in its own word.
func (o option) needsValue() bool { return o.takes == takesText || o.takes == takesNumber }

// options returns the flags by all their names. Once does not apply to the common flags, so that an
// alias may hold them and a command line override them.
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

// isCommon reports whether a first name is that of a common flag.
func isCommon(name string) bool {
	for _, f := range CommonFlags() {
		if f.Names()[0] == name {
			return true
		}
	}
	return false
}

// AtFirstArgument is EndsFlags for commands whose arguments are a command line of their own.
func AtFirstArgument(string) bool { return true }

// Visible reports whether help and completions show a flag. Flags of sbatch that Rota does not
// honour are hidden.
func Visible(f cli.Flag) bool {
	v, ok := f.(cli.VisibleFlag)
	return !ok || v.IsVisible()
}
