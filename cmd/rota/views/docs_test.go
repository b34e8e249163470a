package views

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/listing"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec/explain"
)

var (
	columnRow = regexp.MustCompile("(?m)^\\| `[%A-Z][^|]*\\| (`[a-z]+`[^|]*) \\|$")
	quoted    = regexp.MustCompile("`([a-z]+)`")
)

// docs/from-slurm.md is correct: its columns exist, and it names every state and command.
func TestFromSlurm(t *testing.T) {
	path := "../../../docs/from-slurm.md"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for section, columns := range map[string][]string{"## squeue": (&listing.View[api.Job]{Cells: queueCells}).Names(),
		"## sacct": (&listing.View[api.Job]{Cells: histCells}).Names()} {
		_, rest, _ := strings.Cut(text, section+"\n")
		part, _, _ := strings.Cut(rest, "\n## ")
		rows := columnRow.FindAllStringSubmatch(part, -1)
		if len(rows) < 15 {
			t.Errorf("%s: only %d columns", section, len(rows))
		}
		for _, row := range rows {
			for _, name := range quoted.FindAllStringSubmatch(row[1], -1) {
				if !slices.Contains(columns, name[1]) {
					t.Errorf("%s: there is no column %s", section, name[1])
				}
			}
		}
	}
	for _, e := range explain.All() {
		if e.Kind == explain.State && e.Name == strings.ToUpper(e.Name) &&
			!regexp.MustCompile(`\b`+e.Name+`\b`).MatchString(text) {
			t.Errorf("state %s is not named", e.Name)
		}
	}
	for _, name := range []string{"sbatch", "srun", "salloc", "squeue", "scancel", "scontrol", "sinfo", "sacct",
		"sshare"} {
		if !strings.Contains(text, "| `"+name) && !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s is not in the table of commands", name)
		}
	}
}
