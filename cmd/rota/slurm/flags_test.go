package slurm

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/slurm/slurmtest"
	"github.com/rota-hpc/rota/cmd/rota/slurm/steps"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/jobspec/script"
)

// The ways in which a flag of Slurm's manual pages is treated.
const (
	done    = "done"
	warned  = "left out, with a warning"
	refused = "refused"
	without = "accepted, without effect"
)

// inAJob is srun in a job.
const inAJob = "srun in a job"

// flagsOf returns the flags of a command by asking the command itself.
func flagsOf(name string) *pflag.FlagSet {
	var set *pflag.FlagSet
	t := &tool.Tool{Inspect: func(f *pflag.FlagSet) { set = f },
		Env: &command.Env{Name: name, Getenv: func(string) string { return "" }, Stdout: io.Discard, Stderr: io.Discard}}
	_ = tools[name].Does(context.Background(), t, nil) // it does nothing
	return set
}

// verdict says what becomes of a flag, such as -n or --ntasks, of a command.
func verdict(name, flag string) string {
	switch long := strings.TrimPrefix(flag, "--"); {
	case name == inAJob || name == "srun" && isOfStep(flag):
		switch taken, effect := steps.Takes(flag); {
		case effect || slices.Contains([]string{"-h", "--help", "--usage", "-V", "--version"}, flag):
			return done
		case taken:
			return without
		}
		return refused
	case name == "srun" && flag == "--jobid":
		return done
	case tools[name].Does == nil:
		return refused
	case name == "sbatch" || name == "srun" || name == "salloc":
		table := script.Flags()
		switch name {
		case "srun":
			table = script.SrunTable()
		case "salloc":
			table = script.SallocTable()
		}
		i := slices.IndexFunc(table, func(s script.Spec) bool {
			return s.Name == long || slices.Contains(s.Also, long) || s.Short != 0 && flag == "-"+string(s.Short)
		})
		switch {
		case slices.Contains([]string{"-h", "--help", "--usage", "-V", "--version"}, flag):
			return done
		case i < 0 || table[i].Refused():
			return refused
		case !table[i].Honoured():
			return warned
		}
		return done
	case len(flag) == 2:
		if flagsOf(name).ShorthandLookup(flag[1:]) == nil && flag != "-h" {
			return refused
		}
		return done
	case flagsOf(name).Lookup(long) == nil:
		return refused
	}
	return done
}

// isOfStep reports whether a flag of srun says something of its step alone.
func isOfStep(flag string) bool {
	return slices.ContainsFunc(script.SrunTable(), func(s script.Spec) bool {
		return script.OnlyStep(s.Name) && ("--"+s.Name == flag || s.Short != 0 && flag == "-"+string(s.Short))
	})
}

// manualFlag is a flag of a command in a manual page, with its names.
type manualFlag struct {
	command string
	names   []string
}

