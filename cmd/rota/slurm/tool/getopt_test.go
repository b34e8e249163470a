package tool

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/jobspec/script"
)

// TestPflagIsNoGetopt has the command lines that keep the reader of package script: getopt_long(3), and
// with it Slurm, reads them otherwise than pflag. If pflag learns them, the reader can go.
func TestPflagIsNoGetopt(t *testing.T) {
	for _, test := range []struct{ line, slurm, pflag string }{
		// The value of a flag that may have none, written to its letter.
		{"-K1 -N 2", "kill-on-bad-exit=1 nodes=2", "kill-on-bad-exit=yes error: unknown shorthand flag: '1' in -1"},
		// The rest of the word behind a letter is the value.
		{"-J=x", "job-name==x", "job-name=x"},
		// A letter with a value that looks like a flag of go test.
		{"-test.sh", "time=est.sh", ""},
		// All mistakes of a line are reported, and what follows them is read.
		{"--nodse=2 -J x", "--nodse: is not a known flag job-name=x", "error: unknown flag: --nodse"},
	} {
		var read []string
		flags, rest, bad := script.SrunFlags(strings.Fields(test.line))
		for _, p := range bad {
			read = append(read, p.Flag+": "+p.Text)
		}
		for _, f := range flags {
			read = append(read, f.Name+"="+f.Value)
		}
		if got := strings.Join(append(read, rest...), " "); got != test.slurm {
			t.Errorf("%s: package script reads %q, want %q", test.line, got, test.slurm)
		}
		if got := byPflag(strings.Fields(test.line)); got != test.pflag {
			t.Errorf("%s: pflag reads %q, and read %q: see the decision on the readers of flags", test.line, got, test.pflag)
		}
	}
}

// byPflag returns what pflag reads on a command line, in order.
func byPflag(words []string) string {
	f := someOfSrun()
	var read []string
	err := f.ParseAll(words, func(flag *pflag.Flag, value string) error {
		read = append(read, flag.Name+"="+value)
		return nil
	})
	if err != nil {
		read = append(read, "error: "+err.Error())
	}
	return strings.Join(append(read, f.Args()...), " ")
}

// someOfSrun are some flags of srun.
func someOfSrun() *pflag.FlagSet {
	f := pflag.NewFlagSet("srun", pflag.ContinueOnError)
	f.SetInterspersed(false)
	f.Usage = func() {}
	f.StringP("kill-on-bad-exit", "K", "", "")
	f.Lookup("kill-on-bad-exit").NoOptDefVal = "yes"
	f.StringP("job-name", "J", "", "")
	f.StringP("time", "t", "", "")
	f.StringP("nodes", "N", "", "")
	return f
}
