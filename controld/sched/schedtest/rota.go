package schedtest

import (
	"fmt"
	"strconv"

	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// setRota changes the settings of policies that displace jobs.
func setRota(p *cluster.Policy, k, v string) (err error) {
	n, _ := strconv.Atoi(v)
	switch k {
	case "p":
		p.MaxPreempts = n
	case "s":
		p.GraceWeight = int64(n) * 1000
	case "fit":
		p.Placement = v
	case "te-gpus":
		p.TEAccountGPUs = int64(n)
	case "random-obeys-p":
		p.RandomUncapped = v == "no"
	case "te-account":
		p.TEAccountPM = int64(n)
	case "te-user":
		p.TEUserPM = int64(n)
	case "te-borrow":
		p.TEBorrowPM = int64(n)
	case "headroom":
		p.HeadroomPM, err = strconv.ParseInt(v, 10, 64)
	case "min-turn":
		p.MinTurnMS, err = milliseconds(v)
	default:
		err = fmt.Errorf("no setting %q", k)
	}
	return err
}

// setSave says that a job can save its state: save=yes when it is asked to leave, or save=INTERVAL.
func setSave(spec *jobspec.Job, v string) error {
	spec.Checkpoint = &jobspec.Checkpoint{}
	if v == "yes" {
		return nil
	}
	ms, err := milliseconds(v)
	spec.Checkpoint.Interval = jobspec.Seconds(ms / 1000)
	return err
}
