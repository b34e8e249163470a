package state

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

// TestBytesAreChecked notices counts of bytes that no check compares with the jobs.
func TestBytesAreChecked(t *testing.T) {
	for name, spoil := range map[string]func(*State){
		"a user that holds none": func(s *State) { s.held.add(77, 5); s.held.add(78, -5) },
		"all users":              func(s *State) { s.v.specBytes++ },
		"a script of no job":     func(s *State) { s.held.scripts[userScript{1000, &model.Text{Text: "x"}}] = 1 },
		"a script of more jobs": func(s *State) {
			for j := range s.v.Jobs() {
				for _, t := range j.Texts.Scripts {
					t.Held++
				}
			}
		},
		"a child that counts twice": func(s *State) { s.v.Job(newScene(t).task.ID).SpecBytes = 7 },
	} {
		s := newScene(t)
		if err := s.s.Check(); err != nil {
			t.Fatal(err)
		}
		spoil(s.s)
		if err := s.s.Check(); err == nil || !strings.Contains(err.Error(), "specification") {
			t.Errorf("%s: the check says %v", name, err)
		}
	}
	if user, all := Fork(newScene(t).s.View()).HeldBytes(1000); user != 0 || all != newScene(t).s.v.specBytes {
		t.Errorf("a fork has %d of %d bytes", user, all)
	}
}
