// Package versions is the versions of the replicated configuration that a cluster remembers.
package versions

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// Max is how many versions are remembered, the present one included.
const Max = 20

// MaxComment is the length of a comment in bytes.
const MaxComment = 1024

// Version is one configuration that was in force.
type Version struct {
	Number  int             `json:"number"` // from 1; the greatest is in force
	By      string          `json:"by,omitempty"`
	Comment string          `json:"comment,omitempty"`
	Made    model.Stamp     `json:"made"`
	Config  *cluster.Config `json:"config"`
}

// History is the last versions, oldest first. A value is replaced and never changed. The first
// version of a cluster is what its log starts from, and has the number 1 without being listed.
type History struct {
	Versions []Version `json:"versions,omitempty"`
	// File is the digest of the last configuration that a controller's file has given. A leader
	// proposes its file if that is another, so that what an admin has applied is not undone by the
	// next change of leader.
	File string `json:"file,omitempty"`
}

// Number is that of the version in force.
func (h *History) Number() int {
	if n := len(h.Versions); n > 0 {
		return h.Versions[n-1].Number
	}
	return 1
}

// Version returns the version with a number, nil if it is not remembered.
func (h *History) Version(number int) *Version {
	for i := range h.Versions {
		if h.Versions[i].Number == number {
			return &h.Versions[i]
		}
	}
	return nil
}

// Add returns the history with a further version. The first one that is made brings the one before
// it along, so that a cluster can go back to what it began with.
func (h *History) Add(before *cluster.Config, next Version, file string) *History {
	all := slices.Clone(h.Versions)
	if len(all) == 0 {
		all = append(all, Version{Number: 1, Config: before})
	}
	next.Number = all[len(all)-1].Number + 1
	all = append(all, next)
	return &History{Versions: all[max(0, len(all)-Max):], File: file}
}

// Check returns why a history cannot be, given the configuration in force.
func (h *History) Check(now *cluster.Config) error {
	n := len(h.Versions)
	switch {
	case n > Max:
		return fmt.Errorf("%d versions of the configuration, at most %d", n, Max)
	case n > 0 && h.Versions[n-1].Config != now:
		return errors.New("the last version of the configuration is not the one in force")
	}
	for i := range h.Versions {
		if v := &h.Versions[i]; v.Config == nil || v.Number < 1 || i > 0 && h.Versions[i-1].Number != v.Number-1 {
			return fmt.Errorf("version %d of the configuration is out of order, or empty", v.Number)
		}
	}
	return nil
}
