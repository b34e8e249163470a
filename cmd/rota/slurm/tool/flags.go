package tool

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Flags returns a flag set that prints nothing by itself.
func (t *Tool) Flags() *pflag.FlagSet {
	f := pflag.NewFlagSet(t.Name, pflag.ContinueOnError)
	f.Usage = func() {}
	f.SetOutput(t.Stderr)
	f.SetNormalizeFunc(Shortened)
	return f
}

// Shortened returns the flag that a shortened name on a command line means, as getopt_long(3) does.
// If no flag or several flags match, it returns the name unchanged. The program itself uses whole
// names.
func Shortened(f *pflag.FlagSet, name string) pflag.NormalizedName {
	if f.Parsed() {
		if fit := beginning(f, name); len(fit) == 1 {
			name = fit[0]
		}
	}
	return pflag.NormalizedName(name)
}

// beginning returns the flag with this name, or all flags whose names start with it. Two names of
// one flag count once.
func beginning(f *pflag.FlagSet, name string) (fit []string) {
	var values []pflag.Value
	exact := false
	f.VisitAll(func(known *pflag.Flag) {
		switch {
		case known.Name == name:
			exact = true
		case name != "" && strings.HasPrefix(known.Name, name) && !slices.Contains(values, known.Value):
			fit, values = append(fit, known.Name), append(values, known.Value)
		}
	})
	if exact {
		return []string{name}
	}
	return fit
}

// Parse parses the flags of a command line. It refuses unknown flags by name. An error ends the
// command; a request for help, which Parse prints, also returns an error.
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
		return nil, errHelp
	}
	var unknown *pflag.NotExistError
	switch err := f.Parse(args); {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" &&
		len(beginning(f, unknown.GetSpecifiedName())) > 1:
		return nil, fmt.Errorf("option --%s is ambiguous: it may stand for --%s", unknown.GetSpecifiedName(),
			strings.Join(beginning(f, unknown.GetSpecifiedName()), ", --"))
	case errors.Is(err, pflag.ErrHelp): // -h asks for help if the command has no flag -h
		t.About("--help")
		return nil, errHelp
	case err != nil:
		return nil, fmt.Errorf("%w: \"%s --help\" lists the options of this command, and \"rota help\" the commands of "+
			"Rota", err, t.Name)
	}
	for _, name := range []string{"help", "usage", "version"} {
		if given, _ := f.GetBool(name); given {
			t.About("--" + name)
			return nil, errHelp
		}
	}
	return f.Args(), nil
}

// ParseOptions is Parse for a command that takes no arguments.
func (t *Tool) ParseOptions(f *pflag.FlagSet, args []string) error {
	rest, err := t.Parse(f, args)
	if err == nil && len(rest) > 0 {
		return fmt.Errorf("Unrecognized option: %s", rest[0]) //nolint:misspell // Slurm's word
	}
	return err
}

// About handles flags that ask for the version or the help. It returns false for all other flags.
func (t *Tool) About(flag string) bool {
	switch flag {
	case "-V", "--version":
		fmt.Fprintf(t.Stdout, "slurm %s\n", Release)
	case "-h", "--help", "--usage":
		fmt.Fprintf(t.Stdout, "Rota's %s supports: %s\n", t.Name, cmp.Or(t.help, "see its manual page"))
	default:
		return false
	}
	return true
}

// Aliased gives a flag further names.
func Aliased(f *pflag.FlagSet, name string, others ...string) {
	for _, other := range others {
		f.Var(f.Lookup(name).Value, other, "")
	}
}

// SetFrom sets a flag from an environment variable.
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

// ReadSwitch reads an environment variable that sets a switch.
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
