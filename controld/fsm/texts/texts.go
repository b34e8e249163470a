// Package texts stores equal parts of jobs once: scripts by their digest, and specifications,
// groups and short strings. A packed job points to these shared parts, so that 100,000 jobs of a
// sweep take little more memory than one.
package texts

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Store holds the shared parts of jobs. The zero value is empty. Sharing saves memory and changes
// nothing else.
type Store struct {
	contents map[model.Digest]*model.Text // scripts of jobs in the state

	jobs    map[string]*jobspec.Job
	groups  map[string]sharedGroups
	strings map[string]string
	spec    jobspec.Job // the specification that is being packed
	env     []byte      // its environment

	numbered uint64 // the last number given to groups
}

// Pack takes the long parts out of a new job's specification, and shares the rest with jobs that
// have an equal rest. A second Pack changes nothing.
func (s *Store) Pack(j *model.Job) {
	if j.Texts != nil {
		return
	}
	spec := &s.spec
	*spec = *j.Spec
	j.Texts = s.takeTexts(spec)
	j.Spec = s.skeleton(spec)
	*spec = jobspec.Job{}
	j.Account, j.Queue = s.intern(j.Account), s.intern(j.Queue)
	j.Class = jobspec.Class(s.intern(string(j.Class)))
	j.Owner.User, j.Owner.Home = s.intern(j.Owner.User), s.intern(j.Owner.Home)
}

// takeTexts moves the long parts out of a copy of a specification, whose groups it leaves as they
// are if they have none.
func (s *Store) takeTexts(spec *jobspec.Job) *model.Texts {
	t := model.Texts{}
	env := s.env[:0]
	if model.HasTexts(spec.Groups) {
		spec.Groups = slices.Clone(spec.Groups)
	}
	filled := false
	tasks := 0
	for i := range spec.Groups {
		g := &spec.Groups[i]
		if model.HasTexts(spec.Groups[i : i+1]) {
			g.Tasks = slices.Clone(g.Tasks)
		}
		for n := range g.Tasks {
			task := &g.Tasks[n]
			env = model.PackMap(env, task.Env)
			if task.Script != "" {
				t.Scripts = append(t.Scripts, make([]*model.Text, tasks+1-len(t.Scripts))...)
				t.Scripts[tasks] = s.content(task.Script)
			}
			filled = filled || len(task.Env) > 0
			if task.Script != "" || task.Env != nil {
				task.Script, task.Env = "", nil
			}
			tasks++
		}
	}
	env = model.PackMap(env, spec.ExportEnv)
	filled = filled || len(spec.ExportEnv) > 0
	spec.ExportEnv = nil
	if t.Scripts != nil {
		t.Scripts = slices.Clip(append(t.Scripts, make([]*model.Text, tasks-len(t.Scripts))...))
	}
	if s.env = env[:0]; cap(env) > maxSkeletonLen {
		s.env = nil
	}
	switch {
	case filled:
		t.Env = string(env)
	case t.Scripts == nil:
		return model.NoTexts
	}
	return &model.Texts{Scripts: t.Scripts, Env: t.Env}
}

// content returns the one copy of a script, which counts as used once a job that has it is stored.
func (s *Store) content(script string) *model.Text {
	digest := model.Digest(sha256.Sum256([]byte(script)))
	if t := s.contents[digest]; t != nil {
		return t
	}
	t := &model.Text{Digest: digest, Text: script}
	if s.contents == nil {
		s.contents = map[model.Digest]*model.Text{}
	}
	s.contents[digest] = t
	return t
}

// Keep counts a job's scripts as used by one more job.
func (s *Store) Keep(j *model.Job) {
	if j.Texts == nil {
		return
	}
	for _, t := range j.Texts.Scripts {
		if t != nil && s.contents[t.Digest] == t {
			t.Refs++
		}
	}
}

// Drop is the reverse of Keep, and forgets a script that no job has any more.
func (s *Store) Drop(j *model.Job) {
	if j.Texts == nil {
		return
	}
	for _, t := range j.Texts.Scripts {
		if t == nil || s.contents[t.Digest] != t {
			continue
		}
		if t.Refs--; t.Refs == 0 {
			delete(s.contents, t.Digest)
		}
	}
}

