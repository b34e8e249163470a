package present

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
)

// Fairness is what an account or a user has, and should have.
func Fairness(s *fairshare.Share) api.Fairness {
	return api.Fairness{Weight: s.Weight, Deserved: s.Deserved, Fair: s.Fair, Alloc: s.Alloc, Borrowed: s.Borrowed,
		Usage: s.Usage, Ratio: s.Ratio}
}
