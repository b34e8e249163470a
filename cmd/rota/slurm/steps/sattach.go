package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/cmd/rota/terminal"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
)

// sattach shows the output of a running step's tasks, from now on. It sends no input and no
// signals: Ctrl-C ends sattach alone.
func sattach(ctx context.Context, t *tool.Tool, args []string) error {
	f := t.Flags()
	f.SetInterspersed(false)
	f.BoolP("help", "h", false, "")
	f.BoolP("usage", "u", false, "")
	label := f.BoolP("label", "l", false, "")
	f.BoolP("quiet", "Q", false, "") // it prints no further messages
	f.CountP("verbose", "v", "")
	words, err := t.Parse(f, args)
	switch {
	case err != nil:
		return err
	case len(words) != 1:
		return errors.New("one step is needed: sattach JOB.STEP, such as 7.0")
	}
	ref, step, err := stepOf(words[0])
	if err != nil {
		return err
	}
	session, err := t.Connect()
	if err != nil {
		return err
	}
	begun, err := runningStep(ctx, session, ref, step)
	if err != nil {
		return err
	}
	// Write the output in the way of srun, each line behind its task's number with --label.
	line := &srunLine{Tool: t, values: map[string]string{}}
	if *label {
		line.values["label"] = "1"
	}
	out, err := newStepOutput(t, line, &api.StepRequest{})
	if err != nil {
		return err
	}
	if err := out.begin(begun); err != nil {
		return err
	}
	// Open a connection that only watches: it carries neither input nor signals.
	ctx, stop := command.Interruptible(ctx)
	defer stop()
	conn, err := session.Stream(ctx, fmt.Sprintf("/v1/jobs/%s/steps/%d/attach", ref, step), api.StepAttach{Watch: true})
	if refused, denied := tool.Denied(err); denied {
		return fmt.Errorf("StepId=%s.%d: %s", ref, step, refused)
	} else if err != nil {
		return fmt.Errorf("StepId=%s.%d: %w", ref, step, tool.AsSlurm(err))
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // a cancelled context ends the read below
	// Show frames until the step ends or Ctrl-C ends sattach, then write the rest of unfinished lines.
	err = watchStep(t, conn, out)
	if left := out.close(); err == nil {
		err = left
	}
	// Ctrl-C is the normal end; the step's exit code passes through; any other error is a lost connection.
	var code *exit.CodeError
	switch {
	case errors.Is(context.Cause(ctx), exit.ErrInterrupted):
		return nil
	case err != nil && !errors.As(err, &code):
		return fmt.Errorf("StepId=%s.%d continues, but the connection to it is lost: %w", ref, step, err)
	}
	return err
}

// runningStep finds a running step of a job. Its errors say in Slurm's words why there is none.
func runningStep(ctx context.Context, session *command.Session, ref string, step int) (api.StepBegun, error) {
	list, err := session.StepsBy(ctx, ref)
	refused, denied := tool.Denied(err)
	switch {
	case denied:
		return api.StepBegun{}, errors.New("Could not get job step info: " + refused)
	case tool.IsUnreachable(err):
		return api.StepBegun{}, tool.AsSlurm(err)
	case exit.IsNotFound(err):
		return api.StepBegun{}, errors.New("Could not get job step info: " + tool.NoSuchJob)
	case tool.HasEnded(ctx, session, ref, err):
		return api.StepBegun{}, errors.New("Could not get job step info: " + tool.AlreadyEnded)
	case err != nil:
		return api.StepBegun{}, fmt.Errorf("Could not get job step info: %w", tool.AsSlurm(err))
	}
	i := slices.IndexFunc(list.Items, func(s api.StepStatus) bool { return s.Step == step && s.Waits == "" })
	if i < 0 {
		return api.StepBegun{}, fmt.Errorf("StepId=%s.%d: no such step is running", ref, step)
	}
	return list.Items[i].StepBegun, nil
}

// stepOf parses JOB.STEP.
func stepOf(text string) (ref string, step int, err error) {
	job, number, _ := strings.Cut(text, ".")
	refs, err := command.JobRefs([]string{job})
	if err != nil || len(refs) != 1 {
		return "", 0, fmt.Errorf(tool.NoSuchJob+": %q: write JOB.STEP, such as 7.0", text)
	}
	switch step, err = strconv.Atoi(number); {
	case number == "batch" || number == "extern" || number == "interactive":
		return "", 0, fmt.Errorf("step %s is the batch script: \"rota logs -f %s\" shows its output", text, job)
	case err != nil || step < 0:
		return "", 0, fmt.Errorf("Invalid job step id specified: %q: write JOB.STEP, such as 7.0", text)
	}
	return refs[0], step, nil
}

// watchStep shows a step's output until the step ends, and returns its exit code.
func watchStep(t *tool.Tool, conn *stream.Conn, out *stepOutput) error {
	worst := 0
	for {
		f, err := conn.Read()
		if err != nil {
			return err
		}
		switch f.Kind {
		case stream.Stdout, stream.Stderr:
			if err := out.write(from{f.Task, f.Kind == stream.Stderr}, f.Data); err != nil {
				return err
			}
		case stream.Exit:
			var x api.StepTaskExit
			if err := json.Unmarshal(f.Data, &x); err != nil {
				return fmt.Errorf("cannot read the exit status of task %d: %w", f.Task, err)
			}
			worst = max(worst, terminal.Code(x))
			if err := out.flushTask(f.Task); err != nil {
				return err
			}
		case stream.End:
			var end api.StepEnd
			if err := json.Unmarshal(f.Data, &end); err != nil {
				return fmt.Errorf("cannot read the end of the step: %w", err)
			}
			return exit.WithCode(max(worst, terminal.Code(end.StepTaskExit)))
		}
	}
}
