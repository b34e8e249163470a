package files

import (
	"bytes"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/jobfile"
	"github.com/rota-hpc/rota/jobspec/script"
)

// convert prints the job file, and on stderr what it does not express.
func convert(env *command.Env, c *cli.Context) error {
	req, err := input.ReadUnchecked(env, c)
	if err != nil {
		return err
	}
	if !req.IsScript {
		return exit.Usagef("%s is already a job file: see \"rota fmt\" and \"rota parse\"", req.Shown)
	}
	if mistakes := req.Result.Problems.Of(script.Mistake); len(mistakes) > 0 {
		return &exit.FileError{Name: req.Shown, Problems: mistakes}
	}
	addSubmitOptions(&req.Result)
	job := req.Job
	if req.Result.BeginsAhead > 0 {
		job.Begin = "now+" + req.Result.BeginsAhead.String()
	}
	if req.Result.DeadlineAhead > 0 {
		job.Deadline = "now+" + req.Result.DeadlineAhead.String()
	}
	text, err := jobfile.Write(job)
	if err != nil {
		return fmt.Errorf("convert %s: %w", req.Shown, err)
	}
	if err := checkConverted(env, job, text); err != nil {
		return fmt.Errorf("convert %s: %w", req.Shown, err)
	}
	if req.AsJSON {
		err = table.PrintJSON(env.Stdout, map[string]any{"apiVersion": api.Version, "kind": "Conversion",
			"hcl":      string(text),
			"unmapped": append(script.Problems{}, req.Result.Problems...)})
	} else {
		_, err = env.Stdout.Write(text)
	}
	if err == nil && !req.AsJSON {
		fmt.Fprint(env.Stderr, unmapped(req))
	}
	return err
}

// addSubmitOptions adds problems for options about the submission, which a job file cannot express.
func addSubmitOptions(r *script.Result) {
	for _, said := range []struct {
		flag string
		set  bool
	}{{"--wait", r.Wait}, {"--parsable", r.Parsable}, {"--test-only", r.TestOnly},
		{"--quiet", r.Quiet}, {"--clusters", r.Clusters != ""}} {
		if said.set {
			r.Problems = append(r.Problems, script.Problem{Kind: script.Warning, Code: script.CodeIgnored, Flag: said.flag,
				Text: "is about the submission, not the job", Hint: "pass it to rota submit"})
		}
	}
}

// unmapped lists what the job file does not express, refused options first.
func unmapped(req *input.Submission) string {
	return req.Result.Problems.Of(script.Refused).Format(req.Shown) +
		req.Result.Problems.Of(script.Warning).Format(req.Shown)
}

// checkConverted parses the written job file again and compares it with the job.
func checkConverted(env *command.Env, job *jobspec.Job, text []byte) error {
	back, diags := jobfile.Parse("job.hcl", text, jobfile.Options{Now: env.Now})
	if diags.HasErrors() {
		return fmt.Errorf("the generated job file cannot be read: %w", diags)
	}
	if job.Begin != "" {
		back.Begin = job.Begin
	}
	if job.Deadline != "" {
		back.Deadline = job.Deadline
	}
	want, err := job.Canonical()
	if err != nil {
		return err
	}
	got, err := back.Canonical()
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("the generated job file describes a different job: some text is not in Unicode normal form C")
	}
	return nil
}
