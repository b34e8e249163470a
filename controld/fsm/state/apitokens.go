package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/model/trust"
)

// APITokens returns the API tokens by id, those included that have expired since one was last made
// or revoked. The caller must not change it.
func (v *View) APITokens() []*trust.APIToken { return v.tokens }

// APIToken returns the token with an id, or nil. It may have expired.
func (v *View) APIToken(id string) *trust.APIToken {
	if i, ok := v.findToken(id); ok {
		return v.tokens[i]
	}
	return nil
}

func (v *View) findToken(id string) (int, bool) {
	return slices.BinarySearchFunc(v.tokens, id,
		func(t *trust.APIToken, id string) int { return strings.Compare(t.ID, id) })
}

// AddAPIToken adds a token whose id the state does not have.
func (s *State) AddAPIToken(t *trust.APIToken) {
	i, _ := s.v.findToken(t.ID)
	s.v.tokens = slices.Insert(slices.Clone(s.v.tokens), i, t)
}

// DropTokens drops the API tokens that del selects.
func (s *State) DropTokens(del func(*trust.APIToken) bool) {
	s.v.tokens = slices.DeleteFunc(slices.Clone(s.v.tokens), del)
}

// checkTokens says whether the API tokens are in order, once each, complete, and not too many.
func (v *View) checkTokens() error {
	if len(v.tokens) > trust.MaxAPITokens {
		return fmt.Errorf("%d API tokens; at most %d are allowed", len(v.tokens), trust.MaxAPITokens)
	}
	for i, t := range v.tokens {
		if !t.WellFormed() || i > 0 && v.tokens[i-1].ID >= t.ID {
			return fmt.Errorf("API token %q is out of order, or incomplete", t.ID)
		}
	}
	return nil
}
