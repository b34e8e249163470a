package controld

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
)

// TestNoMachineJoinsUnderTheNameOfAVoter has a machine join as a controller that is down. It notices a machine that
// gets the vote of another log with the name.
func TestNoMachineJoinsUnderTheNameOfAVoter(t *testing.T) {
	servers := startThree(t, nil)
	leader, others := leaderOf(t, servers)
	name := others[0].cfg.Name
	token, err := leader.client(user(0)).CreateJoinToken(t.Context(), "controller")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := pki.ParseToken(token.Token)
	if err != nil {
		t.Fatal(err)
	}
	others[0].stop()
	eventually(t, "refusal of the name of a voter", func() error {
		_, err := api.Join(t.Context(), leader.addrs.HTTP, parsed, pki.Controller, name, pki.Dir(t.TempDir()))
		var p *api.Problem
		if !errors.As(err, &p) || !strings.Contains(p.Error(), "has a vote") {
			return fmt.Errorf("it is answered with %w", err) // at first the controller counts as up
		}
		return nil
	})
}
