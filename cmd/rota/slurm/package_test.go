package slurm

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// linkLines are the lines of packaging/contents.txt for the links of the package rota-slurm, by path.
func linkLines() map[string]string {
	lines := map[string]string{}
	for _, name := range Names() {
		for _, path := range []string{"/usr/bin/" + name, "/usr/share/man/man1/" + name + ".1.gz"} {
			lines[path] = "l--------- root/root " + path
		}
	}
	return lines
}

// withLinks returns the list of what is in the packages with the links of these names in those of
// rota-slurm.
func withLinks(contents string) string {
	var out, section []string
	inside := false
	flush := func() {
		if inside {
			for _, line := range linkLines() {
				section = append(section, line)
			}
			path := func(line string) string { return strings.Fields(line)[2] }
			slices.SortFunc(section, func(a, b string) int { return strings.Compare(path(a), path(b)) })
		}
		out, section = append(out, section...), nil
	}
	for line := range strings.Lines(contents) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "#"):
			flush()
			inside = strings.HasPrefix(line, "# rota-slurm,")
			out = append(out, line)
		case inside && line[0] == 'l':
		default:
			section = append(section, line)
		}
	}
	flush()
	return strings.Join(out, "\n") + "\n"
}

// knows says in a few words what a command takes: its flags, if nothing else is written about it.
func knows(name string) string {
	if text := tools[name].Help; text != "" {
		return text
	}
	var all []string
	flagsOf(name).VisitAll(func(f *pflag.Flag) {
		if f.Shorthand != "" {
			all = append(all, "-"+f.Shorthand)
		}
		all = append(all, "--"+f.Name)
	})
	return strings.Join(all, ", ")
}

// manual is the page of the manual that the package has for each of the names.
func manual() string {
	var b strings.Builder
	dashed := strings.NewReplacer(`\`, `\e`, "-", `\-`)
	b.WriteString(".\\\" Written by go test ./cmd/rota/slurm -update.\n.TH ROTA\\-SLURM 1 \"\" Rota \"Rota Manual\"\n" +
		".SH NAME\n" +
		strings.Join(Names(), ", ") + " \\- Slurm's commands, for a cluster of Rota\n.SH DESCRIPTION\n" +
		"These names are links to\n.BR rota (1),\nwhich takes Slurm's own command lines under them, and prints what " +
		"Slurm prints. " +
		"A flag that it does not know is\nrefused by name. Below\n.I https://github.com/rota\\-hpc/rota\n" +
		"the pages docs/from\\-slurm.md and docs/slurm\\-flags.md say what is there.\n.SH COMMANDS\n")
	for _, name := range Names() {
		b.WriteString(".TP\n.B " + name + "\n" + dashed.Replace(knows(name)) + "\n")
	}
	b.WriteString(".SH ENVIRONMENT\n.TP\n.B ROTA_ADDR\nThe address of the controllers, see\n.BR rota (1).\n.TP\n" +
		".BR SBATCH_* \", \" SALLOC_* \", \" SCANCEL_* \", \" SQUEUE_* \", \" SINFO_* \", \" SACCT_FORMAT \", \" SLURM_*\n" +
		"Stand for flags, as in Slurm: SLURM_* for those of srun, SLURM_CLUSTERS for \\-M.\n.TP\n" +
		".B SLURM_TIME_FORMAT\nHow times are written, as for strftime.\n.SH EXIT STATUS\n0 if all went well, otherwise 1. " +
		"srun, and sbatch with \\-\\-wait, end with the exit code of the job.\n.SH SEE ALSO\n.BR rota (1)\n")
	return b.String()
}

// TestPackage holds the package rota-slurm to the names that the program has.
func TestPackage(t *testing.T) {
	const dir = "../../../packaging/"
	contents, err := os.ReadFile(dir + "contents.txt")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"slurm/names": strings.Join(Names(), "\n") + "\n", "slurm/rota-slurm.1": manual(),
		"contents.txt": withLinks(string(contents)),
	} {
		if *update {
			if err := os.WriteFile(dir+path, []byte(want), 0o644); err != nil { //nolint:gosec // part of the source
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(dir + path); err != nil || string(got) != want {
			t.Errorf("packaging/%s does not fit the names of the commands (%v): write it with -update", path, err)
		}
	}
}
