package bundle

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api/directory"
	"github.com/rota-hpc/rota/controld/model"
)

// TestGroupsOfAJob: a job has the groups alone that its node knows its user in, whatever its login node
// vouches for.
func TestGroupsOfAJob(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var answer error
	asked := 0
	o := &owners{now: func() time.Time { return now }, groups: func(uid uint32) ([]uint32, error) {
		asked++
		if answer != nil {
			return nil, answer
		}
		if uid == 1000 {
			return []uint32{1000, 50, 60}, nil
		}
		return nil, directory.ErrUnknown
	}}
	for what, c := range map[string]struct {
		vouched, want model.Identity
	}{
		"known groups": {model.Identity{UID: 1000, GID: 1000, GIDs: []uint32{50, 60}},
			model.Identity{UID: 1000, GID: 1000, GIDs: []uint32{50, 60}}},
		"a group of root and the disks": {model.Identity{UID: 1000, GID: 1000, GIDs: []uint32{0, 6, 50}},
			model.Identity{UID: 1000, GID: 1000, GIDs: []uint32{50}}},
		"newgrp to a group of its own": {model.Identity{UID: 1000, GID: 60, GIDs: []uint32{50, 1000}},
			model.Identity{UID: 1000, GID: 60, GIDs: []uint32{50, 1000}}},
		"a primary group of root": {model.Identity{UID: 1000, GID: 0, GIDs: []uint32{60, 1000}},
			model.Identity{UID: 1000, GID: 1000, GIDs: []uint32{60}}},
		"an unknown user": {model.Identity{UID: 7, GID: 7, GIDs: []uint32{50}},
			model.Identity{UID: 7, GID: 7, GIDs: []uint32{}}},
		"an unknown user with a group of root": {model.Identity{UID: 7, GID: 0}, model.Identity{UID: 7, GID: noGroup}},
	} {
		got, err := o.narrow(c.vouched)
		if err != nil || got.GID != c.want.GID || len(got.GIDs)+len(c.want.GIDs) > 0 &&
			!reflect.DeepEqual(got.GIDs, c.want.GIDs) {
			t.Errorf("%s: %+v, %v, want %+v", what, got, err, c.want)
		}
	}
	if asked != 2 {
		t.Errorf("the database was asked %d times about two users", asked)
	}
	now, answer = now.Add(2*ownersFor), errors.New("no answer")
	if _, err := o.narrow(model.Identity{UID: 1000}); !errors.Is(err, ErrUserDatabase) {
		t.Errorf("a database that fails: %v", err)
	}
	answer = directory.ErrNoAnswer
	if _, err := o.narrow(model.Identity{UID: 1000}); !errors.Is(err, ErrUserDatabase) {
		t.Errorf("a user that is unknown while a service is down: %v", err)
	}
	if answer = nil; true {
		if _, err := o.narrow(model.Identity{UID: 1000}); err != nil {
			t.Errorf("a failure is remembered: %v", err)
		}
	}
}

// TestRootIsKnown: the machine's own database is asked as it is.
func TestRootIsKnown(t *testing.T) {
	gids, err := groupsOf(0)
	if err != nil || len(gids) == 0 || gids[0] != 0 {
		t.Errorf("the groups of root: %v, %v", gids, err)
	}
	if _, err := groupsOf(4_000_000_000); err == nil {
		t.Error("a user without an account is known")
	}
}
