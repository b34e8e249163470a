package script

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec/script/shell"
)

// sameNumbers is put in front of the first command of a script that each rank runs. It makes all of
// them draw the same numbers, as in Slurm, where the script runs once.
const sameNumbers = `RANDOM=$((SLURM_JOB_ID + SLURM_RESTART_COUNT))`

// rewrittenScript returns the script that the job runs.
func (a *request) rewrittenScript(t *text, p plan) string {
	src := applyEdits(t.src, p.edits)
	front := a.frontLines(t, p)
	if len(front) == 0 {
		return src
	}
	lines := strings.SplitAfter(src, "\n")
	at := min(t.body, len(lines))
	head := strings.Join(lines[:at], "")
	if !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return head + strings.Join(front, "\n") + "\n" + strings.Join(lines[at:], "")
}

// applyEdits replaces parts of a text. Of two that overlap, the first one is replaced.
func applyEdits(src string, edits []edit) string {
	slices.SortFunc(edits, func(x, y edit) int { return x.begin - y.begin })
	var b strings.Builder
	at := 0
	for _, e := range edits {
		if e.begin >= at {
			b.WriteString(src[at:e.begin] + e.text)
			at = e.end
		}
	}
	return b.String() + src[at:]
}

// frontLines returns the lines that are put in front of the first command.
func (a *request) frontLines(t *text, p plan) []string {
	var lines []string
	isShell := shell.IsShell(t.shebang)
	if len(a.opts.Args) > 0 {
		if isShell {
			words := make([]string, len(a.opts.Args))
			for i, arg := range a.opts.Args {
				words[i] = shellQuoted(arg)
			}
			lines = append(lines, "set -- "+strings.Join(words, " "))
		} else {
			a.addLine(Mistake, CodeArguments, 1, "write them into the script, or start the program from a shell script",
				"only shell scripts can have arguments, and %s runs this one", excerpt(t.shebang))
		}
	}
	switch {
	case p.ownGPU == 1:
		lines = append(lines, "export CUDA_VISIBLE_DEVICES=$SLURM_LOCALID")
	case p.ownGPU > 1:
		lines = append(lines,
			fmt.Sprintf("export CUDA_VISIBLE_DEVICES=$(seq -s , $((SLURM_LOCALID * %d)) $((SLURM_LOCALID * %d + %d)))",
				p.ownGPU, p.ownGPU, p.ownGPU-1))
	case p.shared > 0:
		lines = append(lines, fmt.Sprintf("export CUDA_VISIBLE_DEVICES=$((SLURM_LOCALID / %d))", p.shared))
	}
	if p.mode == eachRank && strings.Contains(t.src, "RANDOM") && strings.Contains(t.shebang, "bash") {
		lines = append(lines, sameNumbers)
		a.addLine(Warning, CodeChanged, 0, "", "$RANDOM is the same on every rank: its seed is the job's id")
	}
	return lines
}

// shellQuoted returns text as one word for a shell.
func shellQuoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
