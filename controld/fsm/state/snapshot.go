package state

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/rota-hpc/rota/controld/fsm/admission"
	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/index"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/fsm/versions"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/model/witness"
)

// snapshotFormat names the form of a snapshot. Every script is written once, before the first job
// that has it; jobs name it by its digest.
const snapshotFormat = "rota-snapshot/1"

// snapshotHead is the first line of a snapshot.
type snapshotHead struct {
	Format  string        `json:"format"`
	Data    string        `json:"data_format"` // see [DataFormat]
	Index   uint64        `json:"index"`
	At      model.Instant `json:"at"`
	Wall    model.UnixMS  `json:"wall"`
	LastJob model.JobID   `json:"last_job"`
	LastSeq int64         `json:"last_seq"`
	Trimmed int64         `json:"trimmed"`
	Leased  model.Instant `json:"leased_until,omitempty"`

	Statistics *estimate.Statistics `json:"statistics,omitempty"`
}

// snapshotLine is any other line: one of its fields is set. The last line is End, the number of
// records before it, so that a snapshot that was cut off is told from a whole one.
type snapshotLine struct {
	Config      *cluster.Config         `json:"config,omitempty"`
	Trust       *trust.Trust            `json:"trust,omitempty"`
	Recovery    *generation.Recovery    `json:"recovery,omitempty"`
	Witnesses   *witness.Chosen         `json:"witnesses,omitempty"`
	Steering    *steering.Steering      `json:"steering,omitempty"`
	Versions    *versions.History       `json:"config_versions,omitempty"`
	Account     *cluster.CreatedAccount `json:"account,omitempty"`
	Group       *cluster.GroupAccount   `json:"group_account,omitempty"`
	Token       *trust.APIToken         `json:"api_token,omitempty"`
	Node        *model.Node             `json:"node,omitempty"`
	Freed       model.Instant           `json:"freed,omitempty"` // of Node: see [View.FreedAt]
	Text        *storedText             `json:"text,omitempty"`
	Job         *model.StoredJob        `json:"job,omitempty"`
	Scripts     []string                `json:"scripts,omitempty"` // of Job: digest of every task's, "" for one without
	Reservation *model.Reservation      `json:"reservation,omitempty"`
	Usage       *estimate.PastUse       `json:"usage,omitempty"`
	Key         *index.Key              `json:"key,omitempty"`
	End         *int64                  `json:"end,omitempty"`
}

// WriteSnapshot writes the state, one JSON value a line, each kind in order. A head comes first,
// then configuration, members, generation, witnesses, steering, accounts, API tokens, nodes, jobs,
// reservations, usage and idempotency keys. Equal states are written alike, byte for byte. Derived
// values are left out.
func (v *View) WriteSnapshot(w io.Writer) error {
	buf := bufio.NewWriterSize(w, 1<<16)
	head := snapshotHead{snapshotFormat, DataFormat, v.index, v.at, v.wall, v.lastJob, v.lastSeq, v.trimmed, v.leasedUntil,
		v.statistics}
	lines := json.NewEncoder(buf)
	if err := lines.Encode(head); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	var n int64
	for r := range v.snapshotLines {
		if err := lines.Encode(&r); err != nil {
			return fmt.Errorf("write snapshot: %w", err)
		}
		n++
	}
	if err := lines.Encode(&snapshotLine{End: &n}); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return buf.Flush()
}

// snapshotLines yields the snapshot's records but the last.
func (v *View) snapshotLines(yield func(snapshotLine) bool) {
	if !yield(snapshotLine{Config: v.config}) || !yield(snapshotLine{Trust: v.trust}) {
		return
	}
	if v.recovery.Generation.Number > 0 && !yield(snapshotLine{Recovery: v.recovery}) {
		return
	}
	if v.chosen.Last > 0 && !yield(snapshotLine{Witnesses: v.chosen}) {
		return
	}
	if len(v.steering.Settings) > 0 && !yield(snapshotLine{Steering: v.steering}) {
		return
	}
	if (len(v.versions.Versions) > 0 || v.versions.File != "") && !yield(snapshotLine{Versions: v.versions}) {
		return
	}
	for _, a := range v.accounts {
		if !yield(snapshotLine{Account: a}) {
			return
		}
	}
	for _, g := range v.groupAccounts {
		if !yield(snapshotLine{Group: &g}) {
			return
		}
	}
	for _, t := range v.tokens {
		if !yield(snapshotLine{Token: t}) {
			return
		}
	}
	for i, n := range v.nodes {
		if !yield(snapshotLine{Node: n, Freed: v.FreedAt(i)}) {
			return
		}
	}
	written := map[*model.Text]bool{}
	for j := range v.jobs.Values() {
		if !snapshotLines(j, written, yield) {
			return
		}
	}
	for _, r := range v.reservations {
		if !yield(snapshotLine{Reservation: r}) {
			return
		}
	}
	for _, u := range v.usage.Sorted(v.at) {
		if !yield(snapshotLine{Usage: u}) {
			return
		}
	}
	for k := range v.keys.Values() {
		if !yield(snapshotLine{Key: k}) {
			return
		}
	}
}

