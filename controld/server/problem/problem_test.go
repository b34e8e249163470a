package problem

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
)

// TestProblemOfAnotherMachine tells a caller on the network how it can be identified.
func TestProblemOfAnotherMachine(t *testing.T) {
	p := Of(fmt.Errorf("%w: %w", identity.ErrUnauthorised, identity.ErrNotLocal))
	if p.Status != http.StatusUnauthorized || p.Code != api.CodeUnauthorised ||
		!strings.Contains(p.Hint, "ssh -L PATH:"+api.DefaultSocket) {
		t.Errorf("%+v", p)
	}
}