func manualFlags(t *testing.T) []manualFlag {
	t.Helper()
	b, err := os.ReadFile("testdata/manual-flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []manualFlag
	for line := range strings.Lines(string(b)) {
		if words := strings.Fields(line); words[0] != "#" {
			all = append(all, manualFlag{words[0], words[1:]})
		}
	}
	if len(all) < 500 {
		t.Fatalf("%d flags", len(all))
	}
	for i, f := range all {
		if f.command == "srun" && (i == 0 || all[i-1].command != "srun") {
			end := i + slices.IndexFunc(all[i:], func(f manualFlag) bool { return f.command != "srun" })
			if end < i {
				end = len(all)
			}
			var steps []manualFlag
			for _, f := range all[i:end] {
				steps = append(steps, manualFlag{inAJob, f.names})
			}
			return slices.Insert(all, end, steps...)
		}
	}
	t.Fatal("srun has no flags")
	return nil
}

// TestFlagsOfTheManual writes docs/slurm-flags.md from the flags of Slurm's manual pages and from what
// the commands take.
func TestFlagsOfTheManual(t *testing.T) {
	const path = "../../../docs/slurm-flags.md"
	var b strings.Builder
	b.WriteString("# Flags of Slurm's commands\n\n<!-- Written by go test ./cmd/rota/slurm -update. -->\n\n" +
		"Every flag of the manual pages of Slurm 22.05.8, and its effect under [Slurm's names](slurm-names.md).\n\n" +
		"- **" + done + "**: the flag works.\n- **" + warned + "**: the command goes on without the flag, and warns.\n" +
		"- **" + without + "**: the flag changes nothing here.\n" +
		"- **" + refused + "**: the command ends with exit code 1 and a message that names the flag.\n\n" +
		"[batch-scripts.md](batch-scripts.md) says why a flag of `sbatch` is left out or refused, and names\n" +
		"replacements. `srun` has two tables: outside of a job, where it has an allocation of its own, and of a step,\n" +
		"in a job or with `--jobid`.\n")
	counts, flags := map[string]int{}, map[string]map[string][]string{} // by command and verdict
	var order []string
	for _, f := range manualFlags(t) {
		if flags[f.command] == nil {
			flags[f.command], order = map[string][]string{}, append(order, f.command)
		}
		names := map[string][]string{} // by verdict
		for _, name := range f.names {
			what := verdict(f.command, name)
			names[what] = append(names[what], name)
		}
		for what, list := range names {
			counts[what]++
			flags[f.command][what] = append(flags[f.command][what], strings.Join(list, "/"))
		}
	}
	for _, name := range order {
		fmt.Fprintf(&b, "\n## %s\n\n| | flags |\n|---|---|\n", name)
		for _, what := range []string{done, warned, without, refused} {
			if list := flags[name][what]; list != nil {
				fmt.Fprintf(&b, "| %s | `%s` |\n", what, strings.Join(list, "` `"))
			}
		}
	}
	t.Logf("%d flags are done, %d left out with a warning, %d refused", counts[done], counts[warned], counts[refused])
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil { //nolint:gosec // part of the source
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != b.String() {
		t.Errorf("%s does not say what the commands take (%v): write it with -update", path, err)
	}
}

// TestRefusedFlags gives every command each flag that is refused. The command ends with exit code
// 1, names the flag, and sends no change of a job to a controller.
func TestRefusedFlags(t *testing.T) {
	a := slurmtest.Accepting(t)
	s := slurmtest.Shell{T: t, Tools: tools, Addr: a.URL, Stdin: slurmtest.Body}
	tried := 0
	for _, f := range manualFlags(t) {
		for _, name := range f.names {
			if tools[f.command].Does == nil || verdict(f.command, name) != refused {
				continue
			}
			tried++
			args := []string{f.command, name, "1", "2"}
			if i := slices.IndexFunc(script.Flags(), func(s script.Spec) bool {
				return s.Name == strings.TrimPrefix(name, "--") || s.Short != 0 && name == "-"+string(s.Short)
			}); f.command == "sbatch" {
				args = args[:2] // the script is on standard input
				if i >= 0 && script.Flags()[i].Takes == script.Value {
					args = append(args, "1")
				}
			}
			code, out, said := s.Call(args...)
			isNamed := func(n string) bool { return strings.Contains(said, strings.TrimLeft(n, "-")) }
			if code != 1 || out != "" || !strings.HasPrefix(said, f.command+": error: ") ||
				!slices.ContainsFunc(f.names, isNamed) {
				t.Errorf("%s %s: %d\n%s%s", f.command, name, code, out, said)
			}
		}
	}
	for _, r := range a.Requests() {
		if strings.HasPrefix(r.What, "POST ") {
			t.Errorf("a refused flag led to %s", r.What)
		}
	}
	if tried < 100 {
		t.Errorf("only %d flags were tried", tried)
	}
}

// TestAbout: every command prints its version and the flags that it supports.
func TestAbout(t *testing.T) {
	s := slurmtest.Shell{T: t, Tools: tools, Addr: "unix:/nowhere/at/all"}
	for _, name := range Names() {
		for flag, want := range map[string]string{"--version": "slurm 24.11.0\n", "-V": "slurm 24.11.0\n",
			"--help": "Rota's " + name + " supports: ", "--usage": "Rota's " + name + " supports: "} {
			if code, out, said := s.Call(name, flag); code != 0 || !strings.HasPrefix(out, want) || said != "" {
				t.Errorf("%s %s: %d %q %q", name, flag, code, out, said)
			}
		}
	}
}
