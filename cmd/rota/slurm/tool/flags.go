package tool

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Flags returns a set of flags that prints nothing by itself.
func (t *Tool) Flags() *pflag.FlagSet {
	f := pflag.NewFlagSet(t.Name, pflag.ContinueOnError)
	f.Usage = func() {}
	f.SetOutput(t.Stderr)
	return f
}

// Parse reads flags. Others than those of the set are refused by name. The error is [ErrHelp] where
// there is nothing more to do.
func (t *Tool) Parse(f *pflag.FlagSet, args []string) (rest []string, err error) {
	if f.Lookup("help") == nil {
		f.Bool("help", false, "")
	}
	if f.Lookup("usage") == nil {
		f.Bool("usage", false, "")
	}
	if f.Lookup("version") == nil && f.ShorthandLookup("V") == nil {
		f.BoolP("version", "V", false, "")
	}
	if t.Inspect != nil {
		t.Inspect(f)
		return nil, ErrHelp
	}
	switch err := f.Parse(args); {
	case errors.Is(err, pflag.ErrHelp): // -h, where it means nothing else
		t.About("--help")
		return nil, ErrHelp
	case err != nil:
		return nil, fmt.Errorf("%w: what is not there yet, rota has: \"rota help\"", err)
	}
	for _, name := range []string{"help", "usage", "version"} {
		if given, _ := f.GetBool(name); given {
			t.About("--" + name)
			return nil, ErrHelp
		}
	}
	return f.Args(), nil
}

// About answers a flag that asks for the version or for help. It reports whether it is one.
func (t *Tool) About(flag string) bool {
	switch flag {
	case "-V", "--version":
		fmt.Fprintf(t.Stdout, "slurm %s\n", Release)
	case "-h", "--help", "--usage":
		fmt.Fprintf(t.Stdout, "%s of Rota knows: %s\n", t.Name, cmp.Or(t.help, "see its manual page"))
	default:
		return false
	}
	return true
}

// Aliased gives an option other names.
func Aliased(f *pflag.FlagSet, name string, others ...string) {
	for _, other := range others {
		f.Var(f.Lookup(name).Value, other, "")
	}
}

// SetFrom sets a flag to the value of a variable.
func SetFrom(f *pflag.FlagSet, name, variable, value string) error {
	if f.Lookup(name).Value.Type() == "bool" {
		on, err := ReadSwitch(variable, value)
		if err != nil {
			return err
		}
		value = strconv.FormatBool(on)
	}
	if err := f.Set(name, value); err != nil {
		return fmt.Errorf("%s: %w", variable, err)
	}
	return nil
}

// ReadSwitch reads a variable that stands for a flag without a value.
func ReadSwitch(variable, value string) (on bool, err error) {
	switch strings.ToLower(value) {
	case "1", "yes", "true":
		return true, nil
	case "0", "no", "false":
		return false, nil
	}
	//nolint:misspell // Slurm's word
	return false, fmt.Errorf("Unrecognized %s value: %s: write yes or no", variable, value)
}
