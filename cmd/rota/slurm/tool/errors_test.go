package tool

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
)

// TestALimitRefusesInSlurmsWords: clients search for Slurm's sentence, and users need the limit and
// its numbers.
func TestALimitRefusesInSlurmsWords(t *testing.T) {
	const words = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
	for detail, limited := range map[string]bool{
		"AssocMaxSubmitJobLimit: user ann in account lab may have 4 unfinished jobs":                  true,
		"jobs[1]: QOSMaxGRESPerUser: user ann may hold 1 GPU at once":                                 true,
		"queue \"x\": no such queue: the cluster has default":                                         false,
		"Invalid account or account/partition combination specified: queue short is for accounts lab": false,
	} {
		got := SubmitError("Batch job submission failed", &api.Problem{Detail: detail}).Error()
		if strings.Contains(got, words) != limited || !strings.HasSuffix(got, detail) {
			t.Errorf("%s: %q", detail, got)
		}
	}
}
