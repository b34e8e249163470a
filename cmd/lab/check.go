package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/rota-hpc/rota/controld/api"
)

// agreeTries is how often controllers are asked, a tenth of a second apart, until all have applied
// the same commands.
const agreeTries = 100

// Check asks every controller whether all invariants hold on its data, until all are at one index.
// It returns the state that all have, and what is wrong: invariants, or two states at one index.
func (c *Cluster) Check(ctx context.Context) (state string, problems []string, err error) {
	seen := map[string]bool{}
	problem := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !seen[text] {
			seen[text] = true
			problems = append(problems, text)
		}
	}
	for range agreeTries {
		var digests []string
		same := map[uint64]map[string]bool{}
		for _, d := range c.Controllers {
			check, err := checkOf(ctx, d)
			if err != nil {
				return "", problems, err
			}
			for _, what := range check.Violations {
				problem("%s: %s", d.Name, what)
			}
			digests = append(digests, fmt.Sprintf("%s at %d", check.Digest[:8], check.Index))
			if same[check.Index] == nil {
				same[check.Index] = map[string]bool{}
			}
			same[check.Index][check.Digest] = true
		}
		for index, all := range same {
			if len(all) > 1 {
				problem("controllers differ at index %d: %v", index, digests)
			}
		}
		if len(same) == 1 {
			return digests[0], problems, nil
		}
		if !Sleep(ctx, 100*time.Millisecond) {
			return "", problems, context.Cause(ctx)
		}
	}
	problem("the controllers do not reach the same index")
	return "", problems, nil
}

// checkOf asks one controller.
func checkOf(ctx context.Context, d *Daemon) (*api.Check, error) {
	client, err := api.Dial("unix:" + d.Socket)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	check, _, err := client.Check(ctx)
	if err != nil {
		return nil, fmt.Errorf("check of %s: %w", d.Name, err)
	}
	return check, nil
}
