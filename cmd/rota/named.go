package main

import "github.com/urfave/cli/v2"

// The library asks every option for its names at every look-up of another one, and finds them out anew each time: with the options of sbatch,
// of which there are a hundred, that took longer than a whole submission. These know theirs.

// namedText and namedSwitch are options that know their names.
type (
	namedText struct {
		*cli.StringFlag
		names []string
	}
	namedSwitch struct {
		*cli.BoolFlag
		names []string
	}
)

// Names implements cli.Flag.
func (f namedText) Names() []string { return f.names }

// Names implements cli.Flag.
func (f namedSwitch) Names() []string { return f.names }

func nameText(f *cli.StringFlag) namedText {
	return namedText{f, append([]string{f.Name}, f.Aliases...)}
}

// knowingNames puts options that know their names in place of those of the common kinds.
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