// ReadSnapshot returns the state that was written. Everything derived is made anew.
func ReadSnapshot(r io.Reader) (*State, error) {
	d := json.NewDecoder(bufio.NewReaderSize(r, 1<<16))
	var head snapshotHead
	if err := d.Decode(&head); err != nil {
		return nil, fmt.Errorf("read snapshot: head: %w: %w", model.ErrSnapshot, err)
	}
	if head.Format != snapshotFormat || head.Data != DataFormat {
		return nil, fmt.Errorf("read snapshot: it has format %q with data format %q, but this program reads %q with %q: %w",
			head.Format, head.Data, snapshotFormat, DataFormat, model.ErrSnapshot)
	}
	d.DisallowUnknownFields()
	s := New(cluster.Config{})
	s.v.index, s.v.at, s.v.wall = head.Index, head.At, head.Wall
	s.v.lastJob, s.v.lastSeq, s.v.trimmed, s.v.leasedUntil = head.LastJob, head.LastSeq, head.Trimmed, head.Leased
	s.v.statistics = head.Statistics
	s.loading = true
	if err := s.readRecords(d); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	s.loading = false
	if err := s.derive(); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return s, nil
}

func (s *State) readRecords(d *json.Decoder) error {
	for n := int64(0); ; n++ {
		var r snapshotLine
		if err := d.Decode(&r); err != nil {
			return fmt.Errorf("record %d: %w: %w", n, model.ErrSnapshot, err)
		}
		if r.End != nil {
			if _, err := d.Token(); *r.End != n || !errors.Is(err, io.EOF) {
				return fmt.Errorf("ends after %d of %d records: %w", n, *r.End, model.ErrSnapshot)
			}
			return nil
		}
		if err := s.load(&r); err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
	}
}

// load stores one record. Values that it refers to come before it.
func (s *State) load(r *snapshotLine) error {
	switch {
	case r.Config != nil:
		s.v.config, s.v.models = r.Config, modelsIn(r.Config)
		s.v.limited, s.v.queueNodes = r.Config.HasLimits(), r.Config.NodesByQueue()
		return admission.CheckConfig(r.Config)
	case r.Trust != nil:
		s.v.trust = r.Trust
		return nil
	case r.Recovery != nil:
		s.v.recovery = r.Recovery
		return r.Recovery.Check()
	case r.Witnesses != nil:
		s.v.chosen = r.Witnesses
		return r.Witnesses.Check()
	case r.Steering != nil:
		s.v.steering = r.Steering
		return nil
	case r.Versions != nil:
		return s.loadVersions(r.Versions)
	case r.Account != nil:
		s.v.accounts = append(s.v.accounts, r.Account)
		return nil
	case r.Group != nil:
		s.v.groupAccounts = append(s.v.groupAccounts, *r.Group)
		return nil
	case r.Token != nil:
		s.v.tokens = append(s.v.tokens, r.Token)
		return nil
	case r.Node != nil:
		return s.loadNode(r.Node, r.Freed)
	case r.Job != nil:
		return s.loadStored((*model.Job)(r.Job), r.Scripts)
	case r.Text != nil:
		return s.loadText(r.Text)
	case r.Reservation != nil:
		s.v.reservations = append(s.v.reservations, r.Reservation)
		return nil
	case r.Usage != nil:
		return s.v.usage.Load(r.Usage, s.v.at)
	case r.Key != nil:
		s.v.keys.Remember(r.Key)
		return nil
	}
	return fmt.Errorf("it has no known field: %w", model.ErrSnapshot)
}

func (s *State) loadNode(n *model.Node, freed model.Instant) error {
	if err := admission.CheckInventory(n); err != nil {
		return err
	}
	if i := len(s.v.nodes); i > 0 && s.v.nodes[i-1].Name >= n.Name {
		return fmt.Errorf("node %s is out of order: %w", n.Name, model.ErrSnapshot)
	}
	if freed < 0 || freed > s.v.at {
		return fmt.Errorf("node %s has had room since %d, which is after the last instant: %w", n.Name, freed,
			model.ErrSnapshot)
	}
	s.v.holdings.Set(int64(len(s.v.nodes)), &holding{modified: s.v.index, freed: freed})
	s.v.nodes = append(s.v.nodes, n)
	s.restock(nil, n)
	return nil
}
