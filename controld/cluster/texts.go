package cluster

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// A queue may hold a hundred thousand jobs that differ in a script, a few variables or a name. So what is long is kept apart from a job's
// specification and once for all that have it, environments are packed, and what remains of a specification is shared by all jobs in which
// it is the same.

// Digest is the SHA-256 of a text.
type Digest [sha256.Size]byte

// text is a script. It never changes but for refs, which belongs to the state in whose index it is.
type text struct {
	digest Digest
	text   string
	refs   int // jobs that have it, counted once for each task
}

// texts is what was taken out of a job's specification: see [Job.FullSpec]. It never changes.
type texts struct {
	scripts []*text // of every task, group by group; nil if no task has one
	env     string  // the environments of every task and then the exported one, packed; "" if all are empty
}

// noTexts is the texts of jobs that have none.
var noTexts = &texts{}

// FullSpec returns a job's specification as it was submitted. [Job.Spec] is the same but for the scripts and the environments of tasks, and
// what was exported, which it may lack: few need them, and they are most of a job. The caller must not change it.
func (j *Job) FullSpec() *jobspec.Job {
	return j.specWith(true)
}

// specWith returns a job's specification with its environments and, if asked for, its scripts.
func (j *Job) specWith(scripts bool) *jobspec.Job {
	t := j.texts
	if t == nil || t == noTexts {
		return j.Spec
	}
	spec := *j.Spec
	spec.Groups = slices.Clone(spec.Groups)
	env, k := t.env, 0
	for i := range spec.Groups {
		g := &spec.Groups[i]
		g.Tasks = slices.Clone(g.Tasks)
		for n := range g.Tasks {
			if scripts && t.scripts != nil && t.scripts[k] != nil {
				g.Tasks[n].Script = t.scripts[k].text
			}
			g.Tasks[n].Env, env = unpackMap(env)
			k++
		}
	}
	spec.ExportEnv, _ = unpackMap(env)
	return &spec
}

// storedJob is a Job in a snapshot, and without methods: its Spec is as the caller has made it.
type storedJob Job

// MarshalJSON implements json.Marshaler: a job has its whole specification wherever it goes.
func (j Job) MarshalJSON() ([]byte, error) {
	j.Spec = j.FullSpec()
	return json.Marshal(storedJob(j))
}

// pack takes the long parts out of a new job's specification and shares the rest with jobs that have the same. Doing it twice changes nothing.
func (s *State) pack(j *Job) {
	if j.texts != nil {
		return
	}
	spec := &s.shared.spec
	*spec = *j.Spec
	j.texts = s.takeTexts(spec)
	j.Spec = s.skeleton(spec)
	*spec = jobspec.Job{}
	j.Account, j.Queue = s.intern(j.Account), s.intern(j.Queue)
	j.Class = jobspec.Class(s.intern(string(j.Class)))
	j.Owner.User, j.Owner.Home = s.intern(j.Owner.User), s.intern(j.Owner.Home)
}

// takeTexts moves the long parts out of a copy of a specification, whose groups it leaves as they are if they have none.
func (s *State) takeTexts(spec *jobspec.Job) *texts {
	t := texts{}
	env := s.shared.env[:0]
	if hasTexts(spec.Groups) {
		spec.Groups = slices.Clone(spec.Groups)
	}
	filled := false
	tasks := 0
	for i := range spec.Groups {
		g := &spec.Groups[i]
		if hasTexts(spec.Groups[i : i+1]) {
			g.Tasks = slices.Clone(g.Tasks)
		}
		for n := range g.Tasks {
			task := &g.Tasks[n]
			env = packMap(env, task.Env)
			if task.Script != "" {
				t.scripts = append(t.scripts, make([]*text, tasks+1-len(t.scripts))...)
				t.scripts[tasks] = s.content(task.Script)
			}
			filled = filled || len(task.Env) > 0
			if task.Script != "" || task.Env != nil {
				task.Script, task.Env = "", nil
			}
			tasks++
		}
	}
	env = packMap(env, spec.ExportEnv)
	filled = filled || len(spec.ExportEnv) > 0
	spec.ExportEnv = nil
	if t.scripts != nil {
		t.scripts = slices.Clip(append(t.scripts, make([]*text, tasks-len(t.scripts))...))
	}
	if s.shared.env = env[:0]; cap(env) > maxSkeletonLen {
		s.shared.env = nil
	}
	switch {
	case filled:
		t.env = string(env)
	case t.scripts == nil:
		return noTexts
	}
	return &texts{t.scripts, t.env}
}

// hasTexts reports whether a task of groups has anything that is kept apart.
func hasTexts(groups []jobspec.Group) bool {
	for i := range groups {
		for n := range groups[i].Tasks {
			if t := &groups[i].Tasks[n]; t.Script != "" || t.Env != nil {
				return true
			}
		}
	}
	return false
}

// packMap appends a map as the number of its entries and then every key and value, by key, each behind its length.
func packMap(b []byte, m map[string]string) []byte {
	b = binary.AppendUvarint(b, uint64(len(m)))
	if len(m) == 0 { // most of the time
		return b
	}
	text := func(t string) { b = append(binary.AppendUvarint(b, uint64(len(t))), t...) }
	for _, k := range slices.Sorted(maps.Keys(m)) {
		text(k)
		text(m[k])
	}
	return b
}

