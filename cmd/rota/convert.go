package main

import (
	"bytes"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/jobfile"
	"github.com/rota-hpc/rota/jobspec/script"
)

// convertCommand turns scripts into job files.
func (w *world) convertCommand() *Command {
	return &Command{Command: &cli.Command{Name: "convert", Usage: "print the job file that says the same as a batch script", ArgsUsage: "[OPTIONS] SCRIPT [ARGUMENTS...]", Action: w.convert,
		Description: "What could not be taken over is listed on standard error. The options are those of submit.",
		Flags:       withOutput(scriptFlags())}, EndsFlags: namesScript, Arguments: CompleteFiles}
}

// convert prints the job file, and on stderr all that it does not say.
func (w *world) convert(c *cli.Context) error {
	asJSON, file, err := w.output(c)
	if err != nil {
		return err
	}
	req, err := w.readSubmission(c, file)
	if err != nil {
		return err
	}
	if !req.isScript {
		return usagef("%s is a job file already: \"rota fmt\" and \"rota parse\" look at it", req.shown)
	}
	if mistakes := req.read.Problems.Of(script.Mistake); len(mistakes) > 0 {
		return &fileError{name: req.shown, problems: mistakes}
	}
	notOfTheJob(&req.read)
	job := req.job
	if req.read.BeginsAhead > 0 {
		job.Begin = "now+" + req.read.BeginsAhead.String()
	}
	if req.read.DeadlineAhead > 0 {
		job.Deadline = "now+" + req.read.DeadlineAhead.String()
	}
	text, err := jobfile.Write(job)
	if err != nil {
		return fmt.Errorf("convert %s: %w", req.shown, err)
	}
	if asJSON {
		err = printJSON(w.stdout, map[string]any{"hcl": string(text), "unmapped": append(script.Problems{}, req.read.Problems...)})
	} else {
		_, err = w.stdout.Write(text)
	}
	if err != nil {
		return err
	}
	if !asJSON {
		fmt.Fprint(w.stderr, unmapped(req))
	}
	return w.sameJob(job, text)
}

// notOfTheJob adds what a script says about its own submission, which no job file can.
func notOfTheJob(r *script.Result) {
	for _, said := range []struct {
		flag string
		set  bool
	}{{"--wait", r.Wait}, {"--parsable", r.Parsable}, {"--test-only", r.TestOnly}} {
		if said.set {
			r.Problems = append(r.Problems, script.Problem{Kind: script.Warning, Code: script.CodeIgnored, Flag: said.flag,
				Text: "is about how a script is submitted, and not about the job", Hint: "give it to rota submit"})
		}
	}
}

// unmapped lists what the job file does not say, what is refused first.
func unmapped(req *submission) string {
	return req.read.Problems.Of(script.Refused).Format(req.shown) + req.read.Problems.Of(script.Warning).Format(req.shown)
}

// sameJob reads the job file again, as a check of what was written.
func (w *world) sameJob(job *jobspec.Job, text []byte) error {
	back, diags := jobfile.Parse("job.hcl", text, jobfile.Options{Now: w.now})
	if diags.HasErrors() {
		return fmt.Errorf("the job file that was written cannot be read: %w", diags)
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
		return fmt.Errorf("the job file that was written makes another job: a text in it is not in Unicode's normal form C")
	}
	return nil
}