// Bounds of what is remembered to be shared. Beyond one the memory begins anew: nothing depends on
// it.
const (
	maxSkeletons   = 4096
	maxSkeletonLen = 4096 // as JSON; of longer ones, with the rows of an array for one, there are few
	maxInterned    = 65_536
	maxInternLen   = 256
)

// skeleton returns a specification equal to spec that is shared as far as possible: whole if it was
// seen before, else at least its groups. It does not keep spec itself, of which it takes the groups
// away.
func (s *Store) skeleton(spec *jobspec.Job) *jobspec.Job {
	groups, number := s.shareGroups(spec.Groups)
	spec.Groups = nil // they are told by their number
	key, err := json.Marshal(spec)
	key = binary.AppendUvarint(key, number)
	whole := err == nil && number > 0 && len(key) <= maxSkeletonLen
	if known := s.jobs[string(key)]; whole && known != nil {
		return known
	}
	kept := new(jobspec.Job)
	*kept = *spec
	kept.Groups = groups
	if whole {
		s.jobs = roomFor(s.jobs)
		s.internSpec(kept)
		s.jobs[string(key)] = kept
	}
	return kept
}

// roomFor returns what is remembered to be shared with room for more, begun anew if there is too
// much of it.
func roomFor[T any](known map[string]T) map[string]T {
	if known == nil {
		return map[string]T{}
	}
	if len(known) >= maxSkeletons {
		clear(known) // which keeps its size: it will grow to that again
	}
	return known
}

// sharedGroups are groups that other jobs may have too.
type sharedGroups struct {
	groups []jobspec.Group
	number uint64 // from 1; never given twice
}

// shareGroups returns groups that are alike and that other jobs may have too, and their number: 0
// if they are not shared.
func (s *Store) shareGroups(groups []jobspec.Group) ([]jobspec.Group, uint64) {
	key, err := json.Marshal(groups)
	if err != nil || len(key) > maxSkeletonLen {
		return groups, 0
	}
	known, ok := s.groups[string(key)]
	if !ok {
		s.groups = roomFor(s.groups)
		s.numbered++
		known = sharedGroups{groups, s.numbered}
		s.groups[string(key)] = known
	}
	return known.groups, known.number
}

// internSpec lets a specification share the strings that many have.
func (s *Store) internSpec(spec *jobspec.Job) {
	for _, text := range []*string{&spec.Queue, &spec.Account, &spec.Workdir, &spec.SubmitDir, &spec.SubmitHost} {
		*text = s.intern(*text)
	}
	spec.Class = jobspec.Class(s.intern(string(spec.Class)))
}

// intern returns the one copy of a short string that is likely to be used often.
func (s *Store) intern(text string) string {
	if text == "" || len(text) > maxInternLen {
		return text
	}
	if known, ok := s.strings[text]; ok {
		return known
	}
	if s.strings == nil || len(s.strings) >= maxInterned {
		s.strings = map[string]string{}
	}
	text = strings.Clone(text)
	s.strings[text] = text
	return text
}

// Script returns the script with a digest, nil if the store does not have it.
func (s *Store) Script(digest model.Digest) *model.Text { return s.contents[digest] }

// Find returns the stored copy of a script, nil if there is none.
func (s *Store) Find(script string) *model.Text { return s.contents[sha256.Sum256([]byte(script))] }

// Load stores a script from a snapshot, which the jobs that follow in the snapshot use. It returns
// false if the script is stored already.
func (s *Store) Load(script string) bool {
	if s.contents[sha256.Sum256([]byte(script))] != nil {
		return false
	}
	s.content(script)
	return true
}

// Check compares the index of scripts with the jobs that have them.
func (s *Store) Check(jobs iter.Seq[*model.Job], note func(error)) {
	refs := map[*model.Text]int{}
	for j := range jobs {
		if j.Texts == nil {
			note(fmt.Errorf("job %d keeps its specification whole", j.ID))
			continue
		}
		for _, t := range j.Texts.Scripts {
			if t != nil {
				refs[t]++
			}
		}
	}
	for digest, t := range s.contents {
		if t.Digest != digest || t.Refs != refs[t] || t.Refs == 0 {
			note(fmt.Errorf("script %x is recorded with %d uses, but has %d", digest, t.Refs, refs[t]))
		}
		delete(refs, t)
	}
	if len(refs) > 0 {
		note(fmt.Errorf("%d scripts of jobs are not in their index", len(refs)))
	}
}
