package present

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// BytesQuota is how many bytes of specifications the jobs of a user have in a state, and may have. binds: a
// submission beyond that is refused.
func BytesQuota(v *state.View, owner *model.Identity, binds bool) api.Quota {
	used, most := v.BytesOfUser(owner.UID), int64(cmp.Or(v.Config().MaxSpecBytes, cluster.DefaultMaxSpecBytes))
	return api.Quota{User: owner.User, Kind: "limit", Resource: api.QuotaSpecBytes, Used: used, Most: most,
		Binds: binds && used > most, Holders: []api.Holder{},
		Text: fmt.Sprintf("the jobs of user %s hold %s of scripts, environments and other parts of specifications, and may "+
			"hold %s", owner.User, model.SizeText(jobspec.Bytes(used)), model.SizeText(jobspec.Bytes(most)))}
}

// SilentShims names the workers of a job whose shims do not answer, as far as their nodes say so.
func SilentShims(v *state.View, j *model.Job) string {
	a := j.Live()
	if a == nil {
		return ""
	}
	var all []string
	for i := range a.Workers {
		n, _ := v.Node(a.Workers[i].Node)
		if n == nil {
			continue
		}
		if why, silent := model.SilentShim(n.Notice, j.ID, a.N, i); silent {
			all = append(all, fmt.Sprintf("the shim of worker %d on node %s does not answer (%s): its processes keep running", i,
				n.Name, why))
		}
	}
	return strings.Join(all, "; ")
}
