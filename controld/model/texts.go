package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// A queue may hold a hundred thousand jobs that differ in a script, a few variables or a name. So
// long texts are kept apart from specifications, once for all jobs that have them, and environments
// are packed. Jobs with the same remaining specification share it.

// Digest is the SHA-256 of a text.
type Digest [sha256.Size]byte

// Text is a script. It never changes but for refs, which belongs to the state in whose index it is.
type Text struct {
	Digest Digest
	Text   string
	Refs   int // jobs that have it, counted once for each task
	// jobs of user HeldBy that have it, for the user's bytes
	HeldBy uint32
	Held   int32
}

// Texts is what was taken out of a job's specification: see [Job.FullSpec]. It never changes.
type Texts struct {
	Scripts []*Text // of every task, group by group; nil if no task has one
	Env     string  // the environments of every task and then the exported one, packed; "" if all are empty
}

// NoTexts is the texts of jobs that have none.
var NoTexts = &Texts{}

// FullSpec returns a job's specification as it was submitted. [Job.Spec] is the same, except that
// it may lack scripts, environments of tasks and exported variables. Few readers need them, and
// they are most of a job. The caller must not change it.
func (j *Job) FullSpec() *jobspec.Job {
	return j.SpecWith(true)
}

// SpecWith returns a job's specification with its environments and, if asked for, its scripts.
func (j *Job) SpecWith(scripts bool) *jobspec.Job {
	t := j.Texts
	if t == nil || t == NoTexts {
		return j.Spec
	}
	spec := *j.Spec
	spec.Groups = slices.Clone(spec.Groups)
	env, k := t.Env, 0
	for i := range spec.Groups {
		g := &spec.Groups[i]
		g.Tasks = slices.Clone(g.Tasks)
		for n := range g.Tasks {
			if scripts && t.Scripts != nil && t.Scripts[k] != nil {
				g.Tasks[n].Script = t.Scripts[k].Text
			}
			g.Tasks[n].Env, env = unpackMap(env)
			k++
		}
	}
	spec.ExportEnv, _ = unpackMap(env)
	return &spec
}

// StoredJob is a Job in a snapshot, and without methods: its Spec is as the caller has made it.
type StoredJob Job

// MarshalJSON implements json.Marshaler: a job has its whole specification wherever it goes.
func (j Job) MarshalJSON() ([]byte, error) {
	j.Spec = j.FullSpec()
	return json.Marshal(StoredJob(j))
}

// HasTexts reports whether a task of groups has anything that is kept apart.
func HasTexts(groups []jobspec.Group) bool {
	for i := range groups {
		for n := range groups[i].Tasks {
			if t := &groups[i].Tasks[n]; t.Script != "" || t.Env != nil {
				return true
			}
		}
	}
	return false
}

// PackMap appends a map as the number of its entries and then every key and value, by key, each
// behind its length.
func PackMap(b []byte, m map[string]string) []byte {
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
