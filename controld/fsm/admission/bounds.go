package admission

import (
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm/limits"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// CheckBounds refuses a job that exceeds a limit of its user, account or queue by itself, so that
// it could never start.
func CheckBounds(j *model.Job, bounds []cluster.Bound) error {
	if why := limits.Never(bounds, j); why.Code != model.ReasonNone {
		return Refusal(why)
	}
	return nil
}

// Refusal is a limit that refuses a job when it is submitted, with Slurm's name for it.
func Refusal(why model.Reason) error {
	return &model.SpecError{Text: fmt.Sprintf("%s: %s", why.Code, why.Sentence())}
}

// AccountRefused says that a queue does not take jobs of an account.
func AccountRefused(account, queue string, allowed []string) error {
	return &model.SpecError{Text: fmt.Sprintf("%s: queue %s is for accounts %s, and the job is charged to account %s: "+
		"name another account or queue", model.WrongAccount, queue, strings.Join(allowed, ", "), account)}
}