// unpackMap is the reverse of packMap; it also returns what follows.
func unpackMap(packed string) (map[string]string, string) {
	n, packed := unpackLength(packed)
	if n == 0 {
		return nil, packed
	}
	m := make(map[string]string, n)
	for range n {
		var k, v string
		k, packed = unpackString(packed)
		v, packed = unpackString(packed)
		m[k] = v
	}
	return m, packed
}

func unpackString(packed string) (s, rest string) {
	n, packed := unpackLength(packed)
	return packed[:n], packed[n:]
}

// unpackLength reads a number as binary.AppendUvarint writes it.
func unpackLength(packed string) (int, string) {
	n := 0
	for i := range len(packed) {
		n |= int(packed[i]&0x7f) << (7 * i)
		if packed[i] < 0x80 {
			return n, packed[i+1:]
		}
	}
	return 0, ""
}

// content returns the one copy of a script, which counts as used once a job that has it is stored.
func (s *State) content(script string) *text {
	digest := Digest(sha256.Sum256([]byte(script)))
	if t := s.contents[digest]; t != nil {
		return t
	}
	t := &text{digest: digest, text: script}
	if s.contents == nil {
		s.contents = map[Digest]*text{}
	}
	s.contents[digest] = t
	return t
}

// keepTexts counts a job's scripts as used by one more job.
func (s *State) keepTexts(j *Job) {
	if j.texts == nil {
		return
	}
	for _, t := range j.texts.scripts {
		if t != nil && s.contents[t.digest] == t {
			t.refs++
		}
	}
}

// dropTexts is the reverse of keepTexts, and forgets a script that nobody has any more.
func (s *State) dropTexts(j *Job) {
	if j.texts == nil {
		return
	}
	for _, t := range j.texts.scripts {
		if t == nil || s.contents[t.digest] != t {
			continue
		}
		if t.refs--; t.refs == 0 {
			delete(s.contents, t.digest)
		}
	}
}

// Bounds of what is remembered to be shared. Beyond one the memory begins anew: nothing depends on it.
const (
	maxSkeletons   = 4096
	maxSkeletonLen = 4096 // as JSON; of longer ones, with the rows of an array for one, there are few
	maxInterned    = 65_536
	maxInternLen   = 256
)

// skeleton returns a specification that is as spec and shared as far as possible: whole if it has been seen before, else at least its groups.
// It does not keep spec itself, of which it takes the groups away.
func (s *State) skeleton(spec *jobspec.Job) *jobspec.Job {
	groups, number := s.shareGroups(spec.Groups)
	spec.Groups = nil // they are told by their number
	key, err := json.Marshal(spec)
	key = binary.AppendUvarint(key, number)
	whole := err == nil && number > 0 && len(key) <= maxSkeletonLen
	if known := s.shared.jobs[string(key)]; whole && known != nil {
		return known
	}
	kept := new(jobspec.Job)
	*kept = *spec
	kept.Groups = groups
	if whole {
		s.shared.jobs = roomFor(s.shared.jobs)
		s.internSpec(kept)
		s.shared.jobs[string(key)] = kept
	}
	return kept
}

// roomFor returns what is remembered to be shared with room for more, begun anew if there is too much of it.
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

// shareGroups returns groups that are alike and that other jobs may have too, and their number: 0 if they are not shared.
func (s *State) shareGroups(groups []jobspec.Group) ([]jobspec.Group, uint64) {
	key, err := json.Marshal(groups)
	if err != nil || len(key) > maxSkeletonLen {
		return groups, 0
	}
	known, ok := s.shared.groups[string(key)]
	if !ok {
		s.shared.groups = roomFor(s.shared.groups)
		s.shared.numbered++
		known = sharedGroups{groups, s.shared.numbered}
		s.shared.groups[string(key)] = known
	}
	return known.groups, known.number
}

// internSpec lets a specification share the strings that many have.
func (s *State) internSpec(spec *jobspec.Job) {
	for _, text := range []*string{&spec.Queue, &spec.Account, &spec.Workdir, &spec.SubmitDir, &spec.SubmitHost} {
		*text = s.intern(*text)
	}
	spec.Class = jobspec.Class(s.intern(string(spec.Class)))
}

// intern returns the one copy of a short string that is likely to be used often.
func (s *State) intern(text string) string {
	if text == "" || len(text) > maxInternLen {
		return text
	}
	if known, ok := s.shared.strings[text]; ok {
		return known
	}
	if s.shared.strings == nil || len(s.shared.strings) >= maxInterned {
		s.shared.strings = map[string]string{}
	}
	text = strings.Clone(text)
	s.shared.strings[text] = text
	return text
}

// shared is what new jobs may have in common with others. It is no part of the state: it only saves memory.
type shared struct {
	jobs    map[string]*jobspec.Job
	groups  map[string]sharedGroups
	strings map[string]string
	spec    jobspec.Job // being packed
	env     []byte      // of it

	numbered uint64 // the last number given to groups
}
