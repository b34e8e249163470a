package state

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/admission"
	"github.com/rota-hpc/rota/controld/fsm/versions"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// ConfigVersions returns the versions of the configuration that are remembered, never nil.
func (v *View) ConfigVersions() *versions.History { return v.versions }

// NoteConfigFile remembers which configuration a controller's file has given last.
func (s *State) NoteConfigFile(digest string) {
	next := *s.v.versions
	next.File = digest
	s.v.versions = &next
}

// AddConfigVersion remembers a configuration that has been put in force in place of another one.
func (s *State) AddConfigVersion(before *cluster.Config, by, comment string) {
	s.v.versions = s.v.versions.Add(before, versions.Version{By: by, Comment: comment, Made: s.Now(), Config: s.v.config},
		s.v.versions.File)
}

// loadVersions stores the versions of a snapshot. The last one is the configuration in force.
func (s *State) loadVersions(h *versions.History) error {
	s.v.versions = h
	for i := range h.Versions {
		v := &h.Versions[i]
		if v.Config == nil {
			return fmt.Errorf("version %d of the configuration is empty: %w", v.Number, model.ErrSnapshot)
		}
		if err := admission.CheckConfig(v.Config); err != nil {
			return fmt.Errorf("version %d of the configuration: %w", v.Number, err)
		}
	}
	if n := len(h.Versions); n > 0 {
		h.Versions[n-1].Config = s.v.config
	}
	return nil
}
