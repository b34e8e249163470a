package submit

import (
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/exit"
)

// aboutSpec is command.About for a job that has no id yet.
func aboutSpec(verb, name string, err error) error {
	if strings.HasPrefix(err.Error(), fmt.Sprintf("job %q: ", name)) {
		return err
	}
	return fmt.Errorf("%s %s: %w", verb, name, err)
}

// submitFailed is the error of a submission. If its answer was lost, the hint says how to find out
// whether the job exists. With a key, it says how to repeat the command without submitting twice.
func submitFailed(name, key string, err error) error {
	hint := "the job may have been submitted: \"rota queue --me\" shows it"
	if key != "" {
		hint += "; the same command with --idempotency-key " + key + " does not submit it twice"
	}
	return exit.LostAnswer(aboutSpec("submit", name, err), hint)
}
