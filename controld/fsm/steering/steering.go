// Package steering is what operators have told the scheduler: which of its parts are paused, and
// whether it only records which jobs it would displace.
package steering

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// Switch names what an operator turns on and off.
type Switch string

// Switches. All but DryRun are parts of scheduling that are paused while the switch is on.
const (
	Preemption Switch = "preemption" // no job is asked to leave, or to give up workers, for another
	Growth     Switch = "growth"     // elastic jobs are not resized for their own sake
	Migration  Switch = "migration"  // no job moves: for another, for its own sake or to even out nodes
	Slicing    Switch = "slicing"    // no job is suspended so that jobs take turns
	Packing    Switch = "packing"    // no jobs are put on one GPU
	All        Switch = "all"        // no start, no reservation, and none of the above
	DryRun     Switch = "dry-run"    // displacements are recorded and not carried out
)

// Switches lists all switches, those of pauses first.
var Switches = []Switch{Preemption, Growth, Migration, Slicing, Packing, All, DryRun}

// Known reports whether there is such a switch.
func (s Switch) Known() bool { return slices.Contains(Switches, s) }

// MaxReason is the length of a reason in bytes.
const MaxReason = 1024

// Setting is a switch that is on.
type Setting struct {
	What   Switch      `json:"what"`
	By     string      `json:"by"` // user that turned it on
	Reason string      `json:"reason,omitempty"`
	Since  model.Stamp `json:"since"`
}

// Steering is all that is turned on. A value is replaced and never changed. A nil one has nothing.
type Steering struct {
	Settings      []Setting      `json:"settings,omitempty"`      // by What
	Displacements []Displacement `json:"displacements,omitempty"` // recorded by a dry run, oldest first
}

// Setting returns the setting of one switch, nil if it is off.
func (s *Steering) Setting(what Switch) *Setting {
	if s == nil {
		return nil
	}
	for i := range s.Settings {
		if s.Settings[i].What == what {
			return &s.Settings[i]
		}
	}
	return nil
}

// Paused returns what pauses a part of scheduling, its own switch or that of all parts; nil if it
// goes on.
func (s *Steering) Paused(what Switch) *Setting { return cmp.Or(s.Setting(what), s.Setting(All)) }

// Forbids returns what keeps the scheduler from doing something of a part: a pause, or for
// displacements the dry run; nil if nothing does.
func (s *Steering) Forbids(what Switch) *Setting {
	if p := s.Paused(what); p != nil {
		return p
	}
	// what makes room for one job makes it for another: a migration is for the job that needs the room
	if what == Migration && s.Setting(Preemption) != nil {
		return s.Setting(Preemption)
	}
	if what != "" && what != Growth {
		return s.Setting(DryRun)
	}
	return nil
}

// WithoutDryRun returns what would hold if the dry run were over.
func (s *Steering) WithoutDryRun() *Steering {
	if s.Setting(DryRun) == nil {
		return s
	}
	return &Steering{Settings: slices.DeleteFunc(slices.Clone(s.Settings),
		func(x Setting) bool { return x.What == DryRun })}
}

// TurnOn returns the steering with a switch on. One that is on stays so since when it is; a further
// reason takes the place of the present one.
func (s *Steering) TurnOn(on Setting) *Steering {
	next := &Steering{Settings: slices.Clone(s.Settings), Displacements: s.Displacements}
	at, found := slices.BinarySearchFunc(next.Settings, on.What, bySwitch)
	if !found {
		next.Settings = slices.Insert(next.Settings, at, on)
		return next
	}
	if on.Reason != "" {
		next.Settings[at].By, next.Settings[at].Reason = on.By, on.Reason
	}
	return next
}

// TurnOff returns the steering with a switch off. That of all parts ends the pauses of single ones
// too. Records of a dry run end with it.
func (s *Steering) TurnOff(what Switch) *Steering {
	next := &Steering{Displacements: s.Displacements}
	for _, x := range s.Settings {
		if x.What != what && (what != All || x.What == DryRun) {
			next.Settings = append(next.Settings, x)
		}
	}
	if what == DryRun {
		next.Displacements = nil
	}
	return next
}

func bySwitch(x Setting, what Switch) int { return cmp.Compare(x.What, what) }

// Check returns why a steering cannot be.
func (s *Steering) Check() error {
	if s == nil {
		return errors.New("the steering is missing")
	}
	for i, x := range s.Settings {
		switch {
		case !x.What.Known():
			return fmt.Errorf("switch %q is unknown", x.What)
		case i > 0 && s.Settings[i-1].What >= x.What:
			return fmt.Errorf("switch %q is out of order", x.What)
		case len(x.Reason) > MaxReason:
			return fmt.Errorf("the reason of switch %q is too long", x.What)
		}
	}
	if len(s.Displacements) > MaxDisplacements {
		return fmt.Errorf("%d displacements are recorded, at most %d", len(s.Displacements), MaxDisplacements)
	}
	if len(s.Displacements) > 0 && s.Setting(DryRun) == nil {
		return errors.New("displacements are recorded, but no dry run is on")
	}
	return nil
}
